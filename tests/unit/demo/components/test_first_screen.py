"""The beginning of the page has what the first race needs, and asks for nothing but fonts."""

import json
import re

from draftscope.demo.components.first_screen import FONTS, first_screen
from draftscope.demo.components.viewer import recorded_pairs_message
from draftscope.demo.jobs.recordings import Recording, pairs
from draftscope.demo.serve import font_answer
from draftscope.visualizers import player


def test_the_first_race_is_part_of_the_page(recorded: tuple[Recording, ...]) -> None:
    offered = pairs(recorded)
    message = recorded_pairs_message(offered)
    html = first_screen(message, list(offered[0].recording.traces))
    data = json.loads(re.search(r'id="first-data">(.*?)</script>', html, re.DOTALL)[1])  # type: ignore[index]
    first = data["offer"]["pairs"][0]
    assert [trace["url"] for trace in first["traces"]] == first["urls"]
    assert [len(trace["steps"]) for trace in first["traces"]] == [len(t.steps) for t in offered[0].recording.traces]
    assert "traces" not in (message or {})["pairs"][0]  # what gradio sends stays as small as it was
    assert html.count("</script>") == 2 and "$" not in re.sub(r"<script>.*|`[^`]*`", "", html, flags=re.DOTALL)
    loaded = re.findall(r'(?:href|src)="(?!#)([^"]+)"|url\(([^)]+)\)', html.partition("<script>")[0])
    assert {one or other for one, other in loaded} == {f"{FONTS}{name}" for name in player.FONTS.values()}
    for name in player.FONTS.values():
        assert font_answer(name).media_type == "font/woff2"


def test_without_recordings_the_page_has_its_frame() -> None:
    assert '"offer":null' in first_screen(None, []) and "Draftscope</b>" in first_screen(None, [])
