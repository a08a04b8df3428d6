"""The begin events of a thread whose ends are still to come, and those whose ends never come."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb

from traceanalyzer.ingest.sink import TraceSink
from traceanalyzer.ingest.trace_events.losses import Losses

# Calls and Python frames need arguments that only whole events have.
_OF_RANGES = ("annotation", "cpu_op")
# The part of a trace that holds the slices of begin and end events.
BEGIN_END_PART = "host-begin-end.parquet"

Row = tuple[Any, ...]


class OpenBegins:
    """Finds what an end event ends, in time that does not grow with the number of open events."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}  # by the order in which they began
        self._count = 0
        # Numbers of begin events by what an end may name: both, either or neither. Those that ended are still there.
        self._by_key: dict[tuple[str | None, str | None], list[int]] = defaultdict(list)

    def add(self, row: Row, name: str | None, category: str | None) -> None:
        """Open an event."""
        self._rows[self._count] = row
        for key in {(name, category), (name, None), (None, category), (None, None)}:
            self._by_key[key].append(self._count)
        self._count += 1

    def take(self, name: str | None, category: str | None) -> Row | None:
        """Close and return the innermost open event of a name and a category, of any where they are None."""
        numbers = self._by_key.get((name, category), [])
        while numbers:
            row = self._rows.pop(numbers.pop(), None)
            if row is not None:
                return row
        return None

    def left(self) -> list[Row]:
        """Return the events that are still open, in the order in which they began."""
        return list(self._rows.values())


def match_begins(rows: list[Row], losses: Losses) -> tuple[list[dict[str, object]], list[int]]:
    """Return begin and end events as slices, and the ids of those that never end, which end with their thread.

    An end closes the innermost open slice of its name and category.
    """
    slices: list[dict[str, object]] = []
    open_ids: list[int] = []
    open_by_thread: dict[tuple[str, str], OpenBegins] = defaultdict(OpenBegins)
    last_ns: dict[tuple[str, str], int] = {}
    for row in rows:
        _, phase, raw_category, name, pid, tid, start_ns, _ = row
        begins = open_by_thread[pid, tid]
        last_ns[pid, tid] = start_ns
        if phase == "B":
            begins.add(row, name, raw_category)
        elif (begin := begins.take(name, raw_category)) is None:
            losses.add("unmatched-end", None, name)
        else:
            slices.append(_slice(begin, start_ns))
    for thread, begins in open_by_thread.items():
        for row in begins.left():
            losses.add("unfinished-begin", None, row[3])
            slices.append(_slice(row, last_ns[thread]))
            open_ids.append(row[0])
    return slices, open_ids


def _slice(begin: Row, end_ns: int) -> dict[str, object]:
    event_id, _, raw_category, name, pid, tid, start_ns, category = begin
    return {
        "event_id": event_id,
        "pid": pid,
        "tid": tid,
        "category": category if category in _OF_RANGES else "other",
        "raw_category": raw_category,
        "name": name,
        "start_ns": start_ns,
        "dur_ns": end_ns - start_ns,
    }


def end_open_slices(database: duckdb.DuckDBPyConnection, stage: Path, open_ids: list[int], last_ns: int) -> None:
    """Rewrite the slices of begin events so that those that never ended last until the recording ends."""
    path = stage / BEGIN_END_PART
    if path.is_file():
        rows = database.sql(
            "SELECT * REPLACE (CASE WHEN event_id IN (SELECT unnest($ids)) THEN greatest(dur_ns, $last_ns - start_ns) "
            "ELSE dur_ns END AS dur_ns) FROM read_parquet($path)",
            params={"ids": open_ids, "last_ns": last_ns, "path": str(path)},
        ).to_arrow_table()
        database.from_arrow(rows).write_parquet(str(path))


def say_that_open(database: duckdb.DuckDBPyConnection, sink: TraceSink, open_ids: list[int]) -> None:
    """Add to the arguments of events that they never ended."""
    known: dict[str, object] = {"ids": open_ids}
    with_args: set[int] = set()
    for file in sink.files("event_args"):
        known |= {"path": file}
        found = database.execute(
            "SELECT event_id FROM read_parquet($path) WHERE event_id IN (SELECT unnest($ids))", known
        ).fetchall()
        if not found:
            continue
        with_args |= {event_id for (event_id,) in found}
        rows = database.sql(_WITH_OPEN, params=known).to_arrow_table()
        database.from_arrow(rows).write_parquet(file)
    without = [event_id for event_id in open_ids if event_id not in with_args]
    if without:
        table = database.sql(
            "SELECT unnest($ids)::BIGINT AS event_id, '{\"open\": true}' AS args", params={"ids": without}
        ).to_arrow_table()
        database.from_arrow(table).write_parquet(str(sink.folder / "event_args-open.parquet"))


_WITH_OPEN = """
SELECT
    event_id,
    CASE
        WHEN event_id NOT IN (SELECT unnest($ids)) THEN args
        WHEN json_valid(args) AND starts_with(ltrim(args), '{') THEN json_merge_patch(args, '{"open": true}')::VARCHAR
        ELSE '{"open": true}'
    END AS args
FROM read_parquet($path)
"""
