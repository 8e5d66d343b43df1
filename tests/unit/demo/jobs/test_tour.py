"""The tour's scenes."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from draftscope.demo.jobs.recordings import FOLDER, Pair, Recording, pairs
from draftscope.demo.jobs.tour import scenes
from draftscope.traces import read
from draftscope.traces.schema import Fate


def read_scenes(
    tmp_path: Path, text: str, among: Sequence[Recording], offered: Sequence[Pair] = ()
) -> list[dict[str, object]]:
    path = tmp_path / "tour.toml"
    path.write_text(text, encoding="utf-8")
    return scenes(among, offered, path)


def test_the_shipped_tour_shows_a_rejection_and_two_ways_to_draft(shipped: tuple[Recording, ...]) -> None:
    shown = scenes(shipped, pairs(shipped))
    assert len(shown) >= 7
    assert all(one["urls"] and len(str(one["text"]).split(". ")) <= 3 for one in shown)
    draft, verify, reject, repair, settle = shown[1:6]
    run = read(FOLDER / "speculative-smollm2.json.gz")
    accepting, rejecting = (run.steps[scene["to"] - 1] for scene in (verify, reject))
    assert accepting.fate.count(Fate.ACCEPTED) >= 3 and Fate.RESAMPLED not in accepting.fate
    drafted = zip(rejecting.fate, rejecting.q or (), strict=True)  # by the trained layer, which was not certain
    assert any(fate is Fate.RESAMPLED and q is not None and 0.3 <= q <= 0.95 for fate, q in drafted)
    assert draft["from"] < draft["to"] == verify["from"] == verify["to"] and draft["until"] == verify["since"]
    assert reject["from"] == reject["to"] == repair["from"] == repair["to"] and reject["until"] == repair["since"]
    assert [str(address).rpartition("/")[2] for address in settle["urls"]] == [
        "scd-picture-none.json.gz",
        "scd-picture.json.gz",
    ]
    assert settle["fates"] is True


def test_a_scene_without_its_recording_is_left_out(tmp_path: Path, shipped: tuple[Recording, ...]) -> None:
    text = '[[scene]]\ntitle = "t"\ntext = "s"\n'
    assert read_scenes(tmp_path, text + 'files = ["ar-picture", "not-there"]\n', shipped) == []
    assert read_scenes(tmp_path, text + 'kind = "picture"\n', shipped) == []
    (one,) = read_scenes(tmp_path, text + 'kind = "text"\nsince = "swept"\n', shipped, pairs(shipped))
    assert one["since"] == "swept" and one.keys().isdisjoint({"from", "to", "until"})
    with pytest.raises(ValueError, match="pass 'soon' is not known"):
        read_scenes(tmp_path, text + 'to = "soon"\nfiles = ["ar-picture"]\n', shipped)
