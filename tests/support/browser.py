"""A real browser for tests: Debian's chromium or another one that is installed, driven by playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tiers import needed

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def browser_path() -> str:
    """Return the program of a browser; where there is none, a test skips, but in continuous integration it fails."""
    named = os.environ.get("TRACEANALYZER_BROWSER")
    path = named or next((found for name in _NAMES if (found := shutil.which(name))), None)
    if path is None and _MAC.exists():
        path = str(_MAC)
    if path is None:
        words = "no browser: install chromium (apt-get install chromium), or name one with TRACEANALYZER_BROWSER"
        if os.environ.get("CI"):
            pytest.fail(f"{words}; continuous integration has to try the page in one", pytrace=False)
        pytest.skip(words)
    return path


@contextmanager
def opened_browser() -> Iterator[Any]:
    """Yield a browser; it is offline in every page that tests open."""
    path = browser_path()
    playwright = needed("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(_OPTIONS))
        try:
            yield browser
        finally:
            browser.close()
