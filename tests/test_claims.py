"""Published conclusions: a verdict follows from the size of its effects, and what ships follows from the results."""

import json
import math

import pytest

from benchmarks.claims import cspd
from benchmarks.claims.__main__ import conclusions
from benchmarks.claims.conclusion import RESULTS, Conclusion, Effect, difference, runs
from traces.pairing import Estimate

PLUS, MINUS, NONE = (Effect("", Estimate(mean, 1.0, 4)) for mean in (1.5, -1.5, 1.4))


@pytest.mark.parametrize(
    ("effects", "verdict"),
    [
        *(((PLUS,), "holds"), ((PLUS, PLUS), "holds"), ((PLUS, NONE), "partly"), ((PLUS, MINUS), "partly")),
        *(((NONE,), "fails"), ((MINUS, NONE), "fails"), ((MINUS, MINUS), "opposite"), ((), "fails")),
    ],
)
def test_three_standard_errors_decide(effects: tuple[Effect, ...], verdict: str) -> None:
    assert Conclusion("Fig. 1", "It works", effects).verdict == verdict


def test_what_has_no_error_decides_only_where_it_is_the_same_each_time() -> None:
    assert difference("", [2.0], [1.0]).sign == 0, "a single run"
    assert difference("", [2.0, 3.0], [1.0, 2.0]).sign == 1
    assert difference("", [1.0, 1.0], [1.0, 1.0]).sign == 0
    assert difference("", [1.0, 1.0], [1.0, 1.0], margin=0.1).sign == 1
    assert Conclusion("Table 3", "", needs="weights").verdict == "needs weights"


@pytest.mark.slow
def test_what_ships_is_what_the_shipped_sweeps_say() -> None:
    rows = json.loads((RESULTS / "claims.json").read_text())["rows"]
    read = [each.row(paper) for paper in ("S2D2", "PSD", "SimSD") for each in conclusions(paper, 2)]
    shipped = [row for row in rows if row["method"] in ("s2d2", "psd", "simsd")]
    anew = [(row["method"], row["place"]) for row, own in zip(shipped, read, strict=True) if row != own]
    assert anew == [("s2d2", "Table 4"), ("s2d2", "Figs. 2, 5, 6"), ("psd", "Fig. 6")]
    found = {row["method"] for row in rows}
    assert found == {"scd", "s2d2", "psd", "simsd", "cspd"}


@pytest.mark.slow
def test_pictures_and_vectors_are_decoded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_the_plane(method: str, count: int, **values: object) -> list[float]:
        """Patches take a minute; tests of their own decode them."""
        made = runs(method, "toy-field", [None] * count, gamma=4, **values)
        return [trace.summary.accepted / trace.summary.judged for trace in made]

    monkeypatch.setattr(cspd, "_patches", in_the_plane)
    found = [conclusion for paper in ("SCD", "CSpD") for conclusion in conclusions(paper, 3)]
    rows = json.loads((RESULTS / "claims.json").read_text())["rows"]
    masked = next(conclusion for conclusion in found if conclusion.place == "Table 9")
    assert masked.row("CSpD") in rows and masked.verdict == "partly", "read from the shipped result"
    sizes = [effect.size for conclusion in found if conclusion is not masked for effect in conclusion.effects]
    assert all(math.isfinite(size.mean) and size.runs in (2, 3) for size in sizes)
    aligned = next(conclusion for conclusion in found if conclusion.place == "Table 4")
    assert aligned.effects[0].size.mean > 0.4
