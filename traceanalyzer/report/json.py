"""The diagnosis as JSON: everything that the other reports show, under a versioned schema (docs/json.md)."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
from collections.abc import Mapping
from typing import Any, TextIO

from traceanalyzer.diagnosis import DeviceLedger, Diagnosis, HostLedger, RunLedger
from traceanalyzer.diagnosis.flops import flops_rows
from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.report.formats import Context
from traceanalyzer.text.visible import write_json


def write(diagnosis: Diagnosis, stream: TextIO, _: Context | None = None) -> None:
    """Write one JSON object and a newline."""
    write_json(document(diagnosis), stream)


def document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as plain values that JSON can hold."""
    verdict = judge(diagnosis)
    plain = plain_value(dataclasses.asdict(diagnosis))
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
        "flops": plain_value(flops_rows(diagnosis.flops)),
        "screening": plain["screening"],
        "kernel_counters": plain["kernel_counters"],
        "suppressed": plain["suppressed"],
        "overrides": plain["overrides"],
        "left_out": plain["left_out"],
    }


def _ledger(ledger: DeviceLedger | HostLedger) -> dict[str, Any]:
    plain: dict[str, Any] = plain_value(dataclasses.asdict(ledger))
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
    }


def plain_value(value: Any) -> Any:
    """Turn tuples into lists, and what JSON has no word for into text; what is no number becomes null."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
