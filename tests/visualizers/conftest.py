"""A browser for the tests of a module."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from support.browser import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which any script error fails the test."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    page.close()
    assert errors == []
