"""Shows a person at a terminal what the command is doing, once it takes longer than a second."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from traceanalyzer.ingest import Progress, Source

# Shorter commands need no explanation, and a bar that flashes by is noise.
PATIENCE_S = 1.0


class Activity:
    """Shows phases and the reading of files on standard error; does nothing unless it is enabled."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._phase = ""
        self._files: dict[Source, Progress] = {}
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        self._timer = threading.Timer(PATIENCE_S, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Activity:
        if self._enabled:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the display and leave the terminal clean for the result."""
        with self._lock:
            self._enabled = False
            self._timer.cancel()
            if self._bars is not None:
                self._bars.stop()
                self._bars = None

    def phase(self, text: str) -> None:
        """Name the current phase."""
        with self._lock:
            self._phase = text
            self._files.clear()
            self._refresh()

    def read(self, progress: Progress) -> None:
        """Show how far a file has been read."""
        with self._lock:
            self._files[progress.path] = progress
            self._refresh()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if not self._enabled:
                return
            self._bars = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                TextColumn("{task.fields[detail]}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._bars.add_task(self._phase, total=None, detail="")
            self._bars.start()
            self._refresh()

    def _refresh(self) -> None:
        if self._bars is None or self._task is None:
            return
        if not self._files:
            self._bars.update(self._task, description=self._phase, total=None, completed=0, detail="")
            return
        files = self._files.values()
        read_bytes = sum(file.read_bytes for file in files)
        size_bytes = sum(file.size_bytes for file in files)
        event_count = sum(file.event_count for file in files)
        if read_bytes >= size_bytes:
            self._bars.update(self._task, description="linking", total=None, detail=f"{event_count:,} events read")
            return
        rate = read_bytes / max(time.monotonic() - self._started, 1e-3)
        self._bars.update(
            self._task,
            description="reading" if len(self._files) == 1 else f"reading {len(self._files)} files",
            total=size_bytes,
            completed=read_bytes,
            detail=(
                f"{read_bytes / 1e6:,.0f} of {size_bytes / 1e6:,.0f} MB, {event_count:,} events, {rate / 1e6:,.0f} MB/s"
            ),
        )
