"""Limits of a server."""

from dataclasses import replace

import pytest

from draftscope.demo.server.limits import LOCAL_LIMITS, PUBLIC, read_limits
from draftscope.engines.settings import ConfigError


def test_the_environment_says_which_limits_hold() -> None:
    assert read_limits({}) == LOCAL_LIMITS and read_limits({"SPACE_ID": "somebody/draftscope"}) == PUBLIC
    variables = {"SPACE_ID": "a/b", "DRAFTSCOPE_RUN_SECONDS": "2.5", "DRAFTSCOPE_PER_ADDRESS": "none"}
    assert read_limits(variables) == replace(PUBLIC, run_seconds=2.5, per_address=None)
    for wrong in ("0", "-1", "x", "nan", "2.5"):
        with pytest.raises(ConfigError, match=r"DRAFTSCOPE_WAITING: .* use a whole number from 1, or none"):
            read_limits({"DRAFTSCOPE_WAITING": wrong})
