"""Results shown outside the commands: as text, as a page, in a notebook, as tables (see `traceanalyzer.display`)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from traceanalyzer.report import formats

if TYPE_CHECKING:
    import pyarrow as pa

    from traceanalyzer.attribution.replay.what_if import Answer
    from traceanalyzer.comparison.comparing import Diff
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.display import OpenTables


def diagnosis_text(diagnosis: Diagnosis, layout: str) -> str:
    """Return the report in one of the formats that are text."""
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, layout, stream)
    return stream.getvalue()


def diagnosis_page(diagnosis: Diagnosis, run: OpenTables | None) -> str:
    """Return the report as a page; with its open run it has timelines and tables."""
    from traceanalyzer.report.html.page import page

    return page(diagnosis, run)


def diagnosis_in_notebook(diagnosis: Diagnosis) -> str:
    """Return the report as HTML for a notebook."""
    from traceanalyzer.report.html.notebook import diagnosis_html

    return diagnosis_html(diagnosis)


def diagnosis_table(diagnosis: Diagnosis, name: str) -> pa.Table:
    """Return findings, ledger, fixes or evidence, one row each; raises TraceAnalyzerError for another name."""
    from traceanalyzer.report import diagnosis_tables

    return diagnosis_tables.diagnosis_table(diagnosis, name)


def diff_in_notebook(diff: Diff) -> str:
    """Return the report of a comparison as HTML for a notebook."""
    from traceanalyzer.report.html.diff_page import diff_html

    return diff_html(diff)


def diff_text(diff: Diff, layout: str) -> str:
    """Return the report of a comparison in one of the formats that are text."""
    stream = io.StringIO()
    formats.write_diff(diff, None, layout, stream)
    return stream.getvalue()


def what_if_text(answer: Answer, run_name: str) -> str:
    """Return the screen of a what-if question as text."""
    from traceanalyzer.report.screens.what_if import sections

    stream = io.StringIO()
    formats.render(sections(answer, run_name), "terminal", stream)
    return stream.getvalue().rstrip("\n")


def what_if_in_notebook(answer: Answer, run_name: str) -> str:
    """Return the screen of a what-if question as HTML for a notebook."""
    from traceanalyzer.report.html.notebook import sections_html
    from traceanalyzer.report.screens.what_if import sections

    return sections_html(sections(answer, run_name))


def rows_in_notebook(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], more: bool) -> str:
    """Return rows as an HTML table; `more` says that these are not all."""
    from traceanalyzer.report.html.notebook import rows_html

    return rows_html(name, columns, rows, more)
