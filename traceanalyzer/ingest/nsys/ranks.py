"""The rank of each process in its job, from the best evidence in the export."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traceanalyzer.ingest.nsys.payload import CommunicatorInit

# Launchers' variables for the global rank and the number of ranks, in the order in which they are believed.
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
_SIZE_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS")
_MPI_THREAD = re.compile(r"^MPI Rank ([0-9]{1,9})$")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Rank:
    """A process's rank, the size of its job if known, and the source of both."""

    rank: int
    world_size: int | None
    source: str


@dataclass(frozen=True)
class RankEvidence:
    """The evidence of an export about ranks; processes are global process ids."""

    mpi_ranks: Mapping[int, int]
    communicators: Sequence[CommunicatorInit]
    environment: Mapping[str, str]
    devices: Mapping[int, Sequence[int]]  # process → devices it used, as the machine numbers them where that is known


def mpi_ranks_of(
    rank_rows: Sequence[Mapping[str, int | None]], thread_names: Sequence[tuple[int | None, str]]
) -> dict[int, int]:
    """Return MPI ranks by process: from MPI_RANKS, else from the names that MPI tracing gives to main threads."""
    ranks = {
        thread & -16777216: rank
        for thread, rank in ((row["globalTid"], row["rank"]) for row in rank_rows)
        if thread is not None and rank is not None
    }
    for thread, name in thread_names:
        match = _MPI_THREAD.match(name or "")
        if match and thread is not None:
            ranks.setdefault(thread & -16777216, int(match[1]))
    return ranks


def find_rank(process: int, processes: Sequence[int], evidence: RankEvidence) -> Rank | None:
    """Return the rank of one of the processes that drive a GPU; None where only the file's name may have it."""
    world_size = _number(evidence.environment, _SIZE_VARIABLES)
    if process in evidence.mpi_ranks:
        known = len(evidence.mpi_ranks)
        return Rank(evidence.mpi_ranks[process], world_size or (known if known > 1 else None), "MPI")
    joined = [init for init in evidence.communicators if init.scope == process]
    if joined:
        # The world is the largest communicator; groups of it number their members anew.
        widest = max(joined, key=lambda init: init.rank_count)
        return Rank(widest.rank, widest.rank_count, "NCCL communicator")
    if len(processes) <= 1:
        rank = _number(evidence.environment, _RANK_VARIABLES)
        return None if rank is None else Rank(rank, world_size, "environment")
    # Several processes under one launcher: its environment names no rank, but each process has a device of its own.
    owned = {process: tuple(evidence.devices.get(process, ())) for process in processes}
    firsts = [devices[0] for devices in owned.values() if len(devices) == 1]
    if len(set(firsts)) != len(processes):
        return None
    return Rank(sorted(firsts).index(owned[process][0]), None, "device of the process")


def _number(environment: Mapping[str, str], names: Sequence[str]) -> int | None:
    for name in names:
        if _WHOLE_NUMBER.fullmatch(environment.get(name, "")):
            return int(environment[name])
    return None
