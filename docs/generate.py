"""Rewrites what documents have from the code: `python docs/generate.py`; with --check, only compares.

A generated part of a document lies between `<!-- begin NAME -->` and `<!-- end -->`. A NAME of the form
`$ COMMAND` is a screen: the command as a user types it at the repository's root, and what it prints.
docs/traceanalyzer.1 is the manual page. `docs/build_site.py` makes the pages of rules, metrics and tables.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pages.parts import ROOT, generated

from traceanalyzer.cli import cli
from traceanalyzer.commands.help import manual_page

MANUAL_PAGE = ROOT / "docs" / "traceanalyzer.1"
_PART = re.compile(r"(?P<begin><!-- begin (?P<name>.+?) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def main() -> int:
    """Rewrite or compare every document; with --check, return 1 when one differs."""
    check = "--check" in sys.argv[1:]
    stale = [path for path in documents() if renew(path, write=not check)]
    stale += [MANUAL_PAGE] if renew_manual_page(write=not check) else []
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'differs from the code; run `make docs`' if check else 'rewritten'}")
    return 1 if check and stale else 0


def documents() -> list[Path]:
    """Return the documents that have generated parts."""
    return [
        ROOT / "README.md",
        *(
            ROOT / "docs" / f"{name}.md"
            for name in ("architecture", "commands", "comparison", "glossary", "json", "tour")
        ),
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


if __name__ == "__main__":
    sys.exit(main())
