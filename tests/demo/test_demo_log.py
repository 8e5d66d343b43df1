"""What a server writes about itself: one line an event, whatever a stranger sent."""

import json
import logging

import pytest

from demo.server import log
from demo.server.queue import decoded
from engines.methods import METHODS
from engines.runtime.request import Request

HOSTILE = "a\r\n2026-01-01 INFO started\x1b[2J\u202e\u2028${x}" + "y" * 5000


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "draftscope"]


def test_an_event_is_one_line_of_plain_ascii(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "draftscope")
    log.refused("page", ValueError(HOSTILE))
    try:
        raise RuntimeError(HOSTILE)
    except RuntimeError as error:
        log.failed("page", error)
    for line in lines(caplog):
        assert line.isascii() and line.isprintable() and len(line) < 1000, line
    refused, failed = lines(caplog)
    assert json.loads(refused.partition("why=")[2]) == HOSTILE[:299] + "…"
    assert 'error="RuntimeError"' in failed and "test_demo_log.py:" in failed


def test_a_run_is_written_when_it_begins_and_ends_without_its_prompt(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "draftscope")
    asked = Request("ar", "toy-raster", "", METHODS["ar"].config(), 7)
    list(decoded([asked], lambda: False, "page"))
    running = decoded([asked], lambda: False, "page")
    next(running), next(running)
    running.close()
    about = 'kind="page" method="ar" model="toy-raster" seed=7'
    begun, done, _, left = lines(caplog)
    assert begun == f"run.begun {about}"
    assert done.startswith(f"run.ended {about} seconds=") and done.endswith(' passes=256 ended="done"')
    assert left.endswith(' passes=1 ended="left"')
    with pytest.raises(ValueError, match="draws without a prompt"):
        list(decoded([Request("ar", "toy-raster", HOSTILE, METHODS["ar"].config())], lambda: False, "page"))
    assert lines(caplog)[-1].endswith('passes=0 ended="ValueError"') and "y" * 99 not in caplog.text
