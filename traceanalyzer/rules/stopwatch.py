"""Interrupts a query that takes too long: one thread watches all, for starting one costs more than a query.

What counts is the time in which a query computes. On a busy machine, or in a process that was stopped for a while,
it is late without having done much.
"""

from __future__ import annotations

import atexit
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

# How late an interruption may come; nothing wakes up more often than this while a query runs.
_TICK_S = 0.05
# A query that computes nothing, for it sleeps, is stopped after so many times its limit.
_SLEEP_FACTOR = 10
# Of the time between two looks, so much counts as waited: after more, the process itself was stopped.
_LONGEST_WAIT_S = 1.0


class Interruptible(Protocol):
    """A connection whose running query can be stopped from another thread."""

    def interrupt(self) -> None:
        """Stop the query that runs on it."""


@contextmanager
def interrupted_after(timeout_s: float, con: Interruptible) -> Iterator[None]:
    """Interrupt the connection if the body computes for longer, or does nothing for much longer."""
    key = _WATCH.add(RunningQuery(con, timeout_s, time.monotonic(), time.process_time()))
    try:
        yield
    finally:
        _WATCH.remove(key)


@dataclass
class RunningQuery:
    """A query that runs now, and what it has taken until the last look."""

    con: Interruptible
    timeout_s: float
    looked_at_s: float
    process_s: float
    computed_s: float = 0.0
    waited_s: float = 0.0

    def is_late(self, now_s: float, process_s: float, running_count: int) -> bool:
        """Count the time since the last look, and return whether the query has had all of its own.

        The processor time of the process is shared equally among the queries that run, and on several cores it does not
        count for more than the time that went by.
        """
        passed_s = now_s - self.looked_at_s
        self.computed_s += min(passed_s, (process_s - self.process_s) / running_count)
        self.waited_s += min(passed_s, _LONGEST_WAIT_S)
        self.looked_at_s, self.process_s = now_s, process_s
        return self.computed_s >= self.timeout_s or self.waited_s >= self.timeout_s * _SLEEP_FACTOR


class _Watch:
    """The queries that run now; its thread starts with the first and ends with the program."""

    def __init__(self) -> None:
        self._running: dict[int, RunningQuery] = {}
        self._keys = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._idle = False
        self._ended = False

    def add(self, query: RunningQuery) -> int:
        key = next(self._keys)
        with self._changed:
            self._running[key] = query
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="rule query watch", daemon=True)
                self._thread.start()
                # A thread that is cut off keeps alive what DuckDB then complains about.
                atexit.register(self._end)
            elif self._idle:
                self._changed.notify()
        return key

    def remove(self, key: int) -> None:
        with self._changed:
            self._running.pop(key, None)

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        with self._changed:
            while not self._ended:
                self._idle = not self._running
                self._changed.wait(None if self._idle else _TICK_S)
                # Again at each tick: DuckDB forgets an interruption that meets no running query.
                now_s, process_s = time.monotonic(), time.process_time()
                for query in self._running.values():
                    if query.is_late(now_s, process_s, len(self._running)):
                        query.con.interrupt()


_WATCH = _Watch()
