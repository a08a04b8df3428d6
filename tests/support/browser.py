"""A real browser for tests: Debian's chromium or another one that is installed, driven by playwright."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tiers import needed

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
NARROWEST_PX = 320
_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
# Contrast takes axe a millisecond an element. In long tables it is measured once for cells that look the same: of equal
# colours, fonts and opacity, as all that they lie in.
_ALIKE_ONCE = """() => {
  const looks = new Map([[null, ""]]), seen = new Set();
  const look = (element) => {
    if (!looks.has(element)) {
      const { color, backgroundColor, backgroundImage, opacity, font, textShadow } = getComputedStyle(element);
      const own = [element.tagName, color, backgroundColor, backgroundImage, opacity, font, textShadow];
      looks.set(element, look(element.parentElement) + own.join());
    }
    return looks.get(element);
  };
  for (const element of document.querySelectorAll("tbody *")) {
    if (seen.has(look(element))) element.setAttribute("data-alike", "");
    seen.add(look(element));
  }
  axe.configure({ rules: [{ id: "color-contrast", selector: "*:not([data-alike])" }] });
}"""


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


@dataclass
class Visit:
    """An open page, what it asked the network for, and what it said was wrong."""

    page: Any
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def visible(self) -> list[float]:
        """Return the range that the first timeline shows."""
        shown: list[float] = self.page.evaluate("ta.strips[0].v")
        return shown

    def wait_for(self, expression: str) -> None:
        """Wait until an expression holds; playwright's own way needs what the page's policy forbids."""
        for _ in range(100):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never: {expression}")


@contextmanager
def visit(browser: Any, file: Path, fragment: str = "", **options: Any) -> Iterator[Visit]:
    """Open a page without a network; afterwards it must have asked for nothing but itself, and found nothing wrong."""
    context = browser.new_context(
        **{"viewport": {"width": 1200, "height": 900}, "offline": True, "reduced_motion": "reduce", **options}
    )
    seen = Visit(context.new_page())
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
    seen.page.on("console", lambda message: seen.errors.append(message.text) if message.type == "error" else None)
    try:
        seen.page.goto(file.as_uri() + fragment)
        yield seen
        assert [url for url in seen.requests if not url.startswith("data:")] == [file.as_uri()]
        assert seen.errors == []
    finally:
        context.close()


def check_accessibility(browser: Any, file: Path, *, fits_phones: bool = False, **options: Any) -> None:
    """Assert that axe finds nothing in a page, which also asks for nothing but itself and says no error.

    With `fits_phones`, it must not scroll sideways on the narrowest one either.
    """
    axe = Path(needed("axe_playwright_python").__file__ or "").parent / "axe.min.js"
    with visit(browser, file, **options) as seen:
        seen.page.evaluate(axe.read_text(encoding="utf-8"))
        seen.page.evaluate(_ALIKE_ONCE)
        found = seen.page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((all) => all.violations)")
        if fits_phones:
            seen.page.set_viewport_size({"width": NARROWEST_PX, "height": 800})
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= NARROWEST_PX
    violations = [(rule["id"], rule["impact"], [node["html"][:160] for node in rule["nodes"][:3]]) for rule in found]
    assert violations == [], json.dumps(violations, indent=1)
