"""Holds a query to its time and memory. One thread watches the clock for all: starting one costs more than a query.

DuckDB's errors about a query as errors for users: what, where in the query, and DuckDB's own suggestion.
"""

from __future__ import annotations

import atexit
import itertools
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from traceanalyzer.errors import TraceAnalyzerError


def query_error(message: str) -> TraceAnalyzerError:
    """Return DuckDB's error as what, where and hint, with the place in the query and DuckDB's own suggestion."""
    body, _, excerpt = message.partition("\n\nLINE ")
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    what = lines[0] if lines else "the query failed"
    suggestions = [line for line in lines[1:] if line.startswith(("Did you mean", "Candidate bindings", "HINT"))]
    place = f"\nline {excerpt}".replace("\n", "\n    ") if excerpt else ""
    hint = " ".join(suggestions) or "`traceanalyzer metrics list` lists what can be queried"
    return TraceAnalyzerError(what + place.rstrip(), "query", hint)


# How late an interruption may come; nothing wakes up more often than this while a query runs.
_TICK_S = 0.05
# DuckDB looks for an interruption between pieces of work, and what is constant in a query is one piece, worked out
# while the query is planned. So much later the query counts as one that cannot be stopped.
STUCK_AFTER_S = 30.0


class Interruptible(Protocol):
    """A connection whose running query can be stopped from another thread."""

    def interrupt(self) -> None:
        """Stop the query that runs on it."""


@contextmanager
def interrupted_after(timeout_s: float, con: Interruptible) -> Iterator[None]:
    """Interrupt the connection where the body takes longer by the clock, however busy the machine is."""
    if timeout_s == math.inf:
        yield
        return
    key = _WATCH.add(con, time.monotonic() + timeout_s)
    try:
        yield
    finally:
        _WATCH.remove(key)


def end_process_when_stuck(message: str, code: int) -> None:
    """End this process, with a message on standard error, once a query cannot be stopped: for programs of our own."""

    def end() -> None:
        # The thread that runs the query may hold the lock of the stream.
        os.write(2, message.encode())
        os._exit(code)

    _WATCH.when_stuck = end


# The limit is the process's: of queries that run at once, the first sets it and sets it back.
_LIMITING_MEMORY = threading.Lock()


@contextmanager
def memory_within(size_bytes: float) -> Iterator[None]:
    """Refuse the process more than this much new memory during the body, where the system can: on Linux.

    DuckDB's own limit leaves out what a function makes of one batch of rows: two thousand texts of 100 MB each.
    """
    if sys.platform != "linux" or size_bytes == math.inf or not _LIMITING_MEMORY.acquire(blocking=False):
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    data_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    limit_bytes = data_pages * resource.getpagesize() + int(size_bytes)
    try:
        if all(limit == resource.RLIM_INFINITY or limit > limit_bytes for limit in (soft, hard)):
            resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        _LIMITING_MEMORY.release()


class _Watch:
    """The deadlines of the queries that run now; its thread starts with the first and ends with the program."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[Interruptible, float]] = {}
        self._keys = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_idle = False
        self._ended = False
        self.when_stuck: Callable[[], None] | None = None

    def add(self, con: Interruptible, deadline_s: float) -> int:
        key = next(self._keys)
        with self._changed:
            self._running[key] = con, deadline_s
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="rule query watch", daemon=True)
                self._thread.start()
                # A thread that is cut off keeps alive what DuckDB then complains about.
                atexit.register(self._end)
            elif self._is_idle:
                self._changed.notify()
        return key

    def remove(self, key: int) -> None:
        with self._changed:
            del self._running[key]

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        with self._changed:
            while not self._ended:
                self._is_idle = not self._running
                self._changed.wait(None if self._is_idle else _TICK_S)
                now_s = time.monotonic()
                # Again at each tick: DuckDB forgets an interruption that meets no running query.
                for con, deadline_s in self._running.values():
                    if now_s >= deadline_s:
                        con.interrupt()
                    if now_s >= deadline_s + STUCK_AFTER_S and self.when_stuck is not None:
                        self.when_stuck()


_WATCH = _Watch()
