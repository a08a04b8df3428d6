"""A rule is data: it can be wrong or slow, but it reads its run's tables and nothing else."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
import pytest

from traceanalyzer.rules import sandbox


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
    started = time.monotonic()
    with pytest.raises(sandbox.RuleQueryError, match=r"took longer than 0\.2 s"):
        sandbox.query(locked, endless, {}, timeout_s=0.2)
    assert time.monotonic() - started < 5
    assert sandbox.query(locked, "SELECT x FROM t", {}).rows == ((1,),)


def test_parameters_are_bound_and_never_pasted(locked: duckdb.DuckDBPyConnection) -> None:
    values = {"name": "'; DROP TABLE t; --", "unused": 1}
    assert sandbox.query(locked, "SELECT $name AS n, x FROM t", values).dicts() == [{"n": values["name"], "x": 1}]


def test_an_unknown_parameter_is_told_by_name(locked: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(sandbox.RuleQueryError, match=r"\$limit"):
        sandbox.query(locked, "SELECT $limit", {"other": 1})
