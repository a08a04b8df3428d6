"""No metric looks at more rows for each event of a longer trace: what its plan handles grows with the trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from enlarge import enlarge_events, enlarge_export

from traceanalyzer.metrics import metrics
from traceanalyzer.run import open_run

ROOT = Path(__file__).resolve().parents[2]
FEW = 10_000  # of so many rows, the plans differ


def handled(plan: dict[str, Any]) -> Iterator[int]:
    """Yield how many rows each operator of a plan gave to the next one."""
    yield plan.get("intermediate_rows", 0)
    for child in plan.get("children", plan.get("operator", [])):
        yield from handled(child)


def most_rows(trace: Path, folder: Path) -> dict[str, int]:
    """Return the most rows that an operator of each metric's plan gives to the next one."""
    found = {}
    profile = folder / "profile.json"
    with open_run(trace, store=folder / trace.stem) as opened:
        connection = opened.connection
        connection.execute("SET threads = 1; PRAGMA enable_profiling = 'json'")
        connection.execute(f"SET profiling_output = '{profile}'")
        for name in metrics():
            connection.execute(f"CREATE OR REPLACE TEMP TABLE measured AS FROM {name}")
            found[name] = max(handled(json.loads(profile.read_text(encoding="utf-8"))))
    return found


def check(short: Path, long: Path, times: int, folder: Path) -> None:
    """Expect that a trace which is so many times as long makes no metric handle more than so many times the rows."""
    before = most_rows(short, folder)
    after = most_rows(long, folder)
    grown = {
        name: (before[name], count)
        for name, count in after.items()
        if count > FEW and count > times**1.1 * max(before[name], FEW / times)
    }
    assert grown == {}


@pytest.mark.check
def test_metrics_of_a_longer_trace_handle_no_more_rows_for_each_event(tmp_path: Path) -> None:
    source = ROOT / "sample_traces" / "slow_loader" / "rank0.json.gz"
    short, long = (enlarge_events(source, tmp_path / f"{times}.json", times) for times in (8, 32))
    check(short, long, 4, tmp_path)


@pytest.mark.check
def test_metrics_of_a_longer_export_handle_no_more_rows_for_each_event(corpus: Path, tmp_path: Path) -> None:
    source = corpus / "nsys" / "h100x2_training_2026.2.sqlite"
    short, long = (enlarge_export(source, tmp_path / f"{times}.sqlite", times) for times in (2, 8))
    check(short, long, 4, tmp_path)
