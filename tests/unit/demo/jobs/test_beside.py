"""Replicates as a table: pairs of prompt and seed, with intervals."""

from dataclasses import replace

from support import handmade

from draftscope.demo.jobs.beside import comparison_table, paired_table
from draftscope.traces.schema import Trace


def run(method: str, prompt: str, seed: int, forwards: int, seconds: float) -> Trace:
    trace = {"ar": handmade.ar, "s2d2": handmade.s2d2}[method]()
    summary = replace(trace.summary, forwards=forwards, seconds=seconds, tokens=10, complete=True)
    return replace(trace, prompt=prompt, seed=seed, summary=summary, steps=())


ORDINARY = [run("ar", "a", seed, 10, 1.0) for seed in range(4)]
FAST = [run("s2d2", "a", seed, 6 + seed % 2, 0.5 + 0.01 * seed) for seed in range(4)]


def test_runs_are_compared_pair_by_pair_with_intervals() -> None:
    table = paired_table([*ORDINARY, *FAST])
    (row,) = (dict(zip(table["heads"], cells, strict=True)) for cells in table["rows"])
    assert row["Pairs"] == "4" and row["Time"] == "faster"
    # the mean of -4, -3, -4, -3 is -3.5, s = 0.577, t = 3.182, n = 4
    assert row["Target passes"] == "−3.5 (−4.4 to −2.6)"
    # of the logarithms of 2, 1.961, 1.923 and 1.887 the mean is 0.6638, s = 0.0250
    assert row["Times as fast"] == "1.94× (1.87 to 2.02)"
    assert "compared with ordinary decoding, run by run" in table["more"].lower()
    assert "over the seeds" in table["more"]
    assert set(table["files"]) == {"paired.csv", "paired.md", "paired.tex"}


def test_several_prompts_are_the_units_and_equal_times_are_no_difference() -> None:
    other = [replace(trace, prompt="b") for trace in (*ORDINARY, *FAST)]
    table = paired_table([*ORDINARY, *FAST, *other])
    assert "over the prompts, the seeds of each averaged first" in table["more"]
    assert table["rows"][0][1] == "8"
    even = [run("s2d2", "a", seed, 10, 1.0 + 0.1 * (-1) ** seed) for seed in range(4)]
    assert paired_table([*ORDINARY, *even])["rows"][0][-1] == "no difference shown"


def test_nothing_is_said_of_a_single_pair_or_of_no_runs() -> None:
    assert paired_table([]) == paired_table(ORDINARY) == paired_table([ORDINARY[0], FAST[0]]) == {}


def test_large_numbers_have_no_powers_of_ten() -> None:
    table = comparison_table([replace(trace, summary=replace(trace.summary, query_tokens=2040)) for trace in ORDINARY])
    assert "2,040" in table["rows"][0] and "e+" not in str(table["rows"])
