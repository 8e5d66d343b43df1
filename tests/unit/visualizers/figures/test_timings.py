"""Measured times are read field by field, and drawn unchanged."""

import json
from pathlib import Path
from typing import Any

import pytest

from draftscope.cli.main import main
from draftscope.visualizers import TIMING_FIGURES, SweepError, read_timings

ROW: dict[str, Any] = {"method": "cspd", "gamma": 8, "batch": 1, "tokens_per_verification": 3.5}
ROW |= {"tokens_expected": 3.75, "faster_median": 1.5, "faster_low_quartile": 1.25, "faster_high_quartile": 2.0}
ROW |= {"share_draft": 0.25, "share_target": 0.5, "share_head": 0.125, "share_deciding": 0.125}
ROWS = [ROW, ROW | {"gamma": 4, "faster_median": 1.25}, ROW | {"batch": 32}]
WINDOW: dict[str, Any] = {"kind": "video", "decoder": "GS-SJD", "window": 64, "nfe_ratio": 8.5, "nfe_ratio_error": 0.5}
WINDOW |= {"time_ratio": 3.0, "time_ratio_error": 0.25}


def written(rows: object = ROWS) -> bytes:
    return json.dumps({"title": "<b>Timed</b>", "rows": rows}).encode()


def test_speed_and_tokens_are_drawn_by_batch_in_the_order_of_gamma() -> None:
    timings = read_timings(written())
    figure = TIMING_FIGURES["speed-up"].draw(timings)
    faster, tokens, expected, *_ = figure.data
    assert list(faster.x) == [4, 8] and list(faster.y) == [1.25, 1.5]
    assert list(faster.error_y.array) == [0.75, 0.5] and list(faster.error_y.arrayminus) == [0, 0.25]
    assert list(tokens.y) == [3.5, 3.5] and list(expected.y) == [3.75, 3.75]
    assert [mark.name for mark in figure.data[3:]] == ["batch 32", "batch 32", "batch 32, expected"]
    assert figure.layout.title.subtitle.text == "&lt;b&gt;Timed&lt;/b&gt;"


def test_shares_stack_up_to_the_whole() -> None:
    figure = TIMING_FIGURES["time-shares"].draw(read_timings(written()))
    assert [sum(column) for column in zip(*(bar.x for bar in figure.data), strict=True)] == [100, 100, 100]
    assert list(figure.data[0].y) == ["γ 4, batch 1", "γ 8, batch 1", "γ 8, batch 32"]
    assert figure.layout.barmode == "stack" and len({bar.marker.pattern.shape for bar in figure.data}) == 4


def test_drafters_and_verdicts_are_told_apart_beside_what_drafts_may_cost() -> None:
    costed = {"acceptance": 0.5, "draft_cost": 0.25, "verify_cost": 1.25, "gamma": 1, "drafter": "mixture"}
    ways = [{"verdict": "block"}, {"verdict": "maximal"}, {"verdict": "block", "batch": 32}]
    timings = read_timings(written([ROW | costed | way for way in ways]))
    speed = TIMING_FIGURES["speed-up"].draw(timings)
    assert {mark.name for mark in speed.data} >= {"batch 1, mixture, block", "batch 1, mixture, maximal"}
    needed, measured, *others = TIMING_FIGURES["break-even"].draw(timings).data
    assert list(measured.x) == [0.25] and list(measured.y) == [0.5]
    assert [mark.xaxis for mark in others] == ["x2", "x2"] and [mark.showlegend for mark in others] == [False, False]
    for cost, acceptance in zip(needed.x, needed.y, strict=True):
        assert 1 + acceptance == pytest.approx(1.25 + cost)  # one draft yields 1 + a tokens
    assert max(needed.x) == 0.5
    old = TIMING_FIGURES["break-even"].draw(read_timings(written()))
    assert "measure again" in old.layout.annotations[0].text


def test_passes_by_window_are_drawn_with_their_errors() -> None:
    rows = [WINDOW | {"window": None}, WINDOW, WINDOW | {"window": 16, "nfe_ratio": 4.0}, WINDOW | {"kind": "<b>x</b>"}]
    figure = TIMING_FIGURES["windows"].draw(TIMING_FIGURES["windows"].read(written(rows)))
    video = [line for line in figure.data if line.name == "GS-SJD, video"]
    assert [(list(line.x), list(line.y)) for line in video] == [([16, 64], [4.0, 8.5]), ([16, 64], [3.0, 3.0])]
    assert list(video[0].error_y.array) == [0.5, 0.5]
    assert "&lt;b&gt;" in figure.data[-1].name and "&lt;b&gt;" in figure.layout.title.subtitle.text


@pytest.mark.parametrize(
    ("figure", "data", "named"),
    [
        ("speed-up", b"{", "file: is not JSON"),
        ("speed-up", b"\n", "file: is empty"),
        ("speed-up", written([]), "rows: there are none"),
        ("speed-up", written([{}]), r"rows\[0\].gamma: is missing; give what"),
        ("speed-up", written([ROW | {"gamma": 2.5}]), r"rows\[0\].gamma: 2.5 should be a valid integer"),
        ("speed-up", written([ROW | {"faster_median": 10**400}]), r"rows\[0\].faster_median: "),
        ("speed-up", b"[" + b"1," * 300_000 + b"1]", "file: holds more than 250000 values"),
        ("windows", written([WINDOW | {"window": -1}]), r"rows\[0\].window"),
        ("windows", written([WINDOW, WINDOW | {"time_ratio": "fast"}]), r"rows\[1\].time_ratio: 'fast'"),
    ],
)
def test_what_is_wrong_is_named(figure: str, data: bytes, named: str) -> None:
    with pytest.raises(SweepError, match=named):
        TIMING_FIGURES[figure].read(data)


def test_the_command_line_draws_timings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, page = tmp_path / "continuous.json", tmp_path / "page.html"
    results.write_bytes(written())
    assert main(["figure", "speed-up", "--results", str(results), "-o", str(page)]) == 0
    assert "Speed by draft length and batch" in page.read_text()
    results.write_bytes(written([{}]))
    assert main(["figure", "time-shares", "--results", str(results), "-o", str(page)]) == 1
    assert f"{results}: rows[0].gamma" in capsys.readouterr().err
