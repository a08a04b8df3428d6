"""What a run reads from its store: traces, and tables of Nsight Compute."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceanalyzer.remote.remote_object import RemoteObject


@dataclass(frozen=True)
class StoredTrace:
    """One trace's folder of Parquet files, and what the run knows about the trace."""

    folder: Path
    trace: str
    path: Path | RemoteObject
    rank: int | None
    rank_source: str | None

    def below(self, store: Path) -> StoredTrace:
        """Return it with its folder's whole path, for a process that works in another folder."""
        return replace(self, folder=store / "traces" / self.folder.parent.name / self.folder.name)


@dataclass(frozen=True)
class NcuTable:
    """One table of Nsight Compute: its folder of Parquet files, and what the table is called in the run."""

    folder: Path
    file: str
