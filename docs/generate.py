"""Rewrites what documents have from the code: `python docs/generate.py`; with --check, only compares.

A generated part of a document lies between `<!-- begin NAME -->` and `<!-- end -->`. A NAME of the form
`$ COMMAND` is a screen: the command as a user types it at the repository's root, and what it prints.
docs/rules/ and docs/metrics/ hold generated pages alone, one for each rule, metric and table. docs/traceanalyzer.1 is
the manual page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pages.metric_pages import metric_pages
from pages.parts import ROOT, generated
from pages.rule_pages import rule_pages

from traceanalyzer.cli import cli
from traceanalyzer.commands.man import manual_page

PAGES: Mapping[Path, Callable[[], dict[str, str]]] = {
    ROOT / "docs" / "rules": rule_pages,
    ROOT / "docs" / "metrics": metric_pages,
}
MANUAL_PAGE = ROOT / "docs" / "traceanalyzer.1"
_PART = re.compile(r"(?P<begin><!-- begin (?P<name>.+?) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def main() -> int:
    """Rewrite or compare every document; with --check, return 1 when one differs."""
    check = "--check" in sys.argv[1:]
    stale = [path for path in documents() if renew(path, write=not check)]
    for folder in PAGES:
        stale += renew_pages(folder, write=not check)
    stale += [MANUAL_PAGE] if renew_manual_page(write=not check) else []
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'differs from the code; run `make docs`' if check else 'rewritten'}")
    return 1 if check and stale else 0


def documents() -> list[Path]:
    """Return the documents that have generated parts."""
    return [
        ROOT / "README.md",
        *(ROOT / "docs" / f"{name}.md" for name in ("architecture", "comparison", "glossary", "json")),
    ]


def renew(path: Path, *, write: bool) -> bool:
    """Return whether a document's generated parts differ from what the code says; `write` rewrites them."""
    old = path.read_text(encoding="utf-8")
    new = _PART.sub(lambda part: part["begin"] + generated(part["name"]) + part["end"], old)
    if write and new != old:
        path.write_text(new, encoding="utf-8")
    return new != old


def renew_manual_page(*, write: bool) -> bool:
    """Return whether the manual page differs from the code; `write` rewrites it."""
    text = manual_page(cli, "traceanalyzer")
    differs = not MANUAL_PAGE.exists() or MANUAL_PAGE.read_text(encoding="utf-8") != text
    if write and differs:
        MANUAL_PAGE.write_text(text, encoding="utf-8")
    return differs


def renew_pages(folder: Path, *, write: bool) -> list[Path]:
    """Return the pages of a folder that differ from the code or belong to nothing; `write` rewrites or removes them."""
    stale = []
    wanted = {folder / name: text for name, text in PAGES[folder]().items()}
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if write:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    for path in (old for old in sorted(folder.glob("*")) if old not in wanted):
        stale.append(path)
        if write:
            path.unlink()
    return stale


if __name__ == "__main__":
    sys.exit(main())
