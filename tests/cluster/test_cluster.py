"""The same diagnosis from threads, processes and a Dask cluster, whatever happens to the workers."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from dask_programs import dask_scheduler, dask_worker
from dying_workers import POINTS, DyingWorkers
from tiers import needed
from workloads.wide_jobs import wide_job

import traceanalyzer
from traceanalyzer.cli import main
from traceanalyzer.report.json import document
from traceanalyzer.run import open_run
from tracesim import simulate_job

RANKS = 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of four ranks: one waits for its loader, the GPU of another is slow."""
    folder = tmp_path_factory.mktemp("job") / "run"
    folder.mkdir()
    simulate_job(wide_job(RANKS, late=1, slow=3, collectives=4)).write_kineto(folder, suffix=".json.gz")
    return folder


def diagnosed(run: Path, store: Path, executor: Executor | None = None) -> dict[str, Any]:
    with open_run(run, store=store, executor=executor) as opened:
        assert not opened.reused
        return document(opened.diagnose())


@pytest.fixture(scope="module")
def in_threads(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return diagnosed(run, tmp_path_factory.mktemp("threads") / "store")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Executor]:
    needed("distributed")
    from traceanalyzer.cluster.dask_executor import DaskExecutor
    from traceanalyzer.pipeline.planning import parse_cluster

    with DaskExecutor(parse_cluster("local:2")) as executor:
        executor.submit(abs, 1).result()  # it starts with its first task, and a test may be the first
        yield executor


def left_over(store: Path) -> list[str]:
    return [path.name for part in ("ranks", "scratch") for path in (store / part).iterdir()]


@pytest.mark.check
def test_processes_give_the_diagnosis_that_threads_give(run: Path, tmp_path: Path, in_threads: dict[str, Any]) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        assert diagnosed(run, tmp_path / "store", executor) == in_threads
    assert left_over(tmp_path / "store") == []


@pytest.mark.check
def test_a_cluster_gives_the_diagnosis_that_threads_give(
    run: Path, tmp_path: Path, in_threads: dict[str, Any], cluster: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    found = diagnosed(Path(run.name), Path(os.path.relpath(tmp_path)) / "store", cluster)
    assert found | {"run": ""} == in_threads | {"run": ""}
    assert left_over(tmp_path / "store") == []
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "store").rglob("*.parquet")} == {0o600}


@pytest.mark.check
def test_workers_that_the_command_starts_do_not_import_pandas(cluster: Executor) -> None:
    with pytest.raises(ModuleNotFoundError, match="traceanalyzer does not use it"):
        cluster.submit(import_module, "pandas").result()


@pytest.mark.check
def test_workers_that_are_killed_in_every_phase_change_nothing(
    run: Path, tmp_path: Path, in_threads: dict[str, Any], cluster: Executor
) -> None:
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    assert diagnosed(run, tmp_path / "store", DyingWorkers(cluster, deaths)) == in_threads
    assert {path.name for path in deaths.iterdir()} == POINTS
    assert left_over(tmp_path / "store") == []


@pytest.mark.check
def test_a_file_that_ends_all_its_workers_is_left_out_and_named(run: Path, tmp_path: Path, cluster: Any) -> None:
    for point in POINTS:
        (tmp_path / point).touch()
    cluster._inner._client.cluster.scheduler.allowed_failures = 0
    try:
        with open_run(run, store=tmp_path / "store", executor=DyingWorkers(cluster, tmp_path, "rank2")) as opened:
            assert [trace.rank for trace in opened.traces] == [0, 1, 3]
            (error,) = opened.unreadable
    finally:
        cluster._inner._client.cluster.scheduler.allowed_failures = 3
    assert error.where == str(run / "rank2.json.gz")
    assert "1 worker ended while working on it" in error.what


@pytest.mark.check
def test_a_file_that_ends_the_only_worker_takes_no_file_along_that_waits_behind_it(run: Path, tmp_path: Path) -> None:
    needed("distributed")
    import dask

    from traceanalyzer.cluster.dask_executor import DaskExecutor
    from traceanalyzer.pipeline.planning import parse_cluster

    for point in POINTS:
        (tmp_path / point).touch()
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        DaskExecutor(parse_cluster("local:1")) as executor,
        open_run(run, store=tmp_path / "store", executor=DyingWorkers(executor, tmp_path, "rank0")) as opened,
    ):
        assert [trace.rank for trace in opened.traces] == [1, 2, 3]
        assert [error.where for error in opened.unreadable] == [str(run / "rank0.json.gz")]


@pytest.mark.check
def test_workers_with_other_code_are_refused_and_those_with_the_same_are_used(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needed("distributed")
    other = tmp_path / "other" / "traceanalyzer"
    shutil.copytree(Path(traceanalyzer.__file__).parent, other, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "errors.py").open("a") as file:
        file.write("# another version\n")
    scheduler = tmp_path / "scheduler.json"
    command = ["ingest", str(run), "--store", str(tmp_path / "store"), "--cluster", f"file:{scheduler}"]
    with dask_scheduler(scheduler):
        with dask_worker(scheduler, PYTHONPATH=str(other.parent)):
            assert main(command) == 2
        said = capsys.readouterr().err
        assert "this worker has traceanalyzer 0.2.0 (engine " in said and "and the command that asks it" in said
        with dask_worker(scheduler):
            assert main([*command, "-v"]) == 0
    assert f"{RANKS} traces, " in capsys.readouterr().out


# Runs each job at once, as no Slurm is here; the job is dask-jobqueue's own.
SBATCH = """#!/bin/sh
job=$(mktemp job-XXXXXX)
cp "$1" "$job"
sh "$job" >/dev/null 2>&1 &
echo "Submitted batch job $!"
"""


@pytest.mark.check
def test_jobs_of_slurm_read_a_run_and_nobody_else_can_give_them_work(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needed("dask_jobqueue")
    import dask

    for name, text in (("sbatch", SBATCH), ("scancel", '#!/bin/sh\nkill "$@"\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    slurm = {f"jobqueue.slurm.{name}": value for name, value in (("cores", 1), ("processes", 1), ("memory", "2GB"))}
    with dask.config.set(slurm):
        assert main(["ingest", str(run), "--store", str(tmp_path / "store"), "--cluster", "slurm:1"]) == 0
    assert f"{RANKS} traces, " in capsys.readouterr().out
    (job,) = tmp_path.glob("job-*")
    assert " tls://" in job.read_text() and "--tls-key" in job.read_text()
    assert {file.stat().st_mode & 0o077 for file in tmp_path.glob(".dask-jobqueue*")} <= {0}
