"""A comparison as a spreadsheet: base, new, difference and change of each row, outer joined, a sheet each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.differences import NamedDifference
from traceanalyzer.exports.workbook import Rows, write_workbook
from traceanalyzer.report.diff_blocks.headline import sentence


def write_diff_xlsx(diff: Diff, target: IO[bytes]) -> None:
    """Write the workbook of a comparison."""
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
