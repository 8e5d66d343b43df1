"""A page for the player."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from support.browser import visit


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which any script error fails the test."""
    with visit(browser, console=True, color_scheme="light", reduced_motion="no-preference") as opened:
        yield opened
