"""Clusters that lose their workers, or whose workers have too little memory: the command ends, and says what to do."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest
from dask_programs import dask_scheduler, dask_worker
from dying_workers import GreedyWorkers
from tiers import needed
from trace_event_tables import two_ranks

from traceanalyzer.cluster import dask_executor
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline.planning import parse_cluster
from traceanalyzer.run import open_run

# More than a worker that does nothing takes, and far less than what the greedy one does.
LIMIT_BYTES = 600_000_000


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return two_ranks(tmp_path / "run")


@pytest.mark.check
def test_a_scheduler_waits_for_workers_for_a_while_and_is_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed("distributed")
    from traceanalyzer.cluster.dask_executor import DaskExecutor

    monkeypatch.setattr(dask_executor, "PAUSE_S", 0.1)
    scheduler = tmp_path / "scheduler.json"
    with dask_scheduler(scheduler), DaskExecutor(parse_cluster(f"file:{scheduler}")) as executor:
        with dask_worker(scheduler):
            assert executor.submit(int, 7).result() == 7
        late = executor.submit(int, 8)
        with dask_worker(scheduler):
            assert late.result(60) == 8
            held = executor.submit(time.sleep, 600)
        monkeypatch.setattr(dask_executor, "PATIENCE_S", 1.0)
        with pytest.raises(TraceAnalyzerError, match="the cluster lost all its workers, and none came back") as caught:
            held.result(60)
    assert caught.value.where == f"the Dask scheduler at {scheduler}"
    assert "run the command again" in (caught.value.hint or "")


def test_a_cluster_without_work_may_be_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_executor, "PATIENCE_S", 0.05)
    monkeypatch.setattr(dask_executor, "PAUSE_S", 0.01)
    looked = threading.Semaphore(0)

    def none() -> int:
        looked.release()
        return 0

    watching = dask_executor.Watch(none, lambda seconds: pytest.fail(f"{seconds}"))
    for _ in range(20):
        assert looked.acquire(timeout=10)
    watching.end()


@pytest.mark.check
def test_a_file_that_takes_more_memory_than_its_worker_may_is_left_out_and_named(run: Path, tmp_path: Path) -> None:
    needed("distributed")
    import dask
    from distributed.worker_memory import parse_memory_limit

    from traceanalyzer.cluster.dask_executor import DaskExecutor

    own_bytes = parse_memory_limit("auto", 1, 1, logger=logging.getLogger())
    assert own_bytes is not None
    limits = {"distributed.worker.memory.terminate": LIMIT_BYTES / own_bytes}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0, **limits}),
        DaskExecutor(parse_cluster("local:1")) as cluster,
        open_run(run, store=tmp_path / "s", executor=GreedyWorkers(cluster, "rank0.json")) as opened,
    ):
        assert [trace.rank for trace in opened.traces] == [1]
        (error,) = opened.unreadable
    assert error.where == str(run / "rank0.json")
    assert error.what == "1 worker ended while working on it, most often for lack of memory"
    assert error.hint == "give workers more memory, or let fewer share a machine"
