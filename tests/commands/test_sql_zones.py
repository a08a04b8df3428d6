"""Times with a zone need no package beside DuckDB."""

from __future__ import annotations

import sys

import pytest

from traceanalyzer.rules.evaluation import sandbox
from tracesim import in_memory


def test_a_time_with_a_zone_is_read_without_pytz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pytz", None)
    rows, _ = sandbox.first_rows(in_memory.connect_tables({}), "SELECT now() AS at, [now()] AS several", 1)
    ((at, several),) = rows.rows
    assert at == several[0]
    assert at.tzinfo is not None
    arrow = in_memory.connect_tables({}).sql("SELECT now() AS at").to_arrow_table()
    assert arrow["at"][0].as_py().tzinfo is not None
