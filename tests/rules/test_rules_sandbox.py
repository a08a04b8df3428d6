"""A rule is data: it can be wrong or slow, but it reads its run's tables and nothing else."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from traceanalyzer.diagnosis import Diagnosis, Outcome
from traceanalyzer.process import memory_within
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.rule_file.model import EvidenceQuery, Rule
from traceanalyzer.rules.rule_set.loading import load_rules, rule_called
from tracesim import in_memory, simulate

ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range = 7"
SLOW_MATMULS = {"steps": 6, "kernels": 40, "kernel_us": 800, "precision": "fp32"}
FP32 = rule_called("fp32-matmul-no-tensor-core", load_rules())


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
    started = time.process_time()
    with pytest.raises(sandbox.RuleQueryError, match=r"took longer than 0\.2 s"):
        sandbox.query(locked, ENDLESS, {}, timeout_s=0.2)
    assert time.process_time() - started < 5
    assert sandbox.query(locked, "SELECT x FROM t", {}).rows == ((1,),)


def test_a_query_that_sleeps_is_stopped(locked: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(sandbox.RuleQueryError, match=r"took longer than 0\.02 s"):
        sandbox.query(locked, "SELECT sleep_ms(60000)", {}, timeout_s=0.02)
    assert sandbox.query(locked, "SELECT x FROM t", {}).rows == ((1,),)


def test_a_query_of_many_characters_is_not_read(locked: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(sandbox.RuleLimitError, match="may have 200,000"):
        sandbox.query(locked, f"SELECT '{'x' * sandbox.LONGEST_QUERY}'", {})
    with pytest.raises(sandbox.RuleLimitError, match="may have 200,000"):
        sandbox.columns(locked, f"SELECT '{'x' * sandbox.LONGEST_QUERY}'", {})


# A function without side effects is worked out while its query is planned, where nothing looks for an interruption.
STUCK = """
import time, duckdb
from traceanalyzer import process
from traceanalyzer.rules.evaluation import sandbox
def slow(x: int) -> int:
    time.sleep(60 * x)
    return x
con = duckdb.connect()
con.create_function("slow", slow)
con.execute("SELECT slow(0)")  # so that the limit meets the sleep
process.STUCK_AFTER_S = 0.2
process.end_process_when_stuck("cannot be stopped", 2)
sandbox.query(con, "SELECT slow(1)", {}, timeout_s=1)
"""


def test_a_query_that_cannot_be_stopped_ends_its_program() -> None:
    answer = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=50)
    assert (answer.returncode, answer.stderr) == (2, "cannot be stopped")


def test_an_endless_answer_is_stopped_while_it_is_read(locked: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(sandbox.RuleLimitError, match="more than 1,000,000 rows"):
        sandbox.query(locked, "SELECT range FROM range(100000000000)", {})
    assert sandbox.query(locked, "SELECT x FROM t", {}).rows == ((1,),)


@pytest.mark.check
def test_an_answer_of_as_many_rows_as_allowed_is_whole(locked: duckdb.DuckDBPyConnection) -> None:
    assert len(sandbox.query(locked, "SELECT range FROM range($rows)", {"rows": sandbox.ROW_LIMIT}).rows) == 1_000_000


@pytest.mark.check
def test_on_a_busy_machine_the_clock_counts(locked: duckdb.DuckDBPyConnection) -> None:
    busy = threading.Event()
    others = [threading.Thread(target=_compute_until, args=(busy,)) for _ in range(4)]
    for other in others:
        other.start()
    started_s = time.monotonic()
    try:
        with pytest.raises(sandbox.RuleLimitError, match=r"took longer than 0\.5 s"):
            sandbox.query(locked, ENDLESS, {}, timeout_s=0.5)
    finally:
        busy.set()
    assert time.monotonic() - started_s < 5


def _compute_until(stop: threading.Event) -> None:
    while not stop.is_set():
        hashlib.sha256(bytes(1_000_000)).digest()


def test_queries_of_one_diagnosis_have_a_limit_together(locked: duckdb.DuckDBPyConnection) -> None:
    with sandbox.total_time(0.3):
        for _ in range(2):
            with pytest.raises(sandbox.RuleLimitError, match=r"all rules together took longer than 0\.3 s"):
                sandbox.query(locked, ENDLESS, {})
        assert sandbox.query(locked, "SELECT x FROM t", {}, sandbox.UNLIMITED).rows == ((1,),)
    assert sandbox.query(locked, "SELECT x FROM t", {}).rows == ((1,),)


@pytest.mark.check
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(range) AS x FROM range(10000000000)",
        "SELECT list_sum(range(2000000000)) AS x",
        "SELECT repeat('x', 100000000 + range::INTEGER) AS x FROM range(1000)",
        "SELECT count(*) AS x FROM (SELECT DISTINCT md5(range::VARCHAR) FROM range(1000000000))",
    ],
)
def test_a_query_has_little_memory_beside_the_tables(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MEMORY_GIB", 0.25)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT range AS x FROM range(100)")
    sandbox.lock(con)
    # The process's limit would hold it, too, but only for one query at a time.
    number, unit = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0].split()
    assert unit == "MiB" and float(number) < 300
    with pytest.raises(sandbox.RuleLimitError, match=r"more than 0\.25 GiB of memory"):
        sandbox.query(con, sql, {})
    assert len(sandbox.query(con, "SELECT x FROM t", {}).rows) == 100


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process's data")
def test_queries_that_run_at_once_leave_the_process_its_memory() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    first, second = memory_within(2**33), memory_within(2**33)
    first.__enter__()
    assert resource.getrlimit(resource.RLIMIT_DATA) != before
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_neither_memory_nor_disk_can_be_had_back(locked: duckdb.DuckDBPyConnection) -> None:
    limits = "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
    ((memory, folder),) = sandbox.query(locked, limits, {}).rows
    assert float(memory.removesuffix(" GiB")) <= 4.1
    assert folder == ""


def test_parameters_are_bound_and_never_pasted(locked: duckdb.DuckDBPyConnection) -> None:
    values = {"name": "'; DROP TABLE t; --", "unused": 1}
    assert sandbox.query(locked, "SELECT $name AS n, x FROM t", values).dicts() == [{"n": values["name"], "x": 1}]


def test_an_unknown_parameter_is_told_by_name(locked: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(sandbox.RuleQueryError, match=r"\$limit"):
        sandbox.query(locked, "SELECT $limit", {"other": 1})


def diagnosed(rule: Rule) -> Diagnosis:
    with in_memory.connect_tables(simulate(SLOW_MATMULS).canonical_tables()) as con:
        return diagnose(con, [rule])


def outcome_of(rule: Rule) -> Outcome:
    (outcome,) = diagnosed(rule).outcomes
    return outcome


@pytest.mark.check
def test_savings_of_more_operations_than_an_answer_has_rows_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    (expected,) = diagnosed(FP32).findings
    monkeypatch.setattr(sandbox, "ROW_LIMIT", 50)
    (found,) = diagnosed(FP32).findings
    assert found == expected


@pytest.mark.check
def test_an_operation_that_a_rule_names_twice_is_shortened_by_the_larger_saving() -> None:
    assert FP32.op_saving is not None
    smaller = f"SELECT * REPLACE (saving_ns / 2 AS saving_ns) FROM ({FP32.op_saving}\n)"
    for both in (f"{FP32.op_saving} UNION ALL {smaller}", f"{smaller} UNION ALL {FP32.op_saving}"):
        assert diagnosed(replace(FP32, op_saving=both)).findings[0].saving_ns == diagnosed(FP32).findings[0].saving_ns


@pytest.mark.check
def test_a_select_of_too_many_rows_is_an_abstention_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "ROW_LIMIT", 50)
    many = replace(
        FP32,
        select="SELECT bound.*, 1.0 AS fp32_share FROM bound, range(60)",
        when="TRUE",
        fixes=(replace(FP32.fixes[0], when=None),),
    )
    outcome = outcome_of(replace(many, message="many", evidence=(), lower=(), abstain=()))
    assert (outcome.state, outcome.reason) == ("abstained", "limit-reached")
    assert outcome.detail == "limit reached: the query returns more than 50 rows"
    assert outcome.unlock == "aggregate them in the rule's query"


@pytest.mark.check
def test_a_query_without_end_is_an_abstention_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "TOTAL_TIMEOUT_S", 1.0)
    outcome = outcome_of(replace(FP32, op_saving=f"{FP32.op_saving} AND ({ENDLESS}) = 0"))
    assert (outcome.state, outcome.reason) == ("abstained", "limit-reached")
    assert outcome.detail == "limit reached: the queries of all rules together took longer than 1 s"
    assert outcome.unlock is not None


@pytest.mark.check
def test_evidence_that_cannot_be_had_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "ROW_LIMIT", 50)
    evidence = (EvidenceQuery("All kernels", "SELECT range FROM range(60)"),)
    (found,) = diagnosed(replace(FP32, evidence=evidence)).findings
    (table,) = found.evidence
    assert table.title == "All kernels"
    assert table.rows == (("limit reached: the query returns more than 50 rows",),)
