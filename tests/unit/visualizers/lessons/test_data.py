"""Data of the lessons are those of the traces and results."""

from typing import Any

import pytest

from draftscope.visualizers.lessons import data


@pytest.fixture(scope="module")
def exact() -> Any:
    return data.lesson_data("exact")


def test_the_words_of_a_place_are_the_likeliest_of_a_rejected_draft_and_add_up_to_one(exact: Any) -> None:
    trace = data.recorded("speculative-lighthouse")
    assert len(exact["places"]) == 3
    for words in exact["places"]:
        assert len(words["words"]) == len(words["p"]) == len(words["q"]) == 5
        assert sum(words["p"]) == pytest.approx(1) == sum(words["q"])
        assert min(*words["p"], *words["q"]) >= 0
        assert trace.output.text is not None and words["sentence"] in " ".join(trace.output.text.split())
        overlap = sum(map(min, words["p"], words["q"]))
        assert 0.1 < overlap < 0.9  # something passes, and something does not


def test_measured_speeds_are_those_of_the_report() -> None:
    points = data.lesson_data("passes")["measured"]
    assert [gamma for gamma, _ in points] == sorted({gamma for gamma, _ in points}) and len(points) > 4
    assert dict(points)[2] == 1.598


def test_a_missing_recording_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(data, "TRACES", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"lessons: speculative-lighthouse\.json\.gz is missing"):
        data.lesson_data("exact")
