"""What shows results in notebooks and as text: the package names it, for results are data and import no report."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import pyarrow as pa

    from traceanalyzer.comparison.comparing import Diff
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.run import Run


class Display(Protocol):
    """What a module has that shows results."""

    def diagnosis_text(self, diagnosis: Diagnosis, layout: str, /) -> str:
        """Return the report in one of the formats that are text."""

    def diagnosis_page(self, diagnosis: Diagnosis, run: Run | None, /) -> str:
        """Return the report as a page; with its open run it has timelines and tables."""

    def diagnosis_in_notebook(self, diagnosis: Diagnosis, /) -> str:
        """Return the report as HTML for a notebook."""

    def diagnosis_table(self, diagnosis: Diagnosis, name: str, /) -> pa.Table:
        """Return findings, ledger, fixes or evidence, one row each; raises TraceAnalyzerError for another name."""

    def diff_in_notebook(self, diff: Diff, /) -> str:
        """Return the report of a comparison as HTML for a notebook."""

    def diff_text(self, diff: Diff, layout: str, /) -> str:
        """Return the report of a comparison in one of the formats that are text."""


_modules: list[str] = []


def show_with(module: str) -> None:
    """Show results with the functions of this module, which is imported when the first result is shown."""
    _modules[:] = [module]


def display() -> Display:
    """Return what shows results."""
    return cast(Display, import_module(*_modules))
