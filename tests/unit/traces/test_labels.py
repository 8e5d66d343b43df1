"""Names of runs, and what tells runs of one method apart."""

from dataclasses import replace

from support import handmade

from draftscope.traces.labels import ORDINARY, is_baseline, labels, method_name

SCD = {"window": "8", "coupling": "maximal"}
USUAL, SHORT, LONG = (
    handmade.ar(),
    *(replace(handmade.scd(), config=SCD | {"window": window}) for window in ("8", "16")),
)
TEXT = replace(handmade.s2d2(), method="blockwise", variant="", config={"block": "1"})


def test_runs_have_the_names_of_the_field_and_say_what_sets_them_apart() -> None:
    assert labels([USUAL, SHORT, replace(SHORT, config=SCD | {"coupling": "none"})]) == (ORDINARY, "MC-SJD", "SJD")
    assert labels([USUAL, SHORT, LONG]) == (ORDINARY, "MC-SJD, window 8", "MC-SJD, window 16")
    assert labels([SHORT, replace(LONG, seed=9)]) == ("MC-SJD, window 8, seed 7", "MC-SJD, window 16, seed 9")
    assert labels([SHORT, SHORT]) == ("MC-SJD", "MC-SJD (2)")
    assert is_baseline(TEXT) and not is_baseline(replace(TEXT, config={"block": "1", "cache": "prefix"}))
    assert method_name(replace(TEXT, config={"block": "8"})) == "Block diffusion"
    assert method_name(replace(TEXT, method="psd", variant="Spiffy")) == "Spiffy"
    assert method_name(replace(TEXT, method="custom")) == "custom"
