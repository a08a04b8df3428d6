"""What bounds the end of work on devices, beside plain loops over all of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.ingest.device_check import bounds

# op_id, device, stream, lane, start_ns, end_ns, is_ordered, is_read_back, call_start_ns, call_end_ns
Work = tuple[int, int | None, int, int, int, int, bool, bool, int | None, int | None]
# device, stream, start_ns, end_ns
Wait = tuple[int | None, int | None, int, int]
TIMES = st.integers(0, 60)
LENGTHS = st.integers(0, 9)


@st.composite
def works(draw: st.DrawFn) -> list[Work]:
    """Return work of a few lanes, of which some was launched by calls."""
    rows = []
    for op_id in range(draw(st.integers(0, 30))):
        start_ns, call_ns = draw(TIMES), draw(st.none() | st.integers(-20, 60))
        device, stream, lane = draw(st.none() | st.integers(0, 1)), draw(st.integers(0, 2)), draw(st.integers(0, 2))
        of_call = (None, None) if call_ns is None else (call_ns, call_ns + draw(LENGTHS))
        flags = draw(st.booleans()), draw(st.booleans())
        rows.append((op_id, device, stream, lane, start_ns, start_ns + draw(LENGTHS), *flags, *of_call))
    return rows


@st.composite
def waits(draw: st.DrawFn) -> list[Wait]:
    """Return calls that wait for a device or a stream."""
    where = st.tuples(st.none() | st.integers(0, 1), st.none() | st.integers(0, 2))
    return [(*draw(where), start, start + draw(LENGTHS)) for start in draw(st.lists(TIMES, max_size=6))]


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """One database for all examples: opening it takes longer than what they ask."""
    with duckdb.connect() as connection:
        yield connection


def bounded(database: duckdb.DuckDBPyConnection, rows: list[Work], calls: list[Wait]) -> list[tuple[Any, ...]]:
    database.execute(
        "CREATE OR REPLACE TABLE device_work (op_id BIGINT, device INTEGER, stream BIGINT, lane UBIGINT, "
        "start_ns BIGINT, end_ns BIGINT, is_ordered BOOLEAN, is_read_back BOOLEAN, "
        "call_start_ns BIGINT, call_end_ns BIGINT);"
        "CREATE OR REPLACE TABLE device_waits (device INTEGER, stream BIGINT, start_ns BIGINT, end_ns BIGINT)"
    )
    for table, values in (("device_work", rows), ("device_waits", calls)):
        if values:
            database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in values[0])})", values)
    bounds.bound_work(database)
    return database.execute(
        "SELECT op_id, device, lane, start_ns, end_ns, call_start_ns, call_end_ns, next_ns, next_end_ns, "
        "tenth_end_ns, is_near_end, returned_ns, is_out_of_order FROM bounded_work ORDER BY op_id"
    ).fetchall()


def by_loops(rows: list[Work], calls: list[Wait]) -> list[tuple[Any, ...]]:
    found = []
    for op_id, device, stream, lane, start_ns, end_ns, _, is_read_back, call_ns, returned_ns in rows:
        in_lane = sorted((row for row in rows if row[3] == lane), key=lambda row: (row[4], row[5], row[0]))
        later = in_lane[[row[0] for row in in_lane].index(op_id) + 1 :]
        ordered = [row for row in later if row[6]]
        ends = [row[5] for row in later]
        returns = [returned_ns] if is_read_back and returned_ns is not None else []
        if returned_ns is not None:
            returns += [
                wait[3]
                for wait in calls
                if None not in (device, wait[0]) and wait[0] == device and wait[1] in (None, stream)
                if wait[2] >= returned_ns
            ]
        launches = [row[8] for row in later if row[8] is not None]
        bound = (
            min((row[4] for row in ordered), default=None),
            min((row[5] for row in ordered), default=None),
            ends[9] if len(ends) > 9 else max(ends, default=None),
            len(ends) < 10,
            min(returns, default=None),
            call_ns is not None and min(launches, default=call_ns) < call_ns,
        )
        found.append((op_id, device, lane, start_ns, end_ns, call_ns, returned_ns, *bound))
    return found


def test_the_next_work_the_tenth_and_a_call_bound_work(database: duckdb.DuckDBPyConnection) -> None:
    rows: list[Work] = [
        (at, 0, 7, 1, 10 * at, 10 * at + 8, at != 1, False, 10 * at - 5, 10 * at - 4) for at in range(12)
    ]
    first, second, *_, last = bounded(database, rows, [(0, None, 0, 40), (0, 7, 6, 33), (0, 8, 0, 1), (1, None, 0, 1)])
    assert first[7:] == (20, 28, 108, False, 33, False)
    assert second[7:] == (20, 28, 118, False, 33, False)
    assert last[7:] == (None, None, None, True, None, False)


@given(rows=works(), calls=waits(), part_rows=st.sampled_from([4, 1_000_000]))
def test_all_bounds_are_those_of_plain_loops(
    database: duckdb.DuckDBPyConnection, rows: list[Work], calls: list[Wait], part_rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_PART_ROWS", part_rows)
        assert bounded(database, rows, calls) == by_loops(rows, calls)
