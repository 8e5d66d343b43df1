"""Reports about engines as the page shows them."""

from draftscope.analysis.divergences import GreedyText, compare
from draftscope.demo.components.engine_reports import MAX_SPLITS, split_values


def test_each_split_has_both_texts_up_to_a_number() -> None:
    a = tuple(GreedyText(prompt=str(at), tokens=("x", "a", "c")) for at in range(MAX_SPLITS + 1))
    b = tuple(GreedyText(prompt=str(at), tokens=("x", "b")) for at in range(MAX_SPLITS + 1))
    values = split_values(compare(("one", "two"), a, b), a, b)
    assert len(values) == MAX_SPLITS
    assert values[0] == {
        "title": "Prompt 1, token 2", "prompt": "0", "names": ["A: one", "B: two"],
        "views": [
            {"before": "x", "marked": "a", "after": "c", "probabilities": "no log-probabilities"},
            {"before": "x", "marked": "b", "after": "", "probabilities": "no log-probabilities"},
        ],
    }  # fmt: skip
