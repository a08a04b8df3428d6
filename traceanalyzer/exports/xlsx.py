"""A run as a spreadsheet: the diagnosis and the metrics behind it, a sheet each; or a comparison, rows outer joined.

Numbers keep their digits, and names are text, never formulas or links.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import IO, Any

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.differences import NamedDifference
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.exports import rows_of
from traceanalyzer.report.diff_blocks.headline import sentence
from traceanalyzer.run import Run
from traceanalyzer.text.visible import visible_lines

# What a sheet holds below its header.
MOST_ROWS = 1_048_575
_LONGEST_TEXT = 32_767
# A spreadsheet's numbers are doubles: a larger integer is written as text, so that no digit changes.
_EXACT = 2**53
_WIDTH = 18
_FORMATS = (
    ("__pct", "0.0%"),
    ("_ns", "#,##0"),
    ("_bytes", "#,##0"),
    ("_count", "#,##0"),
    ("_share", "0.0%"),
    ("_percent", "0.0"),
)
# What a column of a comparison has behind its name.
SIDES = ("__base", "__new", "__diff")

Rows = tuple[Sequence[str], Iterable[Sequence[Any]]]


def check_installed(what: str) -> None:
    """Raise TraceAnalyzerError where XlsxWriter is not installed; `what` is the command or option that needs it."""
    if importlib.util.find_spec("xlsxwriter") is None:
        raise TraceAnalyzerError("XlsxWriter is not installed", what, "pip install 'gpu-traceanalyzer[xlsx]'")


def write_workbook(
    sheets: Mapping[str, Rows], summary: Iterable[Sequence[Any]], target: IO[bytes], most_rows: int = MOST_ROWS
) -> None:
    """Write sheets in their order, and `summary` behind them, with how many rows of each are there or were cut."""
    import xlsxwriter

    options = {
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
        "nan_inf_to_errors": True,
    }
    book = xlsxwriter.Workbook(target, options)
    header = book.add_format({"bold": True, "bottom": 1})
    formats = {ending: book.add_format({"num_format": text}) for ending, text in _FORMATS}

    def add(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], most: int) -> tuple[str, Any]:
        sheet = book.add_worksheet(name)
        sheet.freeze_panes(1, 0)
        for column, title in enumerate(columns):
            plain = next((title.removesuffix(side) for side in SIDES if title.endswith(side)), title)
            kind = next((formats[ending] for ending, _ in _FORMATS if plain.endswith(ending)), None)
            sheet.set_column(column, column, _WIDTH, kind)
            sheet.write_string(0, column, title, header)
        source, count = iter(rows), 0
        for count, row in enumerate(islice(source, most), start=1):
            for column, value in enumerate(row):
                _write_cell(sheet, count, column, value)
        sheet.autofilter(0, 0, count, max(0, len(columns) - 1))
        is_cut = next(source, None) is not None
        return f"rows of {name}", f"{count}, the rest is cut" if is_cut else count

    counts = [add(name, columns, rows, most_rows) for name, (columns, rows) in sheets.items()]
    add("summary", ("what", "value"), [*summary, *counts], MOST_ROWS)
    book.get_worksheet_by_name("summary").activate()
    book.close()


def _write_cell(sheet: Any, row: int, column: int, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, float) or (isinstance(value, int) and abs(value) <= _EXACT):
        sheet.write_number(row, column, value)
    else:
        text = str(value) if isinstance(value, (str, int)) else json.dumps(value, default=str)
        sheet.write_string(row, column, _shown(text))


@lru_cache(2**16)
def _shown(text: str) -> str:
    return visible_lines(text)[:_LONGEST_TEXT]


def write_diff_xlsx(diff: Diff, target: IO[bytes]) -> None:
    write_workbook(_diff_sheets(diff), _diff_summary(diff), target)


def _diff_sheets(diff: Diff) -> dict[str, Rows]:
    sheets: dict[str, Rows] = {
        "ledger": (
            ("bucket", *_sides("time_ns"), "sure"),
            [(row.bucket, *_compared(row.base_ns, row.new_ns), row.shown) for row in diff.ledger],
        ),
        "kernels": _named(diff.kernels),
        "operators": _named(diff.operators),
        "findings": (
            ("rule", "title", "severity", "state", *_sides("saving_share")[:3], *_sides("capture_count")[:2], "note"),
            [
                (
                    f.rule,
                    f.title,
                    f.severity,
                    f.state,
                    *_compared(f.base_share, f.new_share)[:3],
                    f.base_captures,
                    f.new_captures,
                    f.note,
                )
                for f in diff.findings
            ],
        ),
        "captures": (
            ("side", "label", "place", "time_ns", "step_count"),
            [
                (side, capture.label, capture.place, capture.time_ns, len(capture.steps_ns))
                for side, captures in (("base", diff.base), ("new", diff.new))
                for capture in captures
            ],
        ),
        "confounders": (
            ("key", "base", "new", "blocks"),
            [(item.key, item.base, item.new, item.blocks) for item in diff.confounders],
        ),
    }
    if diff.ranks is not None:
        rows = [(row.place, *_compared(row.base_ns, row.new_ns)) for row in diff.ranks.rows]
        sheets["ranks"] = (("place", *_sides("time_ns")), rows)
    return sheets


def _named(difference: NamedDifference) -> Rows:
    columns = ("name", "base_name", "kind", "state", *_sides("launch_count"), *_sides("time_ns"))
    return (*columns, "by_count_ns", "by_length_ns", "sure"), [
        (
            row.name,
            row.base_name,
            row.kind,
            row.state,
            *_compared(row.base_launches, row.new_launches),
            *_compared(row.base_ns, row.new_ns),
            row.count_ns,
            row.length_ns,
            row.shown,
        )
        for row in difference.rows
    ]


def _sides(name: str) -> tuple[str, str, str, str]:
    return f"{name}__base", f"{name}__new", f"{name}__diff", f"{name}__pct"


def _compared(base: float | None, new: float | None) -> tuple[float | None, ...]:
    """Return both sides, the difference, and the change: none where a side is not known, or nothing changed from."""
    if base is None or new is None:
        return base, new, None, None
    return base, new, new - base, new / base - 1 if base else None


def _diff_summary(diff: Diff) -> list[Sequence[Any]]:
    unit = "a step" if diff.alignment.kind == "steps" else "a unit of work"
    base, new, difference, change = _compared(diff.base_ns, diff.new_ns)
    return [
        ("verdict", diff.judgement.verdict),
        ("sentence", sentence(diff)),
        ("times are of", unit),
        ("base, ns", base),
        ("new, ns", new),
        ("difference, ns", difference),
        ("change, share", change),
        *((f"{side} capture", capture.label) for side in ("base", "new") for capture in getattr(diff, side)),
    ]


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
    return names, rows_of(run, f"FROM {metric}")


def _summary(diagnosis: Diagnosis) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("run", diagnosis.run)]
    return rows + [
        (f"trace {trace.trace}", f"{trace.format}, {trace.event_count} events") for trace in diagnosis.traces
    ]
