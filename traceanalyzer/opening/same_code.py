"""Which code does the work: all processes that fill a run's store must have the same, or its tables would differ."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.location import Location
from traceanalyzer.store.inputs import engine_key
from traceanalyzer.store.owner import is_marked, user_key
from traceanalyzer.version import __version__

_LIBRARIES = ("duckdb", "pyarrow", "numpy")


@dataclass(frozen=True)
class RunningCode:
    """What two processes must have alike so that they write the same tables."""

    traceanalyzer: str
    engine: str  # a hash of the package's files: versions under development differ without another number
    libraries: tuple[str, ...]

    @classmethod
    def here(cls) -> RunningCode:
        """Return what this process has."""
        return _here()

    def check_here(self, store: Path | Location) -> None:
        """Raise TraceAnalyzerError where this process has other code than the one that asks, or not its store."""
        self.compare(RunningCode.here(), socket.gethostname())
        if not isinstance(store, Path):  # each machine has its own working copy
            return
        try:
            is_ours = is_marked(store, user_key())
        except OSError:
            is_ours = False
        if not is_ours:
            what = (
                f"the worker on {socket.gethostname()} does not see this store, or sees it with the key of another user"
            )
            hint = "give --store a folder that all workers share, under the same path; they also share XDG_STATE_HOME"
            raise TraceAnalyzerError(what, store, hint)

    def compare(self, theirs: RunningCode, where: str) -> None:
        """Raise TraceAnalyzerError where a worker has other code; the error names both."""
        if theirs != self:
            hint = "install the same version on all workers, and start them again"
            raise TraceAnalyzerError(f"this worker has {theirs}, and the command that asks it {self}", where, hint)

    def __str__(self) -> str:
        return f"traceanalyzer {self.traceanalyzer} (engine {self.engine}) with {', '.join(self.libraries)}"


@cache
def _here() -> RunningCode:
    libraries = tuple(f"{name} {version(name)}" for name in _LIBRARIES)
    return RunningCode(__version__, engine_key(("*",)), libraries)
