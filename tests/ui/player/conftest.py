"""A page for the player."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from support.browser import visit


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page on which any script error fails the test."""
    options = {"color_scheme": "light", "reduced_motion": "no-preference", **getattr(request, "param", {})}
    with visit(browser, console=True, **options) as opened:
        yield opened
