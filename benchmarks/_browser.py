"""Chromium for measurements and tests, without sandbox or graphics card."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic"]


def find_chromium() -> str | None:
    """Return the path of Chromium or Chrome; None if there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


@contextmanager
def chromium(path: str) -> Iterator[Browser]:
    """Run a browser, by the path of its program."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()
