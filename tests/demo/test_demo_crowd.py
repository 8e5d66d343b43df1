"""A few visitors at once, as `python -m benchmarks.load --short` sends them, to the app that other tests use, too."""

import pytest

from benchmarks import load


@pytest.mark.slow
def test_a_short_round_of_visitors_holds(server: str) -> None:
    content = load.measured(server, lambda: 100.0, load._options(["--short"]), "python -m benchmarks.load --short")
    (row,) = content["rows"]
    assert (row["runs"], row["lost"], row["mixed"], row["light_refused"]) == (6, 0, 0, 0)
    assert row["light"] >= 3
    assert content["claims"][0]["met"] and content["command"].endswith("--short")
