"""A run of more ranks than are held at once: one diagnosis whoever attributed it, and whenever a command was killed."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import signal
import subprocess
import sys
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from tiers import needed
from workloads.wide_jobs import wide_job

from traceanalyzer.attribution.replay.all_ranks import ReducedRun
from traceanalyzer.attribution.replay.bounds import HELD_DEVICES, Bounds
from traceanalyzer.attribution.replay.device_bounds import RankScans, ScanQuery
from traceanalyzer.attribution.replay.scan import WhatIf
from traceanalyzer.report.json import document
from traceanalyzer.run import open_run
from tracesim import simulate_job

pytestmark = pytest.mark.check

RANKS = HELD_DEVICES + 4
KILLED = """
import os, signal, sys
from pkgutil import resolve_name
place, _, name = sys.argv[1].rpartition(".")
setattr(resolve_name(place), name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
from traceanalyzer.cli import main
main(sys.argv[2:])
"""
SCAN = "traceanalyzer.attribution.replay.all_ranks:ReducedRun.shifts"
SCREEN = "traceanalyzer.rules.diagnosis.reporting.choose_detail_ranks"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide") / "run"
    folder.mkdir()
    job = {**wide_job(RANKS, late=1, slow=6, collectives=1), "steps": 4}
    simulate_job(job).write_kineto(folder, suffix=".json.gz")
    return folder


@pytest.fixture(scope="module")
def from_cluster(run: Path) -> dict[str, Any]:
    """The diagnosis of a run that two worker processes read and attributed."""
    needed("distributed")
    from traceanalyzer.cluster.dask_executor import DaskExecutor
    from traceanalyzer.pipeline.planning import parse_cluster

    with DaskExecutor(parse_cluster("local:2")) as executor:
        return diagnosed(run, executor)


def store_of(run: Path) -> Path:
    return run.with_name("store")


def diagnosed(run: Path, executor: Executor | None = None) -> dict[str, Any]:
    """Return the diagnosis of a run whose attribution is not there."""
    forget(run)
    with open_run(run, store=store_of(run), executor=executor) as opened:
        return document(opened.diagnose())


def forget(run: Path) -> None:
    for part in ("derived", "answers", "ranks"):
        shutil.rmtree(store_of(run) / part, ignore_errors=True)


def test_cluster_processes_and_threads_give_one_diagnosis(run: Path, from_cluster: dict[str, Any]) -> None:
    assert from_cluster["screening"]["rank_count"] == RANKS
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        assert diagnosed(run, executor) == from_cluster
    assert diagnosed(run) == from_cluster


def test_a_command_that_has_workers_reads_no_scan_itself(
    run: Path, from_cluster: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_here(*_: object) -> NoReturn:
        raise AssertionError("a scan was read in the command's own process")

    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        monkeypatch.setattr("traceanalyzer.attribution.replay.device_bounds.StoredScans.scan", read_here)
        assert diagnosed(run, executor) == from_cluster


def test_workers_say_what_devices_without_steps_lose(run: Path) -> None:
    """A run without steps asks it; here with time shifts that grow from call to call."""
    with (
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor,
        open_run(run, store=store_of(run), executor=executor) as opened,
    ):
        together = Bounds.load(opened.connection, opened.scans_of()).together
        assert isinstance(together, ReducedRun)
        what_ifs = [WhatIf(frozenset({"host.dataloader"})), WhatIf(frozenset({"dev.comm_transfer"}))]
        queries = [ScanQuery(at, what_ifs, positions) for at, positions in enumerate(together.sync_points.positions)]
        shifts = [np.arange(2 * len(item.positions)).reshape(-1, 2) * 1_000 for item in queries]
        here = RankScans(together.scans.scan_of, together.scans.window_of)
        found = list(here.whole_savings(queries, shifts))
        assert list(together.scans.whole_savings(queries, shifts)) == found
    assert all(of_first > 0 for of_first, _ in found)


def test_a_command_that_is_killed_in_the_scan_and_in_the_screening_is_run_again(
    run: Path, from_cluster: dict[str, Any]
) -> None:
    forget(run)
    read = sorted((store_of(run) / "traces").iterdir())
    written_ns = [folder.stat().st_mtime_ns for folder in read]
    command = ["diagnose", str(run), "--store", str(store_of(run)), "--format", "json", "--quiet"]
    for where, is_attributed in ((SCAN, False), (SCREEN, True)):
        assert subprocess.run([sys.executable, "-c", KILLED, where, *command]).returncode == -signal.SIGKILL
        derived = store_of(run) / "derived"
        assert (derived.is_dir() and any(derived.iterdir())) == is_attributed
    last = subprocess.run([sys.executable, "-m", "traceanalyzer", *command], check=True, capture_output=True)
    assert json.loads(last.stdout) == from_cluster
    assert sorted((store_of(run) / "traces").iterdir()) == read
    assert [folder.stat().st_mtime_ns for folder in read] == written_ns
    assert list((store_of(run) / "scratch").iterdir()) == []
