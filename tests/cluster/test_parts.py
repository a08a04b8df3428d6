"""Parts of a run's work that know nothing of each other: together they leave nothing to `diagnose`."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest
from workloads.wide_jobs import wide_job

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline import attributing, ingesting
from traceanalyzer.run import open_run
from tracesim import simulate_job

PARTS = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job") / "run"
    folder.mkdir()
    simulate_job(wide_job(4, late=1, collectives=4)).write_kineto(folder, suffix=".json.gz")
    return folder


def part(run: Path, store: Path, index: int, capsys: pytest.CaptureFixture[str]) -> str:
    code = main(["part", str(run), "--store", str(store), "--index", str(index), "--of", str(PARTS)])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


def attributed(run: Path, store: Path) -> dict[str, bytes]:
    """Return the files of a run's attribution."""
    with open_run(run, store=store) as opened:
        assert opened.derived is not None
        return {file.name: file.read_bytes() for file in opened.derived.glob("*.parquet")}


@pytest.fixture(scope="module")
def in_threads(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return attributed(run, tmp_path_factory.mktemp("threads") / "store")


@pytest.mark.check
def test_parts_leave_to_diagnose_what_concerns_all_ranks_and_are_done_once(
    run: Path,
    tmp_path: Path,
    in_threads: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = tmp_path / "store"
    first = [part(run, store, index, capsys) for index in range(PARTS)]
    assert first[0].startswith("part 0 of 3: 2 files read, 0 in the store already\n2 files of other parts not read yet")
    assert first[2].endswith("all files of the run are read: 1 trace attributed, 0 in the store already\n")
    again = [part(run, store, index, capsys) for index in (0, 1, 2)]
    assert [text.splitlines()[1].partition(": ")[2] for text in again] == [
        "2 traces attributed, 0 in the store already",
        "1 trace attributed, 0 in the store already",
        "0 traces attributed, 1 in the store already",
    ]
    with monkeypatch.context() as patch:
        for module, name in ((ingesting, "ingest"), (attributing, "attribute")):
            patch.setattr(module, name, None)
        assert attributed(run, store) == in_threads
    assert list((store / "ranks").iterdir()) == []
    assert part(run, store, 0, capsys).endswith("0 traces attributed, 2 in the store already\n")


@pytest.mark.check
def test_a_rank_that_a_part_did_not_finish_is_attributed_by_diagnose(
    run: Path, tmp_path: Path, in_threads: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    for index in (0, 1, 2, 0):
        part(run, store, index, capsys)
    (folder,) = (store / "ranks").iterdir()
    shutil.rmtree(folder / "0")
    (folder / "2" / "windows.parquet").write_bytes(b"damaged")
    assert {path.name for path in folder.iterdir()} == {"2", "3", "matched"}
    assert attributed(run, store) == in_threads


@pytest.mark.check
def test_a_file_that_no_part_can_read_does_not_keep_the_others_waiting(
    run: Path, tmp_path: Path, in_threads: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    damaged, store = tmp_path / "run", tmp_path / "store"
    shutil.copytree(run, damaged)
    (damaged / "rank3.json.gz").write_bytes((run / "rank3.json.gz").read_bytes()[:64] + b"\0" * 64)
    said = [part(damaged, store, index, capsys) for index in (0, 1, 2, 1)]
    assert "all files of the run are read" in said[-1]
    (damaged / "rank3.json.gz").write_bytes((run / "rank3.json.gz").read_bytes())
    assert "all files of the run are read" in part(damaged, store, 0, capsys)
    assert attributed(damaged, store) == in_threads


@pytest.mark.check
def test_diagnose_from_the_store_reads_no_trace_and_tells_which_part_was_not_done(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    command = ["diagnose", str(run), "--store", str(store), "--from-store"]
    assert main(command) == 2
    assert "rank0.json.gz: is not in the store" in capsys.readouterr().err
    for index in (0, 1):
        part(run, store, index, capsys)
    with monkeypatch.context() as patch:
        patch.setattr(ingesting, "ingest", None)
        assert main(command) == 0
        said = capsys.readouterr()
        assert "3 of 4 ranks are in the run" in said.out
        assert "left out" in said.err and "rank2.json.gz: is not in the store (its part was not done" in said.err
        assert main([*command, "--missing", "fail"]) == 3
        assert "failed on missing ranks: 2 of 4; 1 file left out" in capsys.readouterr().err
    part(run, store, 2, capsys)
    assert main([*command, "--missing", "fail"]) == 0


def test_a_part_beyond_the_last_is_an_error(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["part", str(run), "--index", "3", "--of", "3"]) == 2
    assert "there is no part 3 of 3" in capsys.readouterr().err


def test_an_error_of_a_worker_arrives_whole() -> None:
    error = pickle.loads(pickle.dumps(TraceAnalyzerError("what", "where", "hint")))
    assert (error.what, error.where, error.hint) == ("what", "where", "hint")
