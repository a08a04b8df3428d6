"""Ends the waiting for a cluster whose workers are all gone: Dask itself would wait for new ones for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

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
