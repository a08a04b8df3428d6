"""An executor that notes what its workers hold at most, by the system's account of each process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

from processes import own_peak_mb


class NotingPeaks(Executor):
    """Passes tasks on, counts them, and has each one's worker add its peak in MB to a file."""

    def __init__(self, inner: Executor, notes: Path) -> None:
        self._inner, self._notes = inner, notes
        self.count = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.count += 1
        return self._inner.submit(partial(run_noting, fn, self._notes), *args, **kwargs)

    def peak_mb(self) -> float:
        """Return the highest of the peaks."""
        return max(map(float, self._notes.read_text().split()))


def run_noting(fn: Callable[..., Any], notes: Path, *args: Any, **kwargs: Any) -> Any:
    """Run a task, and note the peak of this process."""
    answer = fn(*args, **kwargs)
    with notes.open("a") as file:
        file.write(f"{own_peak_mb():.1f}\n")
    return answer
