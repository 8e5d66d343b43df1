"""Data of the lessons are those of the traces and results."""

import math
from collections import Counter
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


def test_the_churn_of_a_picture_agrees_with_its_summary() -> None:
    jacobi = data.lesson_data("jacobi")
    for name, run in (("scd-picture", jacobi["runs"]["on"]), ("scd-picture-none", jacobi["runs"]["off"])):
        summary = data.recorded(name).summary
        assert len(run["passes"]) == len(run["frames"]) == summary.forwards
        pieces = [Counter(row[piece] for row in run["passes"]) for piece in range(jacobi["side"] ** 2)]
        assert all(sum(each[letter] for letter in "arbs") == 1 for each in pieces)
        assert sum(each["a"] for each in pieces) == summary.accepted
    on, off = (jacobi["runs"][name]["average"] for name in ("on", "off"))
    assert on == pytest.approx((38.417, 2.061), abs=1e-3) and off == pytest.approx((47.333, 3.675), abs=1e-3)


def test_a_wrong_word_of_the_filling_is_replaced_by_that_of_the_text() -> None:
    first, second = data.lesson_data("blocks")["runs"]
    for run, sure, wrong in ((first, 0.8, " Paris"), (second, 0.95, "2")):
        filled = {cell["at"]: cell for cell in run["passes"][run["filling"]]["cells"]}
        assert any(cell["word"] == wrong != run["words"][at] and cell["sure"] > sure for at, cell in filled.items())
        final = {
            cell["at"]: cell["word"]
            for step in run["passes"]
            for cell in step["cells"]
            if cell["fate"] in ("accepted", "resampled", "bonus", "unmasked")
        }
        assert [final[at] for at in range(len(run["words"]))] == run["words"]
    assert "".join(first["words"]) == "The capital of France is Paris.end"
    for name, baseline in (("capital-s2d2", "capital-ordinary"), ("text-s2d2", "text-ordinary")):
        assert data.recorded(name).output.text == data.recorded(baseline).output.text  # as the lesson says
    assert first["other"].startswith("The capital of France France France")


def test_the_steps_of_a_draft_give_the_verdict_of_the_trace() -> None:
    trace, drafts = data.recorded("cspd-patch"), data.lesson_data("vectors")["drafts"]
    assert sum(draft["accepted"] for draft in drafts) == trace.summary.accepted
    assert len(drafts) == trace.summary.judged
    for draft in drafts:
        weight = 0.0
        for ratio in draft["ratios"]:
            weight = min(0.0, weight + ratio)
        assert (draft["uniform"] < math.exp(weight)) == draft["accepted"]
    accepted = [drafts[index]["accepted"] for index in data.lesson_data("vectors")["examples"]]
    assert accepted[0] and not accepted[1]
