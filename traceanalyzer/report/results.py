"""Results shown outside the commands: text, a page, a notebook, Arrow tables (see `traceanalyzer.display`)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.findings import worth_share
from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.report import formats

if TYPE_CHECKING:
    import pyarrow as pa

    from traceanalyzer.attribution.replay.what_if import Answer
    from traceanalyzer.comparison.comparing import Diff


_Row = tuple[Any, ...]


def diagnosis_table(diagnosis: Diagnosis, name: str) -> pa.Table:
    """Return one of TABLES as an Arrow table. Raises TraceAnalyzerError for another name."""
    import pyarrow as pa

    if name not in TABLES:
        hint = suggestion(name, TABLES, f"tables of a diagnosis: {', '.join(TABLES)}")
        raise TraceAnalyzerError(f"a diagnosis has no table {name!r}", diagnosis.run, hint)
    columns, rows = TABLES[name]
    types: dict[str, pa.DataType] = {"text": pa.string(), "integer": pa.int64(), "share": pa.float64()}
    schema = pa.schema([(column, types[kind]) for column, kind in columns.items()])
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows(diagnosis)], schema=schema)


def _findings(diagnosis: Diagnosis) -> Iterator[_Row]:
    for f in diagnosis.findings:
        worth = worth_share(f) if f.saving_ns is not None else None
        yield tuple(worth if column == "worth_share" else getattr(f, column) for column in _FINDINGS)


def _ledger(diagnosis: Diagnosis) -> Iterator[_Row]:
    for of in diagnosis.ledgers:
        for bucket, dur_ns in of.buckets:
            share = dur_ns / of.window_ns if of.window_ns else None
            yield of.trace, of.rank, of.device, bucket, dur_ns, share, of.step_count


def _fixes(diagnosis: Diagnosis) -> Iterator[_Row]:
    for plan in diagnosis.plans:
        for at, fix in enumerate(plan.fixes, 1):
            share = fix.saving_ns / plan.window_ns if plan.window_ns else None
            yield plan.trace, plan.rank, plan.device, at, fix.rule, fix.status, fix.saving_ns, fix.left_ns, share


def _evidence(diagnosis: Diagnosis) -> Iterator[_Row]:
    for f in diagnosis.findings:
        for evidence in f.evidence:
            for at, row in enumerate(evidence.rows, 1):
                for column, value in zip(evidence.columns, row, strict=True):
                    text = None if value is None else str(value)
                    yield f.rule, f.trace, f.rank, f.device, evidence.title, at, column, text


# The columns of each table with their types, and what yields its rows.
_PLACE = {"trace": "text", "rank": "integer", "device": "integer"}
_FINDINGS = {
    **dict.fromkeys(("rule", "title", "kind", "severity", "confidence", "confidence_because", "status"), "text"),
    **_PLACE,
    "message": "text",
    "saving_ns": "integer",
    **dict.fromkeys(("saving_share", "run_saving_share", "worth_share"), "share"),
    **dict.fromkeys(("owned_ns", "marginal_ns", "marginal_order"), "integer"),
}
_LEDGER = {**_PLACE, "bucket": "text", "dur_ns": "integer", "share": "share", "step_count": "integer"}
_FIXES = {**_PLACE, "position": "integer", "rule": "text", "status": "text"}
_SAVED = {"saving_ns": "integer", "left_ns": "integer", "saving_share": "share"}
_EVIDENCE = {"rule": "text", **_PLACE, "title": "text", "position": "integer", "column": "text", "value": "text"}
TABLES: dict[str, tuple[dict[str, str], Callable[[Diagnosis], Iterator[_Row]]]] = {
    "findings": (_FINDINGS, _findings),
    "ledger": (_LEDGER, _ledger),
    "fixes": (_FIXES | _SAVED, _fixes),
    "evidence": (_EVIDENCE, _evidence),
}


def diagnosis_text(diagnosis: Diagnosis, layout: str) -> str:
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, layout, stream)
    return stream.getvalue()


def diff_text(diff: Diff, layout: str) -> str:
    """Return the report of a comparison in one of the formats that are text."""
    stream = io.StringIO()
    formats.write_diff(diff, None, layout, stream)
    return stream.getvalue()


def what_if_text(answer: Answer, run_name: str) -> str:
    from traceanalyzer.report.screens.what_if import sections

    stream = io.StringIO()
    formats.render(sections(answer, run_name), "terminal", stream)
    return stream.getvalue().rstrip("\n")
