"""An output never takes the place of a trace, nor of what the command reads, unless --force means it."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from traceanalyzer.cli import main
from traceanalyzer.commands.output import check_target
from traceanalyzer.errors import TraceAnalyzerError

EVENTS = [
    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 10, "dur": 30, "pid": 0, "tid": 7, "args": {"device": 0}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 50, "pid": 100, "tid": 100, "args": {}},
]
TRACE = json.dumps({"schemaVersion": 1, "traceEvents": EVENTS}).encode()
# Each command with an output; T is the target, A and B are traces.
COMMANDS = (
    "diagnose A -o T",
    "diagnose A -o B --also json=T",
    "export perfetto A -o T",
    "export speedscope A -o T",
    "export folded A -o T",
    "export critical-path A -o T",
    "export xlsx A -o T",
    "export heatmap A -o T",
    "sql A SELECT_1 -o T",
    "sql A SELECT_1 --format parquet -o T",
    "diff A B -o T",
    "diff A B --also html=T",
    "top A -o T",
    "flame A -o T",
    "flame A --format folded -o T",
    "info A -o T",
    "memory A -o T",
    "whatif A -o T",
    "config show A -o T",
    "export baseline T B",
)


@pytest.fixture
def traces(tmp_path: Path) -> dict[str, Path]:
    found = {"A": tmp_path / "a.json", "B": tmp_path / "b.json.gz", "T": tmp_path / "other.json.gz"}
    found["A"].write_bytes(TRACE)
    for name in "BT":
        found[name].write_bytes(gzip.compress(TRACE, mtime=0))
    return found


def _arguments(command: str, files: dict[str, Path]) -> list[str]:
    words = []
    for word in command.split():
        before, equals, last = word.rpartition("=")
        words.append(before + equals + str(files.get(last, last)).replace("_", " " if last == "SELECT_1" else "_"))
    return words


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_writes_over_a_trace(
    command: str, traces: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    if command.startswith("diagnose A -o B"):
        traces["B"].unlink()
    kept = traces["T"].read_bytes()
    assert main(_arguments(command, traces)) == 2
    said = capsys.readouterr().err
    assert "is a trace, and would be lost" in said
    assert "--force" in said
    assert traces["T"].read_bytes() == kept


@pytest.mark.parametrize("command", ["diagnose A -o A", "diff A B --also html=B", "export baseline A B", "top B -o B"])
def test_no_command_writes_over_its_own_trace(command: str, traces: dict[str, Path]) -> None:
    kept = {name: file.read_bytes() for name, file in traces.items()}
    assert main(_arguments(command, traces)) == 2
    assert {name: file.read_bytes() for name, file in traces.items()} == kept


def test_metrics_are_not_written_over_a_trace(tmp_path: Path, traces: dict[str, Path]) -> None:
    target = tmp_path / "out" / "copies.csv"
    target.parent.mkdir()
    target.write_bytes(TRACE)
    assert main(["metrics", "export", str(traces["A"]), str(target.parent), "--format", "csv", "copies"]) == 2
    assert target.read_bytes() == TRACE


def test_an_input_that_is_no_trace_is_kept_too(tmp_path: Path, traces: dict[str, Path]) -> None:
    query = tmp_path / "query.sql"
    query.write_text("SELECT 1")
    hard_link = tmp_path / "link.sql"
    os.link(query, hard_link)
    for target in (query, hard_link):
        assert main(["sql", str(traces["A"]), "-f", str(query), "-o", str(target), "--store", str(tmp_path / "s")]) == 2
    assert query.read_text() == "SELECT 1"


@pytest.mark.check
def test_force_means_it(tmp_path: Path, traces: dict[str, Path]) -> None:
    target = traces["T"]
    arguments = ["info", str(traces["A"]), "--format", "json", "-o", str(target), "--store", str(tmp_path / "store")]
    assert main([*arguments, "--force"]) == 0
    assert json.loads(target.read_bytes())
    assert main(arguments) == 0, "a result is written over without a question"


@pytest.mark.check
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_a_link(tmp_path: Path, traces: dict[str, Path], is_there: bool) -> None:
    behind, link = tmp_path / "folder" / "result.json", tmp_path / "latest.json"
    behind.parent.mkdir()
    if is_there:
        behind.write_text("{}\n")
    link.symlink_to(behind)
    assert main(["info", str(traces["A"]), "-o", str(link), "--store", str(tmp_path / "store")]) == 0
    assert link.is_symlink()
    assert len(json.loads(behind.read_bytes())) > 0
    assert [entry.name for entry in behind.parent.iterdir()] == ["result.json"]


@pytest.mark.check
def test_a_link_to_a_trace_is_a_trace_and_a_loop_is_an_error(
    tmp_path: Path, traces: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    link, loop = tmp_path / "link.html", tmp_path / "loop.html"
    link.symlink_to(traces["T"])
    loop.symlink_to(loop)
    for target, words in ((link, "is a trace"), (loop, "cannot be written")):
        assert main(["info", str(traces["A"]), "-o", str(target), "--store", str(tmp_path / "store")]) == 2
        assert words in capsys.readouterr().err
        assert target.is_symlink()


def _archive(file: Path) -> None:
    member = file.with_name("member.json")
    member.write_bytes(TRACE)
    with tarfile.open(file, "w") as archive:
        archive.add(member, "member.json")


def _table_of_a_folder(file: Path) -> None:
    file.with_name("StringIds.parquet").write_bytes(b"PAR1")
    file.write_bytes(b"PAR1")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("cut.json.gz", lambda file: file.write_bytes(gzip.compress(TRACE)[:-20])),
        ("renamed.txt", lambda file: file.write_bytes(TRACE)),
        ("run.tar", _archive),
        ("run.out", _archive),
        ("run.nsys-rep", lambda file: file.write_bytes(b"report")),
        ("run.ncu-rep", lambda file: file.write_bytes(b"report")),
        ("snapshot.bin", lambda file: file.write_bytes(pickle.dumps({"segments": []}))),
        ("memory.raw.json.gz", lambda file: file.write_bytes(gzip.compress(b"[[-1, 1, 512, 0]]"))),
        ("CUPTI_ACTIVITY_KIND_KERNEL.parquet", _table_of_a_folder),
        ("traceanalyzer.toml", lambda file: file.write_bytes(b"")),
        ("rule.yaml", lambda file: file.write_bytes(b"")),
    ],
)
def test_everything_that_is_hard_to_get_back_is_kept(tmp_path: Path, name: str, make: Callable[[Path], object]) -> None:
    make(tmp_path / name)
    with pytest.raises(TraceAnalyzerError, match="would be lost"):
        check_target(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("report.html", b"<!doctype html>"),
        ("report", b"<!doctype html>"),
        ("results.junit", b'<?xml version="1.0" encoding="utf-8"?>\n<testsuites>'),
        ("junit.xml", b'<?xml version="1.0" encoding="utf-8"?>\n<testsuites>'),
        ("report.md", b"# slow_loader\n\n```json\n{}\n```\n"),
        ("rows.csv", b"name,dur_ns\ngemm,3\n"),
        ("diagnosis.json", b'{"schema_version": 1, "findings": []}'),
        ("rows.json", b'[{"name": "gemm", "dur_ns": 3}]'),
        ("rows.parquet", b"PAR1"),
        ("book.xlsx", b"PK\x03\x04"),
        ("baseline.jsonl", b'{"summary_version": 1, "captures": [\n]}\n'),
        ("empty.json", b""),
    ],
)
def test_a_result_is_written_over(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    check_target(tmp_path / name)
