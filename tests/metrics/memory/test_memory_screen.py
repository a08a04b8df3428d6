"""The screen of a run's memory: sizes in words, and no claim that the trace cannot bear."""

from __future__ import annotations

import io

import duckdb
import pytest
from test_metric_memory import EVENTS, OPERATORS
from text_tables import connect

from traceanalyzer.report import formats
from traceanalyzer.report.screens.memory import MemoryOfRun, memory_of_run, sections

READER = "FROM memory_at_peak JOIN memory_growth USING (trace_id) JOIN memory_peaks USING (trace_id)"


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    return connect(READER, host_slices=OPERATORS, memory_events=EVENTS)


def shown(con: duckdb.DuckDBPyConnection) -> str:
    stream = io.StringIO()
    formats.render(sections(memory_of_run(con), "run42"), "markdown", stream)
    return stream.getvalue()


def test_the_peak_is_said_in_words_and_who_held_it_in_a_table(con: duckdb.DuckDBPyConnection) -> None:
    text = shown(con)
    assert (
        "Device 0 had 180 B in use at most, with 300 B reserved. 100 B of it was there before the first event." in text
    )
    assert [line for line in text.splitlines() if line.startswith("| 50 B")] == [
        "| 50 B | 27.8 % | 1 | other | aten::mm |"
    ]


def test_growth_is_not_judged_without_steps(con: duckdb.DuckDBPyConnection) -> None:
    assert "Nothing grows" not in shown(con)
    assert "the trace has less" in shown(con)


def test_a_trace_without_allocations_says_what_records_them() -> None:
    assert "profile_memory=True" in shown(connect(READER, host_slices=OPERATORS))


def test_no_heading_of_numbers_is_cut_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = ("peak_bytes", "peak_reserved_bytes", "before_bytes", "peak_change_bytes", "after_bytes")
    step = {"step": 100, **dict.fromkeys(names, 1023 * 2**30)}
    peak = {"trace": "run42", "rank": 0, "device": 0, **dict.fromkeys(names, 1023 * 2**30)}
    stream = io.StringIO()
    formats.render(sections(MemoryOfRun((peak,), (step, step), (), ()), "run42"), "terminal", stream)
    (head,) = [line for line in stream.getvalue().splitlines() if "in use at most" in line and "step" in line]
    assert head.endswith("  at the end")
    assert "…" not in head
