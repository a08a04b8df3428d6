"""Memory of real traces, event by event and by owner, against numbers of independent scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_metrics import expected, expected_names, run_of, table

from traceanalyzer.run import Run

__all__ = ["run_of"]
_TOTALS = {
    "events": "event_count",
    "allocations": "alloc_count",
    "net_bytes": "net_bytes",
    "peak_at_ns_since_first_event": "peak_at_ns",
    "allocated_bytes": "alloc_bytes",
    "freed_bytes": "free_bytes",
    "allocated_before": "before_bytes",
    "allocated_after": "after_bytes",
    "peak_allocated": "peak_bytes",
    "reserved_at_peak_allocated": "reserved_at_peak_bytes",
    "peak_reserved": "peak_reserved_bytes",
    "most_reserved_but_free": "most_free_bytes",
    "events_whose_total_does_not_follow": "broken_count",
}


def places(name: str) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the expected numbers by place and device; they write device types as PyTorch does."""
    numbers = expected("memory", name)
    keys = ((key.split(), numbers[key]) for key in numbers)
    return {("cpu" if words[1] == "0" else "device", int(words[3])): row for words, row in keys}


@pytest.mark.parametrize("name", expected_names("memory") or ["none"])
def test_totals_and_peaks_of_real_traces(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    wanted = places(name)
    rows = table(
        run_of(name),
        """
        SELECT
            *,
            alloc_bytes - free_bytes AS net_bytes,
            peak_ns - (
                SELECT min(start_ns) FROM memory_timeline AS events
                WHERE events.place = peaks.place AND events.device = peaks.device
            ) AS peak_at_ns
        FROM memory_peaks AS peaks
        WHERE step IS NULL
        """,
    )
    found = {(row["place"], row["device"]): row for row in rows}
    assert found.keys() == wanted.keys()
    for key, numbers in wanted.items():
        row = found[key]
        if not numbers["has_totals"]:  # the peak is one above the start then
            assert row["peak_bytes"] is None
            row["peak_bytes"] = row["peak_change_bytes"]
        assert {name: row[column] for name, column in _TOTALS.items() if name in numbers} == {
            name: numbers[name] for name in _TOTALS if name in numbers
        }


@pytest.mark.parametrize("name", expected_names("memory") or ["none"])
def test_frees_and_what_is_reserved_when_most_of_it_is_free(
    corpus: Path, run_of: Callable[[str], Run], name: str
) -> None:
    rows = table(
        run_of(name),
        """
        SELECT
            place,
            device,
            count(*) FILTER (WHERE kind = 'free') AS frees,
            count(*) FILTER (WHERE is_older) AS frees_of_older_memory,
            CAST(coalesce(-sum(size_bytes) FILTER (WHERE is_older), 0) AS BIGINT) AS bytes_freed_of_older_memory,
            arg_max(reserved_bytes, (reserved_bytes - allocated_bytes, -position)) AS reserved_then,
            arg_max(allocated_bytes, (reserved_bytes - allocated_bytes, -position)) AS allocated_then
        FROM (
            SELECT
                *,
                kind = 'free' AND address IS NOT NULL
                AND lag(kind, 1, 'free') OVER (PARTITION BY place, device, address ORDER BY position) = 'free'
                AS is_older
            FROM memory_timeline
        )
        GROUP BY place, device
        """,
    )
    alive = dict(
        run_of(name)
        .connection.execute(
            "SELECT (place, device), (count(*), CAST(sum(size_bytes) AS BIGINT)) FROM memory_allocations "
            "WHERE is_matched AND free_position IS NULL GROUP BY ALL"
        )
        .fetchall()
    )
    for row in rows:
        key = (row["place"], row["device"])
        wanted = places(name)[key]
        assert alive.get(key, (0, 0)) == (wanted["still_live_count"], wanted["still_live_bytes"])
        del row["place"], row["device"]
        assert row == {column: wanted.get(column) for column in row}


@pytest.mark.parametrize("name", expected_names("memory") or ["none"])
def test_what_was_alive_at_the_peak_by_operator(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    rows = table(
        run_of(name),
        "SELECT place, device, coalesce(operator, 'outside operators') AS operator, "
        "CAST(sum(live_bytes) AS BIGINT) AS bytes FROM memory_at_peak WHERE category <> 'older' GROUP BY ALL",
    )
    for (place, device), numbers in places(name).items():
        found = {row["operator"]: row["bytes"] for row in rows if (row["place"], row["device"]) == (place, device)}
        assert found == {row["operator"]: row["bytes"] for row in numbers["live_at_peak_by_operator"]}


@pytest.mark.parametrize("name", expected_names("memory") or ["none"])
def test_allocations_by_operator(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    rows = table(
        run_of(name),
        "SELECT place, device, coalesce(operator, 'outside operators') AS operator, count(*) AS count, "
        "CAST(sum(size_bytes) AS BIGINT) AS bytes, "
        "CAST(coalesce(sum(size_bytes) FILTER (WHERE is_matched AND free_position IS NULL), 0) AS BIGINT) AS alive "
        "FROM memory_allocations GROUP BY ALL",
    )
    for key, numbers in places(name).items():
        found = {row["operator"]: row for row in rows if (row["place"], row["device"]) == key}
        for wanted in numbers["allocated_by_operator"]:
            # In 2021 steps and data loaders were written as operators. They are annotations.
            if "#" in wanted["operator"]:
                continue
            assert (found[wanted["operator"]]["bytes"], found[wanted["operator"]]["count"]) == (
                wanted["bytes"],
                wanted["count"],
            )
        assert {name: row["alive"] for name, row in found.items() if row["alive"]} == numbers["still_live_by_operator"]


def test_what_the_first_step_keeps_is_no_leak(corpus: Path, run_of: Callable[[str], Run]) -> None:
    rows = table(run_of("mi300_normalization"), "FROM memory_growth WHERE is_suspected")
    assert rows == []
