"""What `info` says of a run's defects: each kind once, with what there is to look for."""

from __future__ import annotations

import io
from typing import Any

import pytest

from traceanalyzer.report import formats
from traceanalyzer.report.inventory import Inventory
from traceanalyzer.report.screens import info

LACKING = {
    "defect": "missing-table",
    "severity": "note",
    "defect_count": 2,
    "first_offset": None,
    "example": "OSRT_API (nsys profile --trace=cuda,nvtx,osrt)",
    "advice": "record it again with the option named",
}
CUT = {
    "defect": "bad-number",
    "severity": "loss",
    "defect_count": 7,
    "first_offset": 4711,
    "example": "1e999",
    "advice": "look at the event",
}


def defects(*rows: dict[str, Any], verbose: bool = False) -> str:
    """Return the words about defects, of a run with a trace for each name in the rows."""
    traces: list[dict[str, Any]] = [{"trace": name} for name in {row["trace"]: None for row in rows}]
    stream = io.StringIO()
    section = info.defects_section(Inventory(traces, [], [], list(rows), [], [], []), verbose=verbose)
    formats.render([section], "terminal", stream)
    return " ".join(stream.getvalue().split())


def test_a_table_that_all_exports_lack_is_told_once_with_the_option_that_records_it() -> None:
    text = defects({**LACKING, "trace": "a"}, {**LACKING, "trace": "b"})
    assert text.count("missing-table ×2 in each of 2 traces") == 1
    assert text.count("for example OSRT_API (nsys profile --trace=cuda,nvtx,osrt)") == 1


@pytest.mark.parametrize("change", [{"defect_count": 3}, {"example": "NVTX_EVENTS"}])
def test_what_differs_between_traces_is_told_apart(change: dict[str, Any]) -> None:
    text = defects({**LACKING, "trace": "a"}, {**LACKING, **change, "trace": "b"})
    assert "in a" in text
    assert "in b" in text


def test_verbose_names_each_trace() -> None:
    text = defects({**LACKING, "trace": "a"}, {**LACKING, "trace": "b"}, verbose=True)
    assert (text.count("in a"), text.count("in b")) == (1, 1)


def test_a_place_in_the_file_is_told_instead_of_an_example() -> None:
    text = defects({**CUT, "trace": "a"})
    assert "bad-number ×7, first at byte 4,711" in text
    assert "1e999" not in text
