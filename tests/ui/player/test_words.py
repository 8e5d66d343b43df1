"""The player shows text in any script: characters whole, lines within the stage, and in their own direction."""

from itertools import pairwise

import pytest
from playwright.sync_api import Page
from support.handmade import make, step
from support.player_page import go, show, stage
from support.scripts import TEXTS, cut, pieces, writing

from draftscope.traces.schema import Canvas, Legend

PLACES = """() => {
  const { script, size } = player.stage;
  const { words } = script.frame(script.passes.length, 0);
  const row = ({ word, text }) => [word.position, word.line, word.x, word.x + word.width, text ?? word.text];
  return [words.map(row), size.left, size.right, size.width];
}"""


@pytest.mark.parametrize("script", TEXTS)
def test_a_line_in_any_script_stays_on_the_stage_in_its_own_direction(page: Page, script: str) -> None:
    texts = cut((TEXTS[script] + " ") * 6, 1)
    stage(page, writing(texts))
    go(page, len(texts))
    rows, left, right, width = page.evaluate(PLACES)
    assert all(0 <= start <= end <= width for _, _, start, end, _ in rows)
    assert len({line for _, line, *_ in rows}) > 1
    written = "".join(text for *_, text in rows).replace("\u200d", "").replace(" ", "")
    assert written == (TEXTS[script] * 6).replace("\u200d", "").replace(" ", "")
    first = [row for row in rows if row[1] == 0]
    runs_left = first[0][2] > first[-1][2]
    assert runs_left is (script in ("arabic", "syriac", "nko", "hebrew"))
    assert abs(first[0][3] - right if runs_left else first[0][2] - left) < 1
    for one, other in pairwise(first):  # no word stands on another
        assert (other[3] <= one[2] + 0.5) if runs_left else (one[3] <= other[2] + 0.5)


def test_a_rejected_piece_takes_its_character_with_it(page: Page) -> None:
    fox, dog = pieces("🦊", 1, 2, 3), pieces("🐶", 1, 2, 3)
    ids = {text: number for number, text in enumerate(dict.fromkeys(fox + dog), 5)}
    drafts = [ids[text] for text in fox]
    steps = [
        step(" ".join(f"{at}:{token}=drafted" for at, token in enumerate(drafts)), role="draft"),
        step(
            f"0:{drafts[0]}=accepted 1:{drafts[1]}=accepted 2:{ids[dog[2]]}=resampled 3:{drafts[3]}=discarded",
            draft=tuple(drafts),
        ),
        step(f"3:{ids[dog[3]]}=sampled"),
    ]
    legend = Legend(vocabulary={number: text for text, number in ids.items()})
    stage(page, make("speculative", Canvas(kind="text", shape=(4,)), steps, legend=legend))
    seen = []
    for passes in (1, 2, 3):
        go(page, passes)
        rows = page.evaluate(PLACES.replace("script.passes.length", str(passes)))[0]
        seen.append("".join(text for *_, text in sorted(rows)))
    assert seen == ["🦊", "···", "🐶"]


def test_chips_run_with_their_text(page: Page) -> None:
    show(page, writing(cut(TEXTS["hebrew"], 2), prompt=TEXTS["arabic"]))
    go(page, 1000)
    boxes = page.locator(".ds-token").evaluate_all("all => all.map(chip => chip.getBoundingClientRect().x)")
    assert boxes[0] > boxes[-1]
    written = page.locator(".ds-token").evaluate_all("all => all.map(chip => chip.textContent).join('')")
    assert written.replace(" ", "") == TEXTS["hebrew"].replace(" ", "")
    assert page.locator(".ds-prompt").evaluate("node => getComputedStyle(node).direction") == "rtl"
