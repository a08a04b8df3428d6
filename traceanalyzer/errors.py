"""Errors that a user may see, and suggestions for misspelled names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

EXIT_ERROR = 2
# Two names are similar from this share of equal letters on; most pairs of short names share half by chance.
ALIKE_SHARE = 0.7
# From this share on the name is a typo of the known one, and other similar names are noise.
TYPO_SHARE = 0.85
MOST_NAMES = 3


class TraceAnalyzerError(Exception):
    """An error for the user: what happened, where, and what to do about it; it never shows a traceback."""

    def __init__(self, what: str, where: str | Path | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        # A line break in the name of a file must not begin another message.
        self.where = None if where is None else on_one_line(str(where))
        self.hint = hint

    def __str__(self) -> str:
        return self.what if self.where is None else f"{self.where}: {self.what}"


def on_one_line(text: str) -> str:
    """Return a text of a stranger with a blank for each line break, so that it cannot begin another message."""
    return text.replace("\n", " ")


def suggestion(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """Return 'did you mean …?' with the known names that are similar to a name or contain it, else `otherwise`."""
    from difflib import get_close_matches

    names = sorted(known)
    alike = get_close_matches(name, names, n=MOST_NAMES, cutoff=ALIKE_SHARE)
    holding = [item for item in names if name in re.split(r"[-_.]", item)]
    typo = get_close_matches(name, names, n=1, cutoff=TYPO_SHARE)
    suggested = typo or list(dict.fromkeys([*alike, *holding]))[:MOST_NAMES]
    return f"did you mean {' or '.join(repr(item) for item in suggested)}?" if suggested else otherwise
