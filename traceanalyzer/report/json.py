"""Diagnoses and comparisons as JSON: everything that other reports show, under versioned schemas (docs/json.md)."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TextIO

from traceanalyzer.diagnosis import DeviceLedger, Diagnosis, HostLedger, RunLedger
from traceanalyzer.diagnosis.flops import flops_rows
from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.report.formats import Context
from traceanalyzer.text.visible import write_json

if TYPE_CHECKING:
    from traceanalyzer.comparison.comparing import Diff
    from traceanalyzer.comparison.gate import GateResult


def write(diagnosis: Diagnosis, stream: TextIO, _: Context | None = None) -> None:
    """Write one JSON object and a newline."""
    write_json(document(diagnosis), stream)


def document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as plain values that JSON can hold."""
    verdict = judge(diagnosis)
    plain = plain_value(diagnosis)
    return {
        "schema_version": diagnosis.schema_version,
        "run": diagnosis.run,
        "verdict": {"state": verdict.state, "sentence": verdict.sentence},
        "traces": plain["traces"],
        "ledgers": [_ledger(ledger) for ledger in diagnosis.ledgers],
        "run_ledger": None if diagnosis.run_ledger is None else _run_ledger(diagnosis.run_ledger),
        "recordings": plain["recordings"],
        "host_ledgers": [_ledger(ledger) for ledger in diagnosis.host_ledgers],
        "ranks": plain["ranks"],
        "findings": plain["findings"],
        "plans": plain["plans"],
        "outcomes": plain["outcomes"],
        "below_noise": plain["below_noise"],
        "not_explained": [_bucket(bucket, dur_ns) for bucket, dur_ns in diagnosis.not_explained],
        "defects": plain["defects"],
        "host_hint": diagnosis.host_hint,
        "host_functions": plain["host_functions"],
        "captured_share": diagnosis.captured_share,
        "flops": plain_value(flops_rows(diagnosis.flops)),
        "screening": plain["screening"],
        "kernel_counters": plain["kernel_counters"],
        "suppressed": plain["suppressed"],
        "overrides": plain["overrides"],
        "left_out": plain["left_out"],
    }


def _ledger(ledger: DeviceLedger | HostLedger) -> dict[str, Any]:
    plain: dict[str, Any] = plain_value(ledger)
    plain["buckets"] = [
        _bucket(bucket, dur_ns) | {"share": dur_ns / ledger.window_ns if ledger.window_ns else 0.0}
        for bucket, dur_ns in ledger.buckets
    ]
    return plain


def _bucket(name: str, dur_ns: int) -> dict[str, Any]:
    return {"bucket": name, "dur_ns": dur_ns}


def _run_ledger(ledger: RunLedger) -> dict[str, Any]:
    window_ns = ledger.window_ns

    def share(dur_ns: int) -> float:
        return dur_ns / window_ns if window_ns else 0.0

    return {
        "window_ns": window_ns,
        "step_count": ledger.step_count,
        "recording_count": ledger.recording_count,
        "buckets": [_bucket(name, dur_ns) | {"share": share(dur_ns)} for name, dur_ns in ledger.buckets],
        "ranks": [{"rank": rank, "dur_ns": dur_ns, "share": share(dur_ns)} for rank, dur_ns in ledger.ranks],
        "late_begin": None if ledger.late_begin is None else dataclasses.asdict(ledger.late_begin),
    }


def plain_value(value: Any) -> Any:
    """Turn tuples into lists, and what JSON has no word for into text; what is no number becomes null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain_value(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Fraction):
        return float(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def write_diff(diff: Diff, stream: TextIO, context: Context) -> None:
    """Write one JSON object and a newline."""
    write_json(diff_document(diff, context.gate), stream)


def diff_document(diff: Diff, gate: GateResult | None = None) -> dict[str, Any]:
    """Return a comparison as plain values that JSON can hold."""
    from traceanalyzer.report.diff_blocks.headline import sentence

    alignment = diff.alignment
    plain: dict[str, Any] = {
        "diff_version": diff.diff_version,
        "sentence": sentence(diff),
        "judgement": plain_value(diff.judgement),
        "unit": "step" if alignment.kind == "steps" else "work",
        "time_of": diff.sides[0][0].time_of,
        "base_ns": diff.base_ns,
        "new_ns": diff.new_ns,
        "delta_ns": diff.delta_ns,
        "alignment": plain_value(alignment) | {"confidence": alignment.confidence},
        "base": [plain_value(item) for item in diff.base],
        "new": [plain_value(item) for item in diff.new],
        "ledger": [plain_value(row) | {"delta_ns": row.delta_ns} for row in diff.ledger],
    }
    for name, difference in (("kernels", diff.kernels), ("operators", diff.operators)):
        rows = [plain_value(row) | {"delta_ns": row.delta_ns} for row in difference.rows]
        plain[name] = plain_value(difference) | {"rows": rows}
    for name in ("findings", "verification", "ranks", "confounders", "options"):
        plain[name] = plain_value(getattr(diff, name))
    plain["gate"] = None if gate is None else plain_value(gate.checks)
    return plain
