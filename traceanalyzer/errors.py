"""The one family of errors a user may see, and the names that a mistyped one may have meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

# Two names are alike from this share of equal letters on; of short ones most pairs share half by chance.
ALIKE_SHARE = 0.7
# From here on one is meant, and what else is alike is noise.
TYPO_SHARE = 0.85
MOST_NAMES = 3


class TraceAnalyzerError(Exception):
    """An error told to the user as what happened, where, and what to do; never with a traceback."""

    def __init__(self, what: str, where: str | Path | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = None if where is None else str(where)
        self.hint = hint

    def __str__(self) -> str:
        return self.what if self.where is None else f"{self.where}: {self.what}"


def suggestion(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """Return 'did you mean …?' with the known names that are spelled much like one or hold it, else `otherwise`."""
    from difflib import get_close_matches

    names = sorted(known)
    alike = get_close_matches(name, names, n=MOST_NAMES, cutoff=ALIKE_SHARE)
    holding = [item for item in names if name in re.split(r"[-_.]", item)]
    typo = get_close_matches(name, names, n=1, cutoff=TYPO_SHARE)
    told = typo or list(dict.fromkeys([*alike, *holding]))[:MOST_NAMES]
    return f"did you mean {' or '.join(repr(item) for item in told)}?" if told else otherwise
