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
    rows = table(run_of(name), "FROM memory_peaks WHERE step IS NULL")
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
