"""The one family of errors a user may see."""

from __future__ import annotations

from pathlib import Path


class TraceAnalyzerError(Exception):
    """An error told to the user as what happened, where, and what to do; never with a traceback."""

    def __init__(self, what: str, where: str | Path | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = None if where is None else str(where)
        self.hint = hint

    def __str__(self) -> str:
        return self.what if self.where is None else f"{self.where}: {self.what}"
