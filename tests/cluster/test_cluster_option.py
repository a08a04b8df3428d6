"""`--cluster` and `--plan`: what they accept, and what they say where something is missing."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from trace_event_tables import two_ranks

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline.planning import parse_cluster
from traceanalyzer.run import open_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return two_ranks(tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "kind", "count"),
    [
        ("local", "local", None),
        ("local:2", "local", 2),
        ("slurm", "slurm", 16),
        ("slurm:256", "slurm", 256),
        ("env", "env", None),
        ("tcp://10.0.0.5:8786", "scheduler", None),
        ("tls://[fe80::1]:8786", "scheduler", None),
    ],
)
def test_clusters_have_these_names(text: str, kind: str, count: int | None) -> None:
    address = parse_cluster(text)
    assert (address.kind, address.count) == (kind, count)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "local:0",
        "local:-1",
        "slurm:",
        "tcp://",
        "tcp://host",
        "tcp://user:word@host:8786",
        "http://host:1",
        "file:",
    ],
)
def test_anything_else_is_no_cluster_and_is_not_repeated(text: str) -> None:
    with pytest.raises(TraceAnalyzerError, match="names no cluster") as caught:
        parse_cluster(text)
    assert "word" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("cluster", "absent", "extra"), [("local:2", "distributed", "dask"), ("slurm", "dask_jobqueue", "slurm")]
)
def test_a_missing_extra_is_one_sentence_with_the_line_that_installs_it(
    run: Path,
    cluster: str,
    absent: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if extra == "slurm":
        pytest.importorskip("distributed")
    monkeypatch.setitem(sys.modules, absent, None)
    assert main(["ingest", str(run), "--cluster", cluster]) == 2
    said = capsys.readouterr().err
    assert "which is not installed" in said
    assert f"pip install 'gpu-traceanalyzer[{extra}]'" in said


def test_retries_are_those_of_a_cluster(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(run), "--retries", "5"]) == 2
    assert "only tasks of a cluster are tried again" in capsys.readouterr().err


def test_a_plan_says_what_there_is_to_do_and_does_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(run), "--cluster", "local:2", "--plan"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("; 0 in the store already")
    assert said[1].startswith("read       2 files, about 1 core-seconds")
    assert said[2].startswith("attribute  2 traces, about ")
    assert said[3] == "where      2 worker processes of this machine"
    assert not (run / ".traceanalyzer" / "traces").exists()


@pytest.mark.check
def test_a_plan_of_a_run_that_is_stored_has_nothing_to_read(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", str(run)]) == 0
    assert main(["ingest", str(run), "--plan"]) == 0
    assert "read       0 files, about 0 core-seconds\nattribute  0 traces" in capsys.readouterr().out
    assert main(["diagnose", str(run), "--plan"]) == 0
    assert "attribute  2 traces" in capsys.readouterr().out


@pytest.mark.check
def test_many_files_that_fail_alike_end_the_command_and_the_rest_is_not_tried(run: Path, tmp_path: Path) -> None:
    for rank in range(2, 9):
        (run / f"rank{rank}.json").write_text('{"schemaVersion": 1, "traceEvents": 7}')
    with ThreadPoolExecutor(1) as executor:
        with open_run(run, store=tmp_path / "few", attribution=False, executor=executor) as opened:
            assert len(opened.unreadable) == 7
        (run / "rank1.json").write_text('{"schemaVersion": 1, "traceEvents": 7}')
        with pytest.raises(TraceAnalyzerError, match="no traceEvents; 8 of 9 files fail alike, and the rest is left"):
            open_run(run, store=tmp_path / "many", attribution=False, executor=executor)
