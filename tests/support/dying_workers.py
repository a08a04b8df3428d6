"""An executor whose workers end by SIGKILL while they write into a store: once at each point, or whenever they try."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from traceanalyzer.ingest.trace_events.assemble import Assembler
from traceanalyzer.pipeline import attributing
from traceanalyzer.pipeline.ingesting import IngestTask
from traceanalyzer.store.store import Store

POINTS = {"traces-within", "traces-before", "traces-after", "ranks-within", "ranks-before", "ranks-after"}
# 4 GB, for a test whose limit does not work.
MOST_TAKEN = 64


class DyingWorkers(Executor):
    """Passes tasks on; a worker dies after the first file of a trace, before and after the trace is in place; likewise
    with a rank.

    The name of each point at which one died is a file of `deaths`. Where `always` is a file's name, whoever reads that
    file dies.
    """

    def __init__(self, inner: Executor, deaths: Path, always: str = "") -> None:
        self._inner, self._deaths, self._always = inner, deaths, always

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._inner.submit(partial(run_dying, fn, self._deaths, self._always), *args)


def run_dying(fn: Callable[[Any], Any], deaths: Path, always: str, task: Any) -> Any:
    """Run a task in this process, which may end meanwhile."""
    publish, copy, write = Store._publish, Assembler._copy, attributing._write

    def copied(assembler: Assembler, *arguments: Any) -> None:
        copy(assembler, *arguments)
        _die_at(deaths, "traces-within")

    def written(table: pa.Table, file: Path) -> None:
        write(table, file)
        _die_at(deaths, "ranks-within")

    def published(store: Store, scratch: Path, target: Path) -> None:
        place = "traces" if target.parent.name == "traces" else "ranks"
        _die_at(deaths, f"{place}-before", always=bool(always) and target.name.startswith(always))
        publish(store, scratch, target)
        _die_at(deaths, f"{place}-after")

    Store._publish = published  # type: ignore[method-assign,assignment]
    Assembler._copy = copied  # type: ignore[method-assign,assignment]
    attributing._write = written
    try:
        return fn(task)
    finally:
        Store._publish = publish  # type: ignore[method-assign]
        Assembler._copy = copy  # type: ignore[method-assign]
        attributing._write = write


def _die_at(deaths: Path, point: str, *, always: bool = False) -> None:
    try:
        (deaths / point).touch(exist_ok=always)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


class GreedyWorkers(Executor):
    """Passes tasks on; whoever reads one file takes memory until something ends the worker."""

    def __init__(self, inner: Executor, name: str) -> None:
        self._inner, self._name = inner, name

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._inner.submit(partial(run_greedy, fn, self._name), *args)


def run_greedy(fn: Callable[[Any], Any], name: str, task: Any) -> Any:
    """Run a task in this process, which takes memory first where it reads the file of this name."""
    taken: list[bytes] = []
    while isinstance(task, IngestTask) and task.source.name == name and len(taken) < MOST_TAKEN:
        taken.append(b"x" * 2**26)
        time.sleep(0.05)
    return fn(task)
