"""The commands that kill, starve and crowd: they find what they look for, and their short forms hold."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import faults, load
from benchmarks._faulty import Ended, Fault, damage, tried
from benchmarks._kills import kills
from benchmarks._visitors import Answer, Light, disagreeing


@pytest.mark.parametrize(
    ("ended", "wrong"),
    [
        (Ended(2, "a.json: is broken; mend it\n", ()), ""),
        (Ended(0, "all went well\n", ()), "ended with 0"),
        (Ended(1, "", ()), "ended with 1 and said nothing"),
        (Ended(-9, "killed\n", ()), "ended with -9"),
        (Ended(1, "Traceback (most recent call last):\n  ...\nOSError: no\n", ()), "a traceback: OSError: no"),
        (Ended(1, "one\ntwo\n", ()), "2 lines: one / two"),
        (Ended(1, "one\n", ("a.html",)), "left a.html"),
        (Ended(74, "3 of 5\na.jsonl: cannot be written; make room\n", long=True), ""),
    ],
)
def test_one_clear_line_and_nothing_left(ended: Ended, wrong: str) -> None:
    assert ended.wrong == wrong


def test_a_killed_writer_loses_no_row_and_lets_nobody_in(tmp_path: Path) -> None:
    found = list(kills(tmp_path, 4))
    assert len(found) == 4
    assert all(one.lost == one.doubled == 0 and one.refused for one in found)


def test_a_full_disk_and_little_memory_are_a_line(tmp_path: Path) -> None:
    damage(tmp_path / "in")
    full = Fault(kind="full disk", command=("traces", "schema"), output="/dev/full")
    ended = tried(full, tmp_path / "in", tmp_path / "out")
    assert (ended.code, ended.wrong) == (74, "")
    low = Fault(kind="low", command=("traces", "show", "{in}/large.json.gz"), memory_bytes=130 * 2**20)
    ended = tried(low, tmp_path / "in", tmp_path / "out")
    assert (ended.code, ended.wrong) == (71, ""), ended.said
    assert ended.said.startswith("memory: there is not enough for this; ")


@pytest.mark.slow
def test_a_short_round_of_faults_holds(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    assert faults.main(["--short", "--json", str(path)]) == 0
    content = json.loads(path.read_text())
    assert [claim["measured"] for claim in content["claims"]] == [0, 0, 0]
    assert len({row["fault"] for row in content["rows"]}) >= 5


def answer(seed: int, told_seed: int, forwards: int) -> Answer:
    return Answer(("ar", seed), ("ar", told_seed, forwards, 0), 1, 0.5)


def test_lost_mixed_and_disagreeing_answers_are_counted() -> None:
    answers = [answer(1, 1, 9), answer(2, 1, 9), answer(1, 1, 8), Answer(("ar", 3), (), 0, 9.0, "gone")]
    assert [one.mixed for one in answers] == [False, True, False, False]
    assert disagreeing(answers) == 1
    light = Light({"/healthz": [0.1, 0.2, 3.0]}, ["/healthz: full"])
    row = load.row_of(1, 2.0, answers, light)
    assert (row["lost"], row["mixed"], row["asked_again"], row["light_refused"]) == (1, 2, 3, 1)
    rows: list[dict[str, Any]] = [row | {"megabytes": 100.0}, row | {"megabytes": 120.0}]
    runs, health, memory, freed = load.claims(rows, answers, [light], (5.0, 1.0))
    assert (runs.measured, runs.met) == (5, False)
    assert health.measured == 0.2 and "95 % within 3.00 s, 1 refused" in health.reason
    assert (memory.measured, memory.met) == (1.2, False)
    assert (freed.measured, freed.met) == (4.0, False)


def test_defaults_are_those_of_the_notes() -> None:
    assert load._options([]) == argparse.Namespace(json=None, short=False, visitors=50, runs=200, rounds=3)
    assert faults._options([]).kills == 100
