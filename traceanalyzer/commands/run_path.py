"""The argument RUN: a path of this machine, or a URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.remote.location import Location, run_input

if TYPE_CHECKING:
    import os


class RunPath(click.Path):
    """A run, or a store, as a user names it; completed as a path."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or the place that a URL means; raises TraceAnalyzerError for a URL that is not read."""
        if isinstance(value, Location):
            return value
        given = run_input(value if isinstance(value, Path) else str(value))
        return super().convert(given, param, ctx) if isinstance(given, Path) else given
