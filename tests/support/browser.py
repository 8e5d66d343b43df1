"""Chromium for tests, without sandbox or graphics card."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

expect.set_options(timeout=20_000)  # a busy machine is slow, not wrong

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    if path is None:
        pytest.skip("needs Chromium or Chrome on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()


def press_once(page: Page, button: str, *, there: str = "body") -> None:
    """Press a button as soon as it and something else are there: while something runs a button may move, or go."""
    page.wait_for_function(
        """([button, there]) => {
          const found = document.querySelector(button);
          return found?.checkVisibility() && document.querySelector(there) && (found.click(), true);
        }""",
        arg=[button, there],
        timeout=60_000,
    )
