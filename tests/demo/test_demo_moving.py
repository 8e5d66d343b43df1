"""Work that tells how far it is, and the names of the runs that are shown in motion."""

from dataclasses import replace
from itertools import islice
from threading import Event, active_count

import pytest
from support.raster import decoded

from demo.panels.export import _names, in_words, reports
from traces.schema import Canvas
from visualizers.moving import Film, Look, MovingError, Report


def test_progress_arrives_while_the_work_goes_on() -> None:
    go_on = Event()

    def work(report: Report) -> None:
        report(1, 2)
        assert go_on.wait(10)
        report(2, 2)

    said = reports(work)
    assert next(said) == (1, 2)
    go_on.set()
    assert list(said) == [(2, 2)]


def test_the_error_of_the_work_comes_at_the_end() -> None:
    def work(report: Report) -> None:
        report(1, 2)
        raise MovingError("too long")

    said = reports(work)
    assert next(said) == (1, 2)
    with pytest.raises(MovingError, match="too long"):
        next(said)


def test_work_ends_when_nobody_waits_for_it() -> None:
    before, reported, seen = active_count(), [], Event()

    def work(report: Report) -> None:
        for number in range(10_000):
            report(number, 10_000)
            reported.append(number)
            if number == 3:
                assert seen.wait(10)

    said = reports(work)
    assert len(list(islice(said, 3))) == 3
    seen.set()
    said.close()  # type: ignore[attr-defined]
    assert len(reported) < 10_000
    assert active_count() == before


def test_lanes_are_named_after_their_methods_unless_these_are_the_same() -> None:
    ordinary, coupled = decoded("ar"), decoded("scd", window=16)
    assert _names([ordinary, coupled]) == ("Ordinary decoding, one token at a time", "Speculative Coupled Decoding")
    assert _names([coupled, replace(coupled, seed=1)]) == ()
    assert _names([replace(ordinary, method="<b>"), replace(coupled, variant="SJD")]) == ("<b>", "SJD")


def test_what_is_wrong_is_said_without_settings_that_the_page_lacks() -> None:
    flat = replace(decoded("ar"), canvas=Canvas(kind="image", shape=(1, 60_000)))
    with pytest.raises(MovingError) as caught:
        Film([flat], Look())
    assert in_words(caught.value) == (
        "a canvas of 1 x 60000 tokens does not fit. No setting of this page helps; the command python -m visualizers "
        "has some that do."
    )
    assert in_words(MovingError("The time is over.")) == "The time is over."
