"""A rule is data: it can be wrong or slow, but it reads its run's tables and nothing else."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
import pytest

from traceanalyzer.rules import sandbox
from traceanalyzer.rules.stopwatch import RunningQuery


@pytest.fixture
def locked() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT 1 AS x")
    sandbox.lock(con)
    return con


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_parquet('https://example.org/x.parquet')",
        "SELECT * FROM secret_variable",
    ],
)
def test_a_rule_cannot_read_files_network_or_the_program(
    locked: duckdb.DuckDBPyConnection, tmp_path: Path, sql: str
) -> None:
    secret_variable = locked.sql("SELECT 1 AS x").to_arrow_table()
    assert secret_variable.num_rows == 1
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(sandbox.RuleQueryError):
        sandbox.query(locked, sql.format(file=file, folder=tmp_path), {})


@pytest.mark.parametrize(
    "sql",
    [
        "COPY t TO '/tmp/x.csv'",
        "ATTACH 'x.db'",
        "SET enable_external_access = true",
        "PRAGMA database_list",
        "INSTALL httpfs",
        "DELETE FROM t",
        "SELECT 1; SELECT 2",
        "",
        "SELEC 1",
    ],
)
def test_a_rule_is_one_select(locked: duckdb.DuckDBPyConnection, sql: str) -> None:
    with pytest.raises(sandbox.RuleQueryError):
        sandbox.query(locked, sql, {})
    assert sandbox.query(locked, "SELECT x FROM t", {}).rows == ((1,),)


def test_the_lock_cannot_be_undone(locked: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error):
        locked.execute("SET enable_external_access = true")


def test_folders_of_the_store_stay_readable(tmp_path: Path) -> None:
    inside, outside = tmp_path / "it's", tmp_path / "out"
    con = duckdb.connect()
    for folder in (inside, outside):
        folder.mkdir()
        con.sql("SELECT 1 AS x").write_parquet(str(folder / "a.parquet"))
    sandbox.lock(con, (str(inside),))
    values = {"path": str(inside / "a.parquet")}
    assert sandbox.query(con, "SELECT x FROM read_parquet($path)", values).rows == ((1,),)
    with pytest.raises(sandbox.RuleQueryError, match="file system"):
        sandbox.query(con, "SELECT x FROM read_parquet($path)", {"path": str(outside / "a.parquet")})


def test_a_query_without_end_is_stopped(locked: duckdb.DuckDBPyConnection) -> None:
    endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range = 7"
    started = time.process_time()
    with pytest.raises(sandbox.RuleQueryError, match=r"took longer than 0\.2 s"):
        sandbox.query(locked, endless, {}, timeout_s=0.2)
    assert time.process_time() - started < 5
    assert sandbox.query(locked, "SELECT x FROM t", {}).rows == ((1,),)


def test_a_query_that_sleeps_is_stopped(locked: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(sandbox.RuleQueryError, match=r"took longer than 0\.02 s"):
        sandbox.query(locked, "SELECT sleep_ms(60000)", {}, timeout_s=0.02)
    assert sandbox.query(locked, "SELECT x FROM t", {}).rows == ((1,),)


def test_a_query_that_is_kept_from_computing_is_not_stopped(locked: duckdb.DuckDBPyConnection) -> None:
    assert sandbox.query(locked, "SELECT sleep_ms(500) IS NULL AS x", {}, timeout_s=0.3).columns == ("x",)


@pytest.fixture
def running(locked: duckdb.DuckDBPyConnection) -> RunningQuery:
    """A query with a limit of half a minute that has just started."""
    return RunningQuery(locked, 30, looked_at_s=0, process_s=0)


def test_a_process_that_was_stopped_keeps_its_time(running: RunningQuery) -> None:
    assert not running.is_late(now_s=100_000, process_s=1, running_count=1)
    assert not running.is_late(now_s=100_028, process_s=29, running_count=1)
    assert running.is_late(now_s=100_030, process_s=31, running_count=1)


def test_on_many_cores_time_passes_no_faster_than_by_the_clock(running: RunningQuery) -> None:
    assert not running.is_late(now_s=29, process_s=29 * 16, running_count=1)
    assert running.is_late(now_s=30, process_s=30 * 16, running_count=1)


def test_queries_that_run_together_share_what_the_process_computes(running: RunningQuery) -> None:
    assert not running.is_late(now_s=59, process_s=59, running_count=2)
    assert running.is_late(now_s=60, process_s=61, running_count=2)


def test_parameters_are_bound_and_never_pasted(locked: duckdb.DuckDBPyConnection) -> None:
    values = {"name": "'; DROP TABLE t; --", "unused": 1}
    assert sandbox.query(locked, "SELECT $name AS n, x FROM t", values).dicts() == [{"n": values["name"], "x": 1}]


def test_an_unknown_parameter_is_told_by_name(locked: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(sandbox.RuleQueryError, match=r"\$limit"):
        sandbox.query(locked, "SELECT $limit", {"other": 1})
