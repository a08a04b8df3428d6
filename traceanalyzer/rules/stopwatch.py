"""Interrupts a query that takes too long: one thread watches all, for starting one costs more than a query."""

from __future__ import annotations

import atexit
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

# How late an interruption may come; nothing wakes up more often than this while a query runs.
_TICK_S = 0.05


class Interruptible(Protocol):
    """A connection whose running query can be stopped from another thread."""

    def interrupt(self) -> None:
        """Stop the query that runs on it."""


@contextmanager
def interrupted_after(timeout_s: float, con: Interruptible) -> Iterator[None]:
    """Interrupt the connection if the body is not done in time."""
    key = _WATCH.add(time.monotonic() + timeout_s, con)
    try:
        yield
    finally:
        _WATCH.remove(key)


class _Watch:
    """The deadlines of the queries that run now; its thread starts with the first and ends with the program."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[float, Interruptible]] = {}
        self._keys = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._idle = False
        self._ended = False

    def add(self, deadline: float, con: Interruptible) -> int:
        key = next(self._keys)
        with self._changed:
            self._running[key] = (deadline, con)
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
                now = time.monotonic()
                # Again at each tick: DuckDB forgets an interruption that meets no running query.
                for deadline, con in self._running.values():
                    if now >= deadline:
                        con.interrupt()


_WATCH = _Watch()
