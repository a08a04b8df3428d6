"""Results shown outside the commands: text, a page, a notebook, Arrow tables (see `traceanalyzer.display`)."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.shares import worth_share
from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.report import formats

if TYPE_CHECKING:
    import pyarrow as pa

    from traceanalyzer.attribution.replay.what_if import Answer
    from traceanalyzer.comparison.comparing import Diff
    from traceanalyzer.display import OpenTables


Row = dict[str, Any]


def diagnosis_table(diagnosis: Diagnosis, name: str) -> pa.Table:
    """Return one of TABLES as an Arrow table. Raises TraceAnalyzerError for another name."""
    import pyarrow as pa

    if name not in TABLES:
        hint = suggestion(name, TABLES, f"tables of a diagnosis: {', '.join(TABLES)}")
        raise TraceAnalyzerError(f"a diagnosis has no table {name!r}", diagnosis.run, hint)
    columns, rows = TABLES[name]
    types: dict[str, pa.DataType] = {"text": pa.string(), "integer": pa.int64(), "share": pa.float64()}
    schema = pa.schema([(column, types[kind]) for column, kind in columns.items()])
    return pa.Table.from_pylist(rows(diagnosis), schema=schema)


def _findings(diagnosis: Diagnosis) -> list[Row]:
    return [
        {
            **{key: getattr(f, key) for key in _FINDINGS if hasattr(f, key)},
            "worth_share": worth_share(f) if f.saving_ns is not None else None,
        }
        for f in diagnosis.findings
    ]


def _ledger(diagnosis: Diagnosis) -> list[Row]:
    return [
        {
            "trace": ledger.trace,
            "rank": ledger.rank,
            "device": ledger.device,
            "bucket": bucket,
            "dur_ns": dur_ns,
            "share": dur_ns / ledger.window_ns if ledger.window_ns else None,
            "step_count": ledger.step_count,
        }
        for ledger in diagnosis.ledgers
        for bucket, dur_ns in ledger.buckets
    ]


def _fixes(diagnosis: Diagnosis) -> list[Row]:
    return [
        {
            "trace": plan.trace,
            "rank": plan.rank,
            "device": plan.device,
            "position": at,
            "rule": fix.rule,
            "status": fix.status,
            "saving_ns": fix.saving_ns,
            "left_ns": fix.left_ns,
            "saving_share": fix.saving_ns / plan.window_ns if plan.window_ns else None,
        }
        for plan in diagnosis.plans
        for at, fix in enumerate(plan.fixes, 1)
    ]


def _evidence(diagnosis: Diagnosis) -> list[Row]:
    return [
        {
            "rule": f.rule,
            "trace": f.trace,
            "rank": f.rank,
            "device": f.device,
            "title": evidence.title,
            "position": at,
            "column": column,
            "value": None if value is None else str(value),
        }
        for f in diagnosis.findings
        for evidence in f.evidence
        for at, row in enumerate(evidence.rows, 1)
        for column, value in zip(evidence.columns, row, strict=True)
    ]


_PLACE = {"trace": "text", "rank": "integer", "device": "integer"}
_FINDINGS = {
    "rule": "text",
    "title": "text",
    "kind": "text",
    "severity": "text",
    "confidence": "text",
    "confidence_because": "text",
    "status": "text",
    **_PLACE,
    "message": "text",
    "saving_ns": "integer",
    "saving_share": "share",
    "run_saving_share": "share",
    "worth_share": "share",
    "owned_ns": "integer",
    "marginal_ns": "integer",
    "marginal_order": "integer",
}
TABLES: dict[str, tuple[dict[str, str], Callable[[Diagnosis], list[Row]]]] = {
    "findings": (_FINDINGS, _findings),
    "ledger": ({**_PLACE, "bucket": "text", "dur_ns": "integer", "share": "share", "step_count": "integer"}, _ledger),
    "fixes": (
        {
            **_PLACE,
            "position": "integer",
            "rule": "text",
            "status": "text",
            "saving_ns": "integer",
            "left_ns": "integer",
            "saving_share": "share",
        },
        _fixes,
    ),
    "evidence": (
        {"rule": "text", **_PLACE, "title": "text", "position": "integer", "column": "text", "value": "text"},
        _evidence,
    ),
}


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
