"""Which cluster `--cluster` means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from traceanalyzer.errors import TraceAnalyzerError

Kind = Literal["local", "scheduler", "file", "env", "slurm"]
FORMS = "local[:N], tcp://HOST:PORT, tls://HOST:PORT, file:SCHEDULER.json, env, slurm[:N]"
# Slurm jobs at once, where the user names no number; Dask asks for more while tasks wait, and gives them back.
_MOST_JOBS = 16
_STARTED = re.compile(r"(?P<kind>local|slurm)(?::(?P<count>[1-9]\d{0,4}))?")
_SCHEDULER = re.compile(r"(?:tcp|tls)://[\w.\-\[\]:]+:\d{1,5}")


@dataclass(frozen=True)
class ClusterAddress:
    """Where the tasks of a run are computed."""

    kind: Kind
    place: str = ""  # the scheduler's address, or the file that it wrote
    count: int | None = None  # worker processes or jobs

    def __str__(self) -> str:
        match self.kind:
            case "local":
                return f"{self.count or 'as many'} worker processes{'' if self.count else ' as cores'} of this machine"
            case "slurm":
                return f"up to {self.count} Slurm jobs, as dask-jobqueue's configuration describes them"
            case "env":
                return "the Dask scheduler that DASK_SCHEDULER_ADDRESS or Dask's configuration names"
        return f"the Dask scheduler at {self.place}"


def parse_cluster(text: str) -> ClusterAddress:
    """Return the cluster that a text means; raise TraceAnalyzerError where it is none."""
    if match := _STARTED.fullmatch(text):
        kind: Kind = "local" if match["kind"] == "local" else "slurm"
        count = int(match["count"]) if match["count"] else None
        return ClusterAddress(kind, count=count or (_MOST_JOBS if kind == "slurm" else None))
    if text == "env":
        return ClusterAddress("env")
    if _SCHEDULER.fullmatch(text):
        return ClusterAddress("scheduler", text)
    if text.startswith("file:") and len(text) > len("file:"):
        file = Path(text.removeprefix("file:"))
        if not file.is_file():
            raise TraceAnalyzerError(
                "no such file", file, "`dask scheduler --scheduler-file` writes it, on a disk that is shared"
            )
        return ClusterAddress("file", str(file))
    raise TraceAnalyzerError("names no cluster", "--cluster", f"give one of {FORMS}")
