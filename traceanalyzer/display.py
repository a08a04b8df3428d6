"""What shows results in notebooks and as text, by its name: results are data and import no report."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import duckdb


class OpenTables(Protocol):
    """What a page reads of an open run."""

    @property
    def derived(self) -> Path | None:
        """The folder of the attribution tables; None: there are none."""

    def connected(self, readers: Sequence[str]) -> duckdb.DuckDBPyConnection:
        """Return a connection of its own for these queries."""


def display(function: str, *about: Any) -> Any:
    """Return what a function of the reports, `module.function`, makes of a result; its module is imported for it."""
    module, _, name = function.rpartition(".")
    return getattr(import_module(f"traceanalyzer.report.{module}"), name)(*about)
