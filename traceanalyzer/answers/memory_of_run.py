"""How much memory a run took on its devices, what held it at the peak, and what was left behind step after step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

MOST_HOLDERS = 15
MOST_GROWING = 10
_PEAKS = """
SELECT trace, rank, device, step, peak_bytes, peak_reserved_bytes, before_bytes, after_bytes, peak_change_bytes
FROM memory_peaks
WHERE place = 'device'
ORDER BY trace_id, device, step NULLS FIRST
"""
_HOLDERS = f"""
SELECT live_bytes, live_share, alloc_count, category, operator, module
FROM memory_at_peak
WHERE trace = $trace
  AND device = $device
ORDER BY live_bytes DESC, category, operator, module
LIMIT {MOST_HOLDERS}
"""
_GROWING = f"""
SELECT
    trace,
    rank,
    device,
    operator,
    module,
    sum(left_bytes) AS left_bytes,
    max(steps_in_row) AS steps_in_row
FROM memory_growth
WHERE place = 'device'
  AND is_suspected
GROUP BY ALL
ORDER BY left_bytes DESC, trace, device, operator, module
LIMIT {MOST_GROWING}
"""
Row = dict[str, Any]


@dataclass(frozen=True)
class MemoryOfRun:
    """Rows of the memory metrics, in bytes; empty where no allocations on devices were recorded."""

    peaks: tuple[Row, ...]  # one a device, over all events, the largest first
    steps: tuple[Row, ...]  # one a step, of the first of these devices
    holders: tuple[Row, ...]  # what was alive at that device's peak
    growing: tuple[Row, ...]  # what several steps in a row left behind, on any device


def memory_of_run(connection: duckdb.DuckDBPyConnection) -> MemoryOfRun:
    """Return what the metrics memory_peaks, memory_at_peak and memory_growth say of a run."""
    rows = _rows(connection, _PEAKS)
    peaks = [row for row in rows if row["step"] is None]
    peaks.sort(key=lambda row: row["peak_bytes"] or row["peak_change_bytes"] or 0, reverse=True)
    if not peaks:
        return MemoryOfRun((), (), (), ())
    place = {"trace": peaks[0]["trace"], "device": peaks[0]["device"]}
    steps = [row for row in rows if row["step"] is not None and place.items() <= row.items()]
    return MemoryOfRun(
        tuple(peaks), tuple(steps), tuple(_rows(connection, _HOLDERS, place)), tuple(_rows(connection, _GROWING))
    )


def _rows(connection: duckdb.DuckDBPyConnection, query: str, values: dict[str, Any] | None = None) -> list[Row]:
    result = connection.execute(query, values or {})
    columns = [column[0] for column in result.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]
