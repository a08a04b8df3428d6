"""An executor whose workers end by SIGKILL while they write into a store: once at each point, or whenever they try."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

from traceanalyzer.store.store import Store

POINTS = {"traces-before", "traces-after", "ranks-before", "ranks-after"}


class DyingWorkers(Executor):
    """Passes tasks on; a worker dies before and after it puts a trace, and a rank, in place.

    The name of each point at which one died is a file of `deaths`. Where `always` is a file's name, whoever reads that
    file dies.
    """

    def __init__(self, inner: Executor, deaths: Path, always: str = "") -> None:
        self._inner, self._deaths, self._always = inner, deaths, always

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._inner.submit(partial(run_dying, fn, self._deaths, self._always), *args)


def run_dying(fn: Callable[[Any], Any], deaths: Path, always: str, task: Any) -> Any:
    """Run a task in this process, which may end meanwhile."""
    publish = Store._publish

    def published(store: Store, scratch: Path, target: Path) -> None:
        place = "traces" if target.parent.name == "traces" else "ranks"
        _die_at(deaths, f"{place}-before", always=bool(always) and target.name.startswith(always))
        publish(store, scratch, target)
        _die_at(deaths, f"{place}-after")

    Store._publish = published  # type: ignore[method-assign,assignment]
    try:
        return fn(task)
    finally:
        Store._publish = publish  # type: ignore[method-assign]


def _die_at(deaths: Path, point: str, *, always: bool = False) -> None:
    try:
        (deaths / point).touch(exist_ok=always)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
