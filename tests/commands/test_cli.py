"""The command line: exit codes, errors as words, and output that a program can read."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import click
import duckdb
import pyarrow.parquet as pq
import pytest

from traceanalyzer.cli import cli, main
from traceanalyzer.commands.sql import _executed
from traceanalyzer.diagnosis import SEVERITIES

EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 10, "dur": 30},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": 20, "dur": 5}
    | {"args": {"correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 30, "dur": 40}
    | {"args": {"device": 0, "stream": 7, "correlation": 1}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": 60, "dur": 5}
    | {"args": {"correlation": 2}},
    {"ph": "X", "cat": "kernel", "name": "relu", "pid": 0, "tid": 7, "ts": 90, "dur": 10}
    | {"args": {"device": 0, "stream": 7, "correlation": 2}},
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one small trace, ingested once."""
    folder = tmp_path_factory.mktemp("run42")
    document = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}],
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
        "HF_TOKEN": "hf_" + "swordfish" * 3,
        "traceEvents": EVENTS,
    }
    (folder / "rank3.json").write_text(json.dumps(document))
    assert main(["ingest", str(folder), "-q"]) == 0
    return folder


@pytest.fixture
def ask(run: Path, capsys: pytest.CaptureFixture[str]) -> Asking:
    """Runs a command on the run and gives its exit code, output and errors."""
    return Asking(run, capsys)


class Asking:
    """Runs `traceanalyzer COMMAND RUN …` in this process."""

    def __init__(self, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._run = run
        self._capsys = capsys

    def __call__(self, command: str, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = main([command, str(self._run), *arguments])
        out, err = self._capsys.readouterr()
        return code, out, err


def started(arguments: Sequence[str], **settings: str) -> subprocess.Popen[str]:
    """Start the program as a user would, with pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "traceanalyzer", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **settings},
    )


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.list_commands(click.Context(cli)):
        assert main([name, "--help"]) == 0
        assert f"Usage: traceanalyzer {name}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("traceanalyzer ")


def test_unknown_command_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnoze"]) == 2
    assert "diagnoze" in capsys.readouterr().err


def test_no_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert "What limits a run:" in out + err


@pytest.mark.parametrize("command", ["diagnose", "info", "ingest"])
def test_missing_run_is_one_error_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, str(tmp_path / "absent")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err


@pytest.mark.check
def test_sql_table_is_aligned_and_whole_in_a_pipe(ask: Asking) -> None:
    code, out, _ = ask("sql", "SELECT name, dur_ns FROM gpu_ops ORDER BY start_ns")
    assert (code, out.splitlines()) == (
        0,
        [
            "name  dur_ns",
            "────────────",
            "gemm   40000",
            "relu   10000",
        ],
    )


@pytest.mark.check
def test_sql_csv_is_exact_and_null_is_empty(ask: Asking) -> None:
    code, out, _ = ask("sql", "SELECT 'a,\"b' AS x, NULL AS y, 0.1::DOUBLE AS z, [1, 2] AS w", "--format", "csv")
    assert code == 0
    assert list(csv.reader(io.StringIO(out))) == [["x", "y", "z", "w"], ['a,"b', "", "0.1", "[1, 2]"]]


@pytest.mark.check
def test_sql_json_is_one_object_a_row(ask: Asking) -> None:
    query = "SELECT name, dur_ns, NULL AS n, 'nan'::DOUBLE AS x FROM gpu_ops ORDER BY start_ns"
    code, out, _ = ask("sql", query, "--format", "json")
    assert code == 0
    assert json.loads(out)[0] == {"name": "gemm", "dur_ns": 40000, "n": None, "x": None}


@pytest.mark.check
def test_sql_json_without_rows_is_an_empty_array(ask: Asking) -> None:
    assert json.loads(ask("sql", "SELECT 1 AS x WHERE false", "--format", "json")[1]) == []


@pytest.mark.check
def test_sql_parquet_keeps_types(ask: Asking, tmp_path: Path) -> None:
    path = tmp_path / "ops.parquet"
    code, out, _ = ask("sql", "SELECT op_id, name FROM gpu_ops", "--format", "parquet", "--output", str(path))
    assert (code, out) == (0, "")
    assert [str(field.type) for field in pq.read_schema(path)] == ["int64", "string"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.check
def test_sql_reads_its_query_from_a_file(ask: Asking, tmp_path: Path) -> None:
    path = tmp_path / "query.sql"
    path.write_text("SELECT count(*) AS n FROM gpu_ops")
    assert ask("sql", "--file", str(path), "--format", "csv")[1] == "n\n2\n"


def test_sql_reads_its_query_from_a_pipe(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT count(*) AS n FROM gpu_ops"))
    assert ask("sql", "--format", "csv")[1] == "n\n2\n"


def test_mistake_in_sql_says_where_and_what_was_meant(ask: Asking) -> None:
    code, out, err = ask("sql", "SELECT *\nFROM gpu_opz")
    assert (code, out) == (2, "")
    assert err.startswith("error: query: Catalog Error: Table with name gpu_opz does not exist!")
    *_, line, mark, _ = err.splitlines()
    assert line.strip() == "line 2: FROM gpu_opz"
    assert mark.index("^") == line.index("gpu_opz")
    assert "gpu_ops" in err.split("hint: ")[1]


def test_output_that_cannot_be_written_is_said(ask: Asking, tmp_path: Path) -> None:
    code, _, err = ask("sql", "SELECT 1", "-o", str(tmp_path / "absent" / "x.csv"))
    assert code == 2
    assert "cannot be written" in err


def test_failed_query_leaves_no_output_file(ask: Asking, tmp_path: Path) -> None:
    assert ask("sql", "SELECT nothing", "-o", str(tmp_path / "x.csv"))[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_a_query_has_a_time_limit_and_a_length(ask: Asking) -> None:
    endless = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"
    code, out, err = ask("sql", endless, "--timeout", "0.2")
    assert (code, out) == (2, "")
    assert "took longer than 0.2 s" in err
    assert "--timeout SECONDS" in err
    assert ask("sql", "SELECT 1", "--timeout", "20")[0] == 0
    assert 'column "INTERRUPT" not found' in ask("sql", "SELECT INTERRUPT FROM steps", "--timeout", "20")[2]
    code, _, err = ask("sql", "SELECT 1", "--timeout", "nan")
    assert code == 2
    assert "nan is no number of seconds" in err
    code, _, err = ask("sql", "SELECT 1" + " + 1" * 60_000)
    assert code == 2
    assert "the query: is longer than 200,000 characters" in err


@pytest.mark.parametrize("layout", ["table", "csv", "json", "parquet"])
def test_a_limit_holds_for_the_rows_that_are_computed_while_the_first_are_written(
    layout: str, ask: Asking, tmp_path: Path
) -> None:
    endless = "FROM range(10_000_000_000)"
    code, out, err = ask("sql", endless, "--timeout", "0.03", "--format", layout, "-o", str(tmp_path / "rows"))
    assert (code, out) == (2, "")
    assert "took longer than 0.03 s" in err
    assert list(tmp_path.iterdir()) == []


def test_a_query_from_a_pipe_that_is_no_text_is_refused_as_such(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe1"), "utf-8", "surrogateescape"))
    code, _, err = ask("sql")
    assert code == 2
    assert "standard input: holds no text in UTF-8" in err


def test_names_of_columns_steer_no_terminal(ask: Asking) -> None:
    pivot = "PIVOT (SELECT concat('gemm', chr(27), '[2J', chr(10), 'x') AS name) ON name USING count(*)"
    code, out, _ = ask("sql", pivot)
    assert code == 0
    assert out.startswith("gemm\\x1b[2J\\nx\n")


@pytest.mark.parametrize("value", ["INTERVAL 3 DAY", "[INTERVAL 3 DAY]", "union_value(a := 1)"])
def test_what_parquet_has_no_type_for_is_said(value: str, ask: Asking, tmp_path: Path) -> None:
    code, _, err = ask("sql", f"SELECT {value} AS late", "-o", str(tmp_path / "rows.parquet"))
    assert code == 2
    assert "Parquet has no type for a column of the rows: late " in err
    assert list(tmp_path.iterdir()) == []


def test_a_limit_holds_for_queries_at_the_prompt(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b;"
    lines = iter([endless, "SELECT 41 + 1 AS n;", ".quit"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    monkeypatch.setattr(sys, "stdin", _Terminal())
    code, out, err = ask("sql", "--timeout", "0.5")
    assert code == 0
    assert "took longer than 0.5 s" in err
    assert "42" in out


def test_shell_answers_and_survives_a_mistake(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter(["SELECT nothing;", ".tables", ".columns gpu_ops", "SELECT count(*) AS n", "FROM gpu_ops;", ".quit"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    monkeypatch.setattr(sys, "stdin", _Terminal())
    code, out, err = ask("sql")
    assert code == 0
    assert "error: query" in err
    assert "gpu_ops" in out
    assert out.rstrip().endswith("2")


@pytest.mark.parametrize("leave", ["quit", "exit;", ".exit"])
def test_shell_knows_its_commands_without_the_point(leave: str, ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter(["help", "SELECT 1 AS", "help;", leave])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    monkeypatch.setattr(sys, "stdin", _Terminal())
    code, out, err = ask("sql")
    assert (code, err) == (0, "")
    assert ".columns NAME" in out
    assert out.split()[-3] == "help"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_info_tells_rank_and_redacts_secrets(ask: Asking) -> None:
    code, out, _ = ask("info", "-v")
    assert code == 0
    assert "3 (metadata) of 8" in out
    assert "swordfish" not in out
    assert "(redacted)" in out
    assert "7 ranks of 8 absent (0-2, 4-7)" in out


@pytest.mark.check
def test_info_counts_the_steps_of_a_job_without_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 1, "tid": 1, "ts": n * 10, "dur": 9}
        for n in range(3)
    ]
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": steps}))
    assert main(["info", str(tmp_path)]) == 0
    assert "3 (ProfilerStep, host only)" in capsys.readouterr().out


def test_info_as_json(ask: Asking) -> None:
    document = json.loads(ask("info", "--format", "json")[1])
    assert document["schema_version"] == 1
    assert document["traces"][0]["launch_share"] == 1.0
    assert "swordfish" not in json.dumps(document)


def test_diagnose_as_json_keeps_to_its_schema(ask: Asking, root: Path) -> None:
    import jsonschema

    code, out, err = ask("diagnose", "--format", "json")
    assert (code, err) == (0, "")
    jsonschema.validate(json.loads(out), json.loads((root / "docs" / "diagnosis.schema.json").read_text()))


def test_second_diagnosis_reads_parquet_only_and_says_so(ask: Asking) -> None:
    assert "read from Parquet only" in ask("diagnose", "-v")[2]


def test_quiet_prints_the_result_alone(ask: Asking) -> None:
    assert ask("diagnose", "-q")[2] == ""


def test_fail_on_exits_1_when_a_finding_reaches_the_level(ask: Asking) -> None:
    findings = json.loads(ask("diagnose", "--format", "json")[1])["findings"]
    assert findings
    code, _, err = ask("diagnose", "--fail-on", "note")
    assert (code, err.startswith("failed on note or worse: ")) == (1, True)
    worst = max(SEVERITIES.index(finding["severity"]) for finding in findings)
    for level in SEVERITIES:
        assert ask("diagnose", "--fail-on", level)[0] == (1 if SEVERITIES.index(level) <= worst else 0)


@pytest.mark.parametrize("assignment", ["nonsense", "a=1", "=", ".b=1", "a.=1"])
def test_malformed_set_is_explained(ask: Asking, assignment: str) -> None:
    code, _, err = ask("diagnose", "--set", assignment)
    assert code == 2
    assert "RULE.PARAM=VALUE" in err


def test_set_of_an_unknown_rule_is_explained(ask: Asking) -> None:
    code, _, err = ask("diagnose", "--set", "no-such-rule.param=1")
    assert code == 2
    assert "no such rule" in err


def test_unknown_metric_suggests_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "show", "device_tim"]) == 2
    assert "did you mean 'device_time'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nope", "`traceanalyzer metrics list` lists all"),
        ("xyz", "`traceanalyzer metrics list` lists all"),
        ("ledger", "did you mean 'run_ledger' or 'time_ledger' or 'ledger_rows'?"),
    ],
)
def test_only_names_that_are_alike_are_suggested(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "show", name]) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.check
def test_every_metric_and_table_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    from traceanalyzer.query.engine import derived_tables, metrics

    for name in (*metrics(), *derived_tables(), "gpu_ops", "canonical.defects", "attribution.steps"):
        assert main(["metrics", "show", name]) == 0
    assert main(["metrics", "list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in metrics())


def test_a_metric_is_shown_with_its_summary_once_and_its_lists_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "show", "time_ledger"]) == 0
    shown = capsys.readouterr().out
    assert "\n  host.tokenize        … in a tokenizer\n  host.preprocess      … in CPU operators" in shown
    assert main(["metrics", "show", "allocations"]) == 0
    assert capsys.readouterr().out.count("One row per trace, step and kind of allocation") == 1


@pytest.mark.check
def test_every_rule_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    from traceanalyzer.report import formats
    from traceanalyzer.report.screens import rule as rule_report
    from traceanalyzer.rules.rule_set.loading import load_rules

    assert main(["rules", "list"]) == 0
    listed = capsys.readouterr().out
    for rule in load_rules():
        assert rule.id in listed
        formats.render(rule_report.sections(rule), "terminal", sys.stdout)
        assert rule.title in " ".join(capsys.readouterr().out.split())
    assert main(["rules", "show", rule.id]) == 0


def test_a_severity_that_is_a_condition_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "show", "tq-thinned"]) == 0
    head, *rest = capsys.readouterr().out.splitlines()
    assert head.endswith("severity by its values · high confidence at most")
    assert "severity  CASE WHEN kept_share < $block_share THEN 'blocker' ELSE 'warning' END" in rest


def test_unknown_rule_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "show", "no-such-rule"]) == 2
    assert "no such rule" in capsys.readouterr().err


@pytest.mark.check
def test_reader_that_leaves_early_gets_no_traceback(run: Path) -> None:
    process = started(["sql", str(run), "SELECT * FROM range(1000000)", "--format", "csv"])
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 141


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let Ctrl-C reach this process and those that it starts: what a shell runs in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.check
@pytest.mark.usefixtures("interruptible")
def test_interrupt_gets_no_traceback(run: Path) -> None:
    process = started(["sql", str(run), "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"])
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    process.send_signal(signal.SIGINT)
    try:
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert "Traceback" not in err
    assert process.returncode == 130


class LateConnection:
    """A DuckDB connection whose queries begin late, as on a loaded machine."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self.interrupt = con.interrupt

    def execute(self, text: str) -> duckdb.DuckDBPyConnection:
        time.sleep(0.3)
        return self._con.execute(text)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_comes_before_the_query_begins_still_ends_it() -> None:
    endless = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"
    with duckdb.connect() as con:
        pressed = (threading.get_ident(), signal.SIGINT)
        threading.Timer(0.1, signal.pthread_kill, pressed).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            _executed(cast("duckdb.DuckDBPyConnection", LateConnection(con)), endless)
        assert time.monotonic() - began < 10


@pytest.mark.check
def test_ascii_terminal_costs_characters_not_the_report(run: Path) -> None:
    process = started(["info", str(run)], PYTHONIOENCODING="ascii")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "run42" in out


@pytest.mark.check
def test_bars_differ_on_an_ascii_terminal(root: Path, tmp_path: Path) -> None:
    trace = str(root / "sample_traces" / "launch_bound")
    process = started(["diagnose", trace, "--store", str(tmp_path / "store")], PYTHONIOENCODING="ascii")
    out, err = process.communicate()
    assert err == ""
    assert re.search(r"#{20,}={10,}\.{10,}", out)
    assert re.search(r"\d us ", out)
    assert "?" not in out


def test_no_command_shows_the_help_as_it_is_laid_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "\n\nWhat limits a run:\n  diagnose" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "hint"),
    [("diagnos", "did you mean 'diagnose'?"), ("xyz", "lists all"), (".", "traceanalyzer diagnose .")],
)
def test_what_is_no_command_is_one_sentence_with_the_likely_one(
    capsys: pytest.CaptureFixture[str], name: str, hint: str
) -> None:
    assert main([name]) == 2
    message = capsys.readouterr().err
    assert f"error: {name}: no such command" in message
    assert hint in message


@pytest.mark.check
def test_times_with_a_zone_are_shown(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = [str(root / "sample_traces" / "slow_loader"), "--store", str(tmp_path)]
    assert (
        main(["sql", *run, "SELECT TIMESTAMPTZ '2026-01-02 03:04:05+00' AT TIME ZONE 'UTC' AS a, now() > a AS b"]) == 0
    )
    assert main(["sql", *run, "SELECT now()"]) == 0
    assert "2026-01-02 03:04:05" in capsys.readouterr().out
