"""A small run is diagnosed alike from memory and from its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from traceanalyzer.pipeline import attributing
from traceanalyzer.query import canonical, engine
from traceanalyzer.query.canonical import FewTracesConnections, copy_run
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
    small_tables_from_memory = diagnosed(tmp_path / "run", tmp_path / "second")
    monkeypatch.setattr(engine, "_MOST_COPIED_ROWS", 0)
    assert diagnosed(tmp_path / "run", tmp_path / "third") == small_tables_from_memory == from_memory
    computed: list[Any] = []
    monkeypatch.setattr(engine, "_MOST_BYTES_IN_MEMORY", 0)
    monkeypatch.setattr(engine, "compute_read", lambda *parts: computed.append(parts))
    assert diagnosed(tmp_path / "run", tmp_path / "fourth") == from_memory
    assert computed


@pytest.mark.check
def test_of_many_traces_tables_are_copied_as_far_as_memory_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_job(RUN).write_kineto(tmp_path / "run")
    monkeypatch.setattr(engine, "is_small", lambda *run: False)
    monkeypatch.setattr(engine, "_MOST_COPIED_ROWS", 10)
    of_schema = "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'canonical'"
    with (
        open_run(tmp_path / "run", store=tmp_path / "store") as run,
        run.connected(["FROM gpu_ops, devices"]) as connection,
    ):
        kinds = dict(connection.execute(of_schema).fetchall())
    assert {name: kinds[name] for name in ("gpu_ops", "devices")} == {"gpu_ops": "VIEW", "devices": "BASE TABLE"}


@pytest.mark.check
def test_small_traces_are_attributed_together_as_each_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_job(RUN | {"ranks": 3}).write_kineto(tmp_path / "run")
    held: list[int] = []
    holding = FewTracesConnections.holding

    def noted(self: FewTracesConnections, trace_ids: list[int]) -> Any:
        held.append(len(trace_ids))
        return holding(self, trace_ids)

    def attribution(store: str) -> dict[str, pa.Table]:
        with open_run(tmp_path / "run", store=tmp_path / store, jobs=1) as run:
            assert run.derived is not None
            return {file.stem: pq.ParquetFile(file).read() for file in sorted(run.derived.glob("*.parquet"))}

    monkeypatch.setattr(FewTracesConnections, "holding", noted)
    together = attribution("together")
    monkeypatch.setattr(attributing, "_SMALL_AT_ONCE", 2)
    in_two = attribution("two")
    monkeypatch.setattr(canonical, "MOST_BYTES", 0)
    alone = attribution("alone")
    assert held == [3, 2, 1, 1, 1, 1]
    assert together == in_two == alone


@pytest.mark.check
def test_no_query_of_one_trace_opens_the_file_of_a_table_without_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_job(RUN).write_kineto(tmp_path / "run")
    columns: dict[str, list[tuple[str, str]]] = {}
    held: list[dict[str, str]] = []
    holding = FewTracesConnections.holding
    monkeypatch.setattr(canonical, "MOST_BYTES", 0)

    @contextmanager
    def noted(self: FewTracesConnections, trace_ids: list[int]) -> Iterator[duckdb.DuckDBPyConnection]:
        with holding(self, trace_ids) as connection:
            views = "SELECT view_name, sql FROM duckdb_views() WHERE schema_name = 'canonical'"
            held.append(dict(connection.execute(views).fetchall()))
            for name in held[-1]:
                described = connection.execute(f"DESCRIBE canonical.{name}").fetchall()
                columns.setdefault(name, [row[:2] for row in described])
            yield connection

    monkeypatch.setattr(FewTracesConnections, "holding", noted)
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


@pytest.mark.check
def test_a_connection_holds_traces_with_and_without_rows_in_turn(tmp_path: Path) -> None:
    simulate_job(RUN | {"ranks": 1}).write_kineto(tmp_path / "gpu")
    (tmp_path / "host").mkdir()
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    (tmp_path / "host" / "rank0.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    traces = {}
    for trace_id, name in enumerate(("host", "gpu", "host")):
        with open_run(tmp_path / name, store=tmp_path / "store") as run:
            traces[trace_id] = run.traces[0]
    connections = FewTracesConnections(traces)
    counts = []
    for trace_id in traces:
        with connections.holding([trace_id]) as connection:
            counts += connection.execute("SELECT count(*) > 0 FROM canonical.gpu_ops").fetchall()
    connections.close()
    assert counts == [(False,), (True,), (False,)]


@pytest.mark.parametrize("table", ["gpu_ops", "metadata", "host_slices", "captured_owners"])
def test_a_run_without_attribution_is_asked_for_one_table_alone(table: str, root: Path, tmp_path: Path) -> None:
    query = f"SELECT count(*) FROM {table}"
    trace = root / "sample_traces" / "healthy"
    with (
        open_run(trace, store=tmp_path, attribution=False) as run,
        run.connected([query]) as connection,
    ):
        rows = run.connection.execute(query).fetchall()
        assert connection.execute(query).fetchall() == rows
