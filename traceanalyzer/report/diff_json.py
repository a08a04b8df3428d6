"""A comparison as JSON: everything that the other reports show (docs/diff.schema.json)."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, TextIO

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.gate import GateResult
from traceanalyzer.report.diff_blocks.headline import sentence
from traceanalyzer.report.formats import Context
from traceanalyzer.text.visible import write_json


def write_diff(diff: Diff, stream: TextIO, context: Context) -> None:
    """Write one JSON object and a newline."""
    write_json(document(diff, context.gate), stream)


def document(diff: Diff, gate: GateResult | None = None) -> dict[str, Any]:
    """Return a comparison as plain values that JSON can hold."""
    alignment = diff.alignment
    plain: dict[str, Any] = {
        "diff_version": diff.diff_version,
        "sentence": sentence(diff),
        "judgement": _plain(diff.judgement),
        "unit": "step" if alignment.kind == "steps" else "work",
        "time_of": diff.sides[0][0].time_of,
        "base_ns": diff.base_ns,
        "new_ns": diff.new_ns,
        "delta_ns": diff.delta_ns,
        "alignment": _plain(alignment) | {"confidence": alignment.confidence},
        "base": [_plain(item) for item in diff.base],
        "new": [_plain(item) for item in diff.new],
        "ledger": [_plain(row) | {"delta_ns": row.delta_ns} for row in diff.ledger],
    }
    for name, difference in (("kernels", diff.kernels), ("operators", diff.operators)):
        rows = [_plain(row) | {"delta_ns": row.delta_ns} for row in difference.rows]
        plain[name] = _plain(difference) | {"rows": rows}
    for name in ("findings", "verification", "ranks", "confounders", "options"):
        plain[name] = _plain(getattr(diff, name))
    plain["gate"] = None if gate is None else _plain(gate.checks)
    return plain


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Fraction):
        return float(value)
    return value
