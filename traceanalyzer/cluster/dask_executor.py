"""An executor whose tasks run on a Dask cluster, which it starts or finds when the first task comes.

It ends the waiting for a cluster whose workers are all gone: Dask itself would wait for new ones for ever.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError
from contextlib import ExitStack, suppress
from shutil import which
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline.ingesting import LostWorkerError, RunningCode
from traceanalyzer.pipeline.planning import ClusterAddress
from traceanalyzer.text.visible import masked
from traceanalyzer.text.words import counted

if TYPE_CHECKING:
    from distributed import Client


# A preempted machine, or a pod that is started again, is back by then.
PATIENCE_S = 300.0
PAUSE_S = 2.0


class Watch:
    """Holds the futures of tasks, and lets all of them fail once there was no worker for `PATIENCE_S` seconds."""

    def __init__(self, count_workers: Callable[[], int], error: Callable[[float], Exception | None]) -> None:
        """Begin to watch. `error` gets the seconds without workers; what it returns fails the futures, None waits."""
        self._count_workers, self._error = count_workers, error
        self._waiting: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def hold(self, future: Future[Any]) -> None:
        """Let a future fail with the others, unless it is done before."""
        with self._lock:
            self._waiting.add(future)
        future.add_done_callback(self._release)

    def end(self) -> None:
        """Watch no more; futures that wait stay as they are."""
        self._ended.set()

    def _release(self, future: Future[Any]) -> None:
        with self._lock:
            self._waiting.discard(future)

    def _look(self) -> None:
        seen_s = time.monotonic()
        while not self._ended.wait(PAUSE_S):
            try:
                count = self._count_workers()
            except Exception:  # the scheduler does not answer: if it is lost, Dask gives its tasks up
                continue
            now_s = time.monotonic()
            if count or not self._waiting:
                seen_s = now_s
            elif now_s - seen_s > PATIENCE_S and (error := self._error(now_s - seen_s)) is not None:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for future in waiting:
            with suppress(InvalidStateError):
                future.set_exception(error)


# A task that raises is tried so often again, elsewhere if there is an elsewhere; one whose worker dies, as often as
# Dask's configuration says (distributed.scheduler.allowed-failures).
RETRIES = 2
# A scheduler without workers for so long has none.
_PATIENCE_S = 60
_PAUSE_S = 2
_NEVER = "365 days"
# Each process of Dask's looks 50 times a second whether it is late, and notes twice a second what it uses, for a
# dashboard that nobody sees: 40 ms of CPU a second for two workers, while traces are read on the same cores.
_QUIET = {"distributed.admin.tick.interval": "1s", "distributed.admin.system-monitor.interval": "5s"}
_RUNNING = "is it running, and does this machine reach it?"
_HINTS = {
    "local": None,
    "scheduler": _RUNNING,
    "file": _RUNNING,
    "env": _RUNNING,
    "slurm": "dask-jobqueue reads how to ask for a job from ~/.config/dask/jobqueue.yaml (docs/scale.md)",
}
_GONE_HINT = "what is done is kept in the store: start workers (dask worker ADDRESS), and run the command again"
_LOST_HINT = "what is done is kept in the store: run the command again"
_P = ParamSpec("_P")
_T = TypeVar("_T")


class DaskExecutor(Executor):
    """Runs tasks on a Dask cluster; raises TraceAnalyzerError where there is none, or its workers have other code.

    Results and arguments are plain data; tables go through the run's store.
    """

    def __init__(self, address: ClusterAddress, retries: int = RETRIES) -> None:
        _check_installed(address)
        self._address, self._retries = address, retries
        self._opened = ExitStack()
        self._inner: Executor | None = None
        self._watch: Watch | None = None

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Have a worker call a function; Dask shows its name, and never the arguments."""
        if self._inner is None or self._watch is None:
            self._inner, self._watch = self._open()
        future: Future[_T] = Future()
        future.set_running_or_notify_cancel()
        self._watch.hold(future)
        self._inner.submit(fn, *args, **kwargs).add_done_callback(lambda done: self._pass_on(done, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster, and end what was started for it; tasks that still run are given up."""
        self._inner = None
        if self._watch is not None:
            self._watch.end()
        with suppress(Exception):  # whatever it is, the work is done or its error is reported
            self._opened.close()

    def _open(self) -> tuple[Executor, Watch]:
        heard = _silence()
        try:
            client = self._opened.enter_context(_client(self._address, self._opened))
            _await_workers(client, self._address, heard)
        except (OSError, RuntimeError, ValueError) as error:
            reason = masked(" ".join(str(error).split())) or type(error).__name__
            raise TraceAnalyzerError(
                f"the cluster cannot be used: {reason}", str(self._address), _HINTS[self._address.kind]
            ) from error
        _check_workers(client)
        executor: Executor = client.get_executor(pure=False, retries=self._retries)

        def all_gone(seconds: float) -> TraceAnalyzerError | None:
            if self._address.kind == "slurm" and heard.first is None:
                return None  # a queue of jobs may take hours
            what = f"the cluster lost all its workers, and none came back in {seconds:,.0f} s"
            return TraceAnalyzerError(what, str(self._address), _GONE_HINT)

        return executor, Watch(lambda: len(client.nthreads()), all_gone)

    def _pass_on(self, done: Future[_T], future: Future[_T]) -> None:
        from distributed import KilledWorker

        error: BaseException | None
        try:
            error = done.exception()
        except CancelledError:
            error = TraceAnalyzerError("the cluster was lost", str(self._address), _LOST_HINT)
        if isinstance(error, KilledWorker):
            workers = counted(error.allowed_failures + 1, "worker")
            what = f"{workers} ended while working on it, most often for lack of memory"
            error = LostWorkerError(what, hint="give workers more memory, or let fewer share a machine")
        with suppress(InvalidStateError):  # it was given up meanwhile
            if error is None:
                future.set_result(done.result())
            else:
                future.set_exception(error)


class _Errors(logging.Handler):
    """Keeps the first error that Dask would only log: a job that Slurm refuses is asked for again and again."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and self.first is None:
            self.first = record.exc_info[1]


def _silence() -> _Errors:
    """Keep Dask from writing to standard error: what matters comes as an error."""
    import distributed.client  # sets the levels that are replaced here

    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.partition(".")[0] == distributed.__name__:
            logging.getLogger(name).setLevel(logging.CRITICAL)
    heard = _Errors()
    for name in ("tornado.application", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [heard], False
    return heard


def _check_installed(address: ClusterAddress) -> None:
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise TraceAnalyzerError(
            "--cluster needs distributed, which is not installed", hint="pip install 'gpu-traceanalyzer[dask]'"
        ) from error
    if address.kind != "slurm":
        return
    try:
        import dask_jobqueue  # noqa: F401
    except ImportError as error:
        raise TraceAnalyzerError(
            "--cluster slurm needs dask-jobqueue, which is not installed", hint="pip install 'gpu-traceanalyzer[slurm]'"
        ) from error


def _client(address: ClusterAddress, opened: ExitStack) -> Client:
    """Return a client of the cluster; one that is started ends with `opened`."""
    import dask
    from distributed import Client

    if address.kind in ("local", "slurm"):
        cluster = opened.enter_context(_local(address, opened) if address.kind == "local" else _slurm(address))
        return Client(cluster, set_as_default=False)
    if address.kind == "file":
        return Client(scheduler_file=address.place, set_as_default=False)
    place = address.place or dask.config.get("scheduler-address", None)
    if place is None:
        hint = "set DASK_SCHEDULER_ADDRESS=tcp://HOST:PORT"
        raise TraceAnalyzerError("the environment names no scheduler", "--cluster env", hint)
    return Client(place, set_as_default=False)


def _local(address: ClusterAddress, opened: ExitStack) -> Any:
    import dask
    from distributed import LocalCluster
    from distributed.security import Security

    # Dask looks so long after each death whether the worker is back, and gives it up for good where it has died once
    # more meanwhile and is just being started again: then nobody is left.
    opened.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": _NEVER, **_QUIET}))
    # Keys that are made for it alone: without them, every user of the machine could give its workers work.
    return LocalCluster(
        n_workers=address.count or os.cpu_count(),
        threads_per_worker=1,
        security=Security.temporary(),
        protocol="tls://",
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # it serves some pages all the same
        silence_logs=logging.CRITICAL,
        # The profile that each worker would take of itself, a hundred times a second, is for the dashboard, too.
        config={"distributed.worker.profile.enabled": False, **_QUIET},
        preload=["traceanalyzer.cluster.worker_preload"],
    )


def _slurm(address: ClusterAddress) -> Any:
    from dask_jobqueue import SLURMCluster

    if which("sbatch") is None:
        raise TraceAnalyzerError("this machine has no sbatch", "--cluster slurm", "run the command where jobs are sent")
    cluster = SLURMCluster(security=True)
    cluster.adapt(minimum_jobs=1, maximum_jobs=address.count)
    return cluster


def _await_workers(client: Client, address: ClusterAddress, heard: _Errors) -> None:
    # A queue of jobs may take hours.
    until_s = math.inf if address.kind == "slurm" else time.monotonic() + _PATIENCE_S
    while True:
        try:
            client.wait_for_workers(1, _PAUSE_S)
            return
        except TimeoutError as error:
            if heard.first is not None and address.kind == "slurm":
                raise RuntimeError(f"no job was started: {heard.first}") from error
            if time.monotonic() > until_s:
                hint = "start some: dask worker ADDRESS"
                raise TraceAnalyzerError("the scheduler has no workers", str(address), hint) from error


def _check_workers(client: Client) -> None:
    """Raise TraceAnalyzerError where a worker cannot run this version; those that come later are asked by each task."""
    here = RunningCode.here()
    for worker, answer in client.run(RunningCode.here, on_error="return").items():
        if isinstance(answer, RunningCode):
            here.compare(answer, str(worker))
        else:
            words = f"{type(answer).__name__}: {answer}" if isinstance(answer, BaseException) else str(answer)
            hint = f"install {here} on all workers, and start them again"
            raise TraceAnalyzerError(f"this worker cannot run traceanalyzer: {words}", str(worker), hint)
