"""An inventory to show to strangers: counts, and words of closed lists; no name, path, host or text of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from traceanalyzer.report.inventory import Inventory, Row
from traceanalyzer.version import __version__

SCHEMA_VERSION = 1
# Texts that the program itself chooses. Any other text of a row may come from a file, and is left out.
_OWN_WORDS = ("format", "recorder", "severity", "defect", "class", "vendor", "rank_source")
# Texts that files choose, and the values that identify nobody.
_KNOWN = {
    "framework": {"pytorch", "jax", "tensorflow"},
    "backend": {"nccl", "gloo", "mpi", "rccl", "xccl", "ucc"},
    "step_source": {"ProfilerStep", "ProfilerStep, host only"},
}
# Classes of events whose categories are the program's own; those of asynchronous slices are a file's.
_OWN_CATEGORIES = {"GPU work", "host", "waits recorded", "allocator"}
_OTHER_CATEGORIES = {"counter sample", "flow arrow end", "instant"}


def anonymous(inventory: Inventory) -> dict[str, Any]:
    """Return an inventory without what names a person, a program, a model, a machine or a place."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(row["trace"] for row in inventory.traces))}
    return {
        "schema_version": SCHEMA_VERSION,
        "traceanalyzer": __version__,
        "traces": _rows(inventory.traces, numbers),
        "devices": _rows(inventory.devices, numbers),
        "events": _events(_rows(inventory.events, numbers), inventory.events),
        "defects": _rows(inventory.defects, numbers),
        "missing": inventory.missing,
    }


def _rows(rows: Sequence[Row], numbers: dict[str, int]) -> list[Row]:
    return [
        {"trace": numbers[row["trace"]]} | {key: value for key, value in row.items() if _is_anonymous(key, value)}
        for row in rows
    ]


def _is_anonymous(key: str, value: object) -> bool:
    if isinstance(value, str):
        return key in _OWN_WORDS or value in _KNOWN.get(key, ())
    return value is None or isinstance(value, bool | int | float)


def _events(kept: list[Row], rows: Sequence[Row]) -> list[Row]:
    counts: dict[tuple[int, str, str], int] = {}
    for trace, row in zip((row["trace"] for row in kept), rows, strict=True):
        own = row["class"] in _OWN_CATEGORIES or row["category"] in _OTHER_CATEGORIES
        key = trace, row["class"], row["category"] if own else "asynchronous"
        counts[key] = counts.get(key, 0) + row["event_count"]
    return [
        {"trace": trace, "class": class_, "category": category, "event_count": count}
        for (trace, class_, category), count in counts.items()
    ]
