"""What shows results in notebooks and as text: the package names it, for results are data and import no report."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


class OpenTables(Protocol):
    """What a page reads of an open run."""

    @property
    def derived(self) -> Path | None:
        """The folder of the attribution tables; None: there are none."""

    def connected(self, readers: Sequence[str]) -> duckdb.DuckDBPyConnection:
        """Return a connection of its own for these queries."""


class Display(Protocol):
    """What a module has that shows results; a result is an object here, for its own module imports this one."""

    def diagnosis_text(self, diagnosis: object, layout: str, /) -> str:
        """Return the report in one of the formats that are text."""

    def diagnosis_page(self, diagnosis: object, run: OpenTables | None, /) -> str:
        """Return the report as a page; with its open run it has timelines and tables."""

    def diagnosis_in_notebook(self, diagnosis: object, /) -> str:
        """Return the report as HTML for a notebook."""

    def diagnosis_table(self, diagnosis: object, name: str, /) -> pa.Table:
        """Return findings, ledger, fixes or evidence, one row each; raises TraceAnalyzerError for another name."""

    def diff_in_notebook(self, diff: object, /) -> str:
        """Return the report of a comparison as HTML for a notebook."""

    def diff_text(self, diff: object, layout: str, /) -> str:
        """Return the report of a comparison in one of the formats that are text."""

    def what_if_text(self, answer: object, run_name: str, /) -> str:
        """Return the screen of a what-if question as text."""

    def what_if_in_notebook(self, answer: object, run_name: str, /) -> str:
        """Return the screen of a what-if question as HTML for a notebook."""

    def rows_in_notebook(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], more: bool, /) -> str:
        """Return rows as an HTML table; `more` says that these are not all."""


_modules: list[str] = []


def show_with(module: str) -> None:
    """Show results with the functions of this module, which is imported when the first result is shown."""
    _modules[:] = [module]


def display() -> Display:
    """Return what shows results."""
    return cast(Display, import_module(*_modules))
