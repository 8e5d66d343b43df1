"""Work that tells how far it is."""

from itertools import islice
from threading import Event, active_count

import pytest

from demo.panels.export import reports
from visualizers.moving import MovingError, Report


def test_progress_arrives_while_the_work_goes_on_and_its_error_at_the_end() -> None:
    go_on = Event()

    def work(report: Report) -> None:
        report(1, 2)
        assert go_on.wait(60)
        report(2, 2)
        raise MovingError("too long")

    progress = reports(work)
    assert next(progress) == (1, 2)
    go_on.set()
    assert next(progress) == (2, 2)
    with pytest.raises(MovingError, match="too long"):
        next(progress)


def test_work_ends_when_nobody_waits_for_it() -> None:
    before, reported, seen = active_count(), [], Event()

    def work(report: Report) -> None:
        for number in range(10_000):
            report(number, 10_000)
            reported.append(number)
            if number == 3:
                assert seen.wait(60)

    said = reports(work)
    assert len(list(islice(said, 3))) == 3
    seen.set()
    said.close()
    assert len(reported) < 10_000
    assert active_count() == before
