"""A small run is diagnosed alike from memory and from its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from traceanalyzer.query import engine
from traceanalyzer.query.canonical import OneTraceConnections, copy_run
from traceanalyzer.report.json import document
from traceanalyzer.run import open_run
from traceanalyzer.schema import trace_tables
from tracesim import simulate_job

RUN = {"ranks": 2, "steps": 3, "kernels": 20, "comm_us": 400, "shapes": True, "stacks": True}


def diagnosed(run: Path, store: Path) -> dict[str, Any]:
    with open_run(run, store=store, with_settings=False) as opened:
        return document(opened.diagnose())


@pytest.mark.check
def test_tables_in_memory_and_files_give_the_same_diagnosis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_job(RUN).write_kineto(tmp_path / "run")
    copied: list[Path] = []

    def noted(*parts: Any) -> None:
        copied.append(parts[2])
        copy_run(*parts)

    monkeypatch.setattr(engine, "copy_run", noted)
    from_memory = diagnosed(tmp_path / "run", tmp_path / "first")
    assert copied
    monkeypatch.setattr(engine, "is_small", lambda *run: False)
    assert diagnosed(tmp_path / "run", tmp_path / "second") == from_memory


@pytest.mark.check
def test_no_query_of_one_trace_opens_the_file_of_a_table_without_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_job(RUN).write_kineto(tmp_path / "run")
    columns: dict[str, list[tuple[str, str]]] = {}
    held: list[dict[str, str]] = []
    holding = OneTraceConnections.holding

    @contextmanager
    def noted(self: OneTraceConnections, trace_id: int) -> Iterator[duckdb.DuckDBPyConnection]:
        with holding(self, trace_id) as connection:
            views = "SELECT view_name, sql FROM duckdb_views() WHERE schema_name = 'canonical'"
            held.append(dict(connection.execute(views).fetchall()))
            for name in held[-1]:
                described = connection.execute(f"DESCRIBE canonical.{name}").fetchall()
                columns.setdefault(name, [row[:2] for row in described])
            yield connection

    monkeypatch.setattr(OneTraceConnections, "holding", noted)
    with open_run(tmp_path / "run", store=tmp_path / "store") as run:
        counts = {name: run.sql(f"SELECT count(*) FROM canonical.{name}").fetchall()[0][0] for name in columns}
    assert len(held) == RUN["ranks"]
    for views in held:
        assert {name for name, query in views.items() if "read_parquet" not in query} == {
            name for name, count in counts.items() if count == 0
        }
    for name, described in columns.items():
        wanted = [(column.name, column.type) for column in trace_tables()[name].columns]
        assert [column for column, _ in described] == [column for column, _ in wanted]
