"""Passes and times by window are read field by field, and drawn with their errors."""

import json
import re

import pytest

from visualizers import TIMING_FIGURES, SweepError

ROW = {"kind": "video", "decoder": "GS-SJD", "window": 64, "nfe_ratio": 8.5, "nfe_ratio_error": 0.5}
ROW |= {"time_ratio": 3.0, "time_ratio_error": 0.25}


def test_passes_by_window_are_drawn_with_their_errors() -> None:
    rows = [{**ROW, "window": None}, ROW, {**ROW, "window": 16, "nfe_ratio": 4.0}, {**ROW, "kind": "<b>x</b>"}]
    figure = TIMING_FIGURES["windows"].draw_file(json.dumps({"title": "<i>here</i>", "rows": rows}).encode())
    video = [line for line in figure.data if line.name == "GS-SJD, video"]
    assert [(list(line.x), list(line.y)) for line in video] == [([16, 64], [4.0, 8.5]), ([16, 64], [3.0, 3.0])]
    assert list(video[0].error_y.array) == [0.5, 0.5]
    assert "&lt;b&gt;" in figure.data[-1].name and "&lt;i&gt;" in figure.layout.title.subtitle.text


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "rows: none has a window"),
        ([{**ROW, "window": -1}], "rows[0].window"),
        ([ROW, {**ROW, "time_ratio": "fast"}], "rows[1].time_ratio: 'fast'"),
        ([{"window": 4}], "rows[0].kind"),
        ("no list", "rows: there are none"),
    ],
)
def test_windows_that_make_no_sense_are_named(rows: object, words: str) -> None:
    with pytest.raises(SweepError, match=re.escape(words)):
        TIMING_FIGURES["windows"].read(json.dumps({"rows": rows}).encode())
