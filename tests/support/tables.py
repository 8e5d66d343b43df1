"""The tables of docs/trace.md, fates and measures, by the code: `python -m support.tables`, run in tests."""

from collections.abc import Iterable, Sequence
from typing import Literal

from draftscope.traces.measures import FREE_PREFIX, MEASURES, Measure
from draftscope.traces.replay import PENDING
from draftscope.traces.schema import FATES


def markdown() -> str:
    """The tables of docs/trace.md: fates and measures."""
    effects = {fate: "final" if fate.final else "pending" if fate in PENDING else "open" for fate in FATES}
    fates = [(f"`{fate}`", says, effects[fate], "yes" if fate.judged else "") for fate, says in FATES.items()]
    parts = [
        "## Fates",
        _table(("fate", "meaning", "the position is then", "counts as judged"), fates),
        "## Measures",
        f"Names that begin with `{FREE_PREFIX}` are free for experiments.",
        "### Per position (`numbers`)",
        _measures_table("position"),
        "### Per step (`signals`)",
        _measures_table("step"),
    ]
    return "\n\n".join(parts)


def _measures_table(per: Literal["position", "step"]) -> str:
    rows = [
        (f"`{name}`", measure.meaning.replace("|", "\\|"), ", ".join(filter(None, (measure.unit, _range(measure)))))
        for name, measure in MEASURES.items()
        if measure.per == per
    ]
    return _table(("name", "meaning", "unit, range"), rows)


def _range(measure: Measure) -> str:
    if measure.low is None:
        return ""
    return f"from {measure.low:g}" if measure.high is None else f"{measure.low:g} to {measure.high:g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    print(markdown())
