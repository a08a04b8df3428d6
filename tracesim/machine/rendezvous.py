"""The place where simulated ranks wait for each other: a collective starts to transfer when its last member is ready.

Each rank runs in its own thread, in virtual time. What a rank learns depends only on the virtual times at which the
others are ready, so the order in which the threads run changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from traceanalyzer.errors import TraceAnalyzerError
from tracesim.catalogue.recording import Rendezvous

T = TypeVar("T")


class _GivenUp(Exception):
    """Another rank failed, or this rank would wait for ever."""


class MeetingPlace:
    """The meeting place at which the ranks of a job wait for each other."""

    def __init__(self, rank_count: int) -> None:
        self._lock = threading.Lock()
        # One for each rank: a meeting wakes only its members.
        self._changed = [threading.Condition(self._lock) for _ in range(rank_count)]
        self._arrived: dict[tuple[str | int, ...], dict[int, tuple[int, int]]] = {}
        self._waiting: dict[int, Sequence[Rendezvous]] = {}
        self._active = rank_count
        self._error: Exception | None = None

    def meet(self, rank: int, awaited: Sequence[Rendezvous], ready_ns: int, dur_ns: int) -> tuple[int, int]:
        """Wait for all members; return when the last one was ready, and the longest transfer of theirs."""
        with self._lock:
            for meeting in awaited:
                self._arrived.setdefault(meeting.key, {})[rank] = (ready_ns, dur_ns)
            self._waiting[rank] = awaited
            self._wake(*(member for meeting in awaited if self._complete([meeting]) for member in self._there(meeting)))
            while not self._complete(awaited):
                if self._error is None and self._stuck():
                    self._error = TraceAnalyzerError(*self._why_stuck())
                    self._wake(*self._waiting)
                if self._error is not None:
                    raise _GivenUp
                self._changed[rank].wait()
            self._waiting.pop(rank, None)
            arrivals = [arrival for meeting in awaited for arrival in self._arrived[meeting.key].values()]
            return max(ready for ready, _ in arrivals), max(dur for _, dur in arrivals)

    def play(self, ranks: Sequence[Callable[[], T]]) -> list[T]:
        """Run all ranks to their ends and return their results; raise the error of the first rank that fails."""
        results: dict[int, T] = {}

        def run(rank: int) -> None:
            try:
                results[rank] = ranks[rank]()
            except _GivenUp:
                pass
            except Exception as error:
                self._error = self._error or error
            finally:
                with self._lock:
                    self._active -= 1
                    self._waiting.pop(rank, None)
                    self._wake(*self._waiting)

        threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}") for rank in range(len(ranks))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error
        return [results[rank] for rank in range(len(ranks))]

    def _there(self, meeting: Rendezvous) -> Iterable[int]:
        return self._arrived[meeting.key]

    def _wake(self, *ranks: int) -> None:
        for rank in ranks:
            self._changed[rank].notify()

    def _complete(self, awaited: Sequence[Rendezvous]) -> bool:
        return all(len(self._arrived[meeting.key]) == meeting.members for meeting in awaited)

    def _stuck(self) -> bool:
        """Return whether all running ranks wait for others that will never arrive."""
        return len(self._waiting) == self._active and not any(map(self._complete, self._waiting.values()))

    def _why_stuck(self) -> tuple[str, str, str]:
        rank, awaited = min(self._waiting.items())
        missing = next(meeting for meeting in awaited if not self._complete([meeting]))
        came, place = len(self._arrived[missing.key]), " ".join(map(str, missing.key))
        return (
            f"rank {rank} waits for ever: only {came} of {missing.members} ranks came to {place}",
            "scenario",
            "every rank of a group issues the same collectives in the same order, every send has its recv",
        )
