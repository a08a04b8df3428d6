"""A run as a spreadsheet: the diagnosis and the metrics behind it, a sheet each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.exports.workbook import MOST_ROWS, Rows, write_workbook
from traceanalyzer.run import Run

# Metrics by the sheet that shows them.
METRICS = {
    "ledger": "time_ledger",
    "steps": "steps",
    "kernels": "kernel_summary",
    "operators": "op_summary",
    "collectives": "collectives",
    "copies": "copies",
    "launches": "launches",
}
# Fields of a finding, as the sheet `findings` has them.
_FINDING = (
    *("rule", "title", "kind", "severity", "confidence", "status", "trace", "rank", "device"),
    *("saving_ns", "saving_share", "owned_ns", "marginal_ns", "marginal_order", "message"),
)


def write_xlsx(run: Run, diagnosis: Diagnosis, target: IO[bytes], most_rows: int = MOST_ROWS) -> None:
    """Write the workbook. The sheet `summary` lists what was cut."""
    write_workbook(_sheets(run, diagnosis), _summary(diagnosis), target, most_rows)


def _sheets(run: Run, diagnosis: Diagnosis) -> dict[str, Rows]:
    ledger, *others = METRICS
    found = [finding for finding in diagnosis.findings if finding.kind != "quality"]
    sheets: dict[str, Rows] = {
        ledger: _of_metric(run, METRICS[ledger]),
        "fixes": (
            ("rule", "fix", "lang", "code"),
            [(f.rule, fix.text, fix.lang, fix.code) for f in found for fix in f.fixes],
        ),
        "findings": (_FINDING, [[getattr(f, name) for name in _FINDING] for f in diagnosis.findings]),
        "evidence": (
            ("rule", "table", "row", "column", "value"),
            [
                (f.rule, table.title, number, column, value)
                for f in diagnosis.findings
                for table in f.evidence
                for number, row in enumerate(table.rows, start=1)
                for column, value in zip(table.columns, row, strict=True)
            ],
        ),
    }
    sheets |= {name: _of_metric(run, METRICS[name]) for name in others}
    skipped = [o for o in diagnosis.outcomes if o.state == "abstained"]
    sheets["not_looked"] = (
        ("rule", "title", "trace", "rank", "device", "reason", "detail", "what_to_record"),
        [(o.rule, o.title, o.trace, o.rank, o.device, o.reason, o.detail, o.unlock) for o in skipped],
    )
    return sheets


def _of_metric(run: Run, metric: str) -> Rows:
    names = run.connection.sql(f"FROM {metric} LIMIT 0").columns
    return names, _rows(run, metric)


def _rows(run: Run, metric: str) -> Iterator[Sequence[Any]]:
    with run.connection.cursor() as own:
        result = own.execute(f"FROM {metric}")
        while rows := result.fetchmany(10_000):
            yield from rows


def _summary(diagnosis: Diagnosis) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("run", diagnosis.run)]
    return rows + [
        (f"trace {trace.trace}", f"{trace.format}, {trace.event_count} events") for trace in diagnosis.traces
    ]
