"""One rank's view of the job's communication: its groups, and the numbers of what it does in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from traceanalyzer.errors import TraceAnalyzerError
from tracesim.catalogue.keys import checked_count, unknown_name_error
from tracesim.catalogue.recording import Collective, ProcessGroup, Rendezvous

DEFAULT_GROUP = "default_pg"
_NCCL_DTYPE = "Float"
_ARGS = "(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True)
class CollectiveKind:
    """The name of a collective in traces, and the share of its bytes that each rank moves."""

    recorded_name: str
    operator: str
    annotation: str
    kernel: str
    rounds: int = 1  # times that (n - 1) / n of the bytes cross a link
    gathers: bool = False  # the output holds every rank's input
    scatters: bool = False  # the input holds every rank's output

    def moved_share(self, rank_count: int) -> float:
        """Return the bytes that cross a link, as a share of the larger one of input and output."""
        return self.rounds * (rank_count - 1) / rank_count


COLLECTIVES = {
    "all_reduce": CollectiveKind(
        "allreduce", "c10d::allreduce_", "nccl:all_reduce", f"ncclDevKernel_AllReduce_Sum_f32_RING_LL{_ARGS}", 2
    ),
    "all_gather": CollectiveKind(
        "_allgather_base",
        "c10d::_allgather_base_",
        "nccl:_all_gather_base",
        f"ncclDevKernel_AllGather_RING_LL{_ARGS}",
        gathers=True,
    ),
    "reduce_scatter": CollectiveKind(
        "_reduce_scatter_base",
        "c10d::_reduce_scatter_base_",
        "nccl:_reduce_scatter_base",
        f"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL{_ARGS}",
        scatters=True,
    ),
    "all_to_all": CollectiveKind(
        "all_to_all", "c10d::alltoall_base_", "nccl:all_to_all", f"ncclDevKernel_SendRecv{_ARGS}"
    ),
    "broadcast": CollectiveKind(
        "broadcast", "c10d::broadcast_", "nccl:broadcast", f"ncclDevKernel_Broadcast_RING_LL{_ARGS}"
    ),
}
MESSAGE_KERNEL = f"ncclDevKernel_SendRecv{_ARGS}"


def parse_groups(value: object, world_size: int) -> tuple[ProcessGroup, ...]:
    """Read `{tp: [[0, 1], [2, 3]], …}`: for each kind of group the ranks of each; the group of all ranks is added."""
    groups = [ProcessGroup("0", DEFAULT_GROUP, tuple(range(world_size)))]
    for kind, lists in (value if isinstance(value, Mapping) else {}).items():
        for ranks in lists:
            members = tuple(checked_count(rank, f"groups.{kind}") for rank in ranks)
            if not members or max(members) >= world_size or len(set(members)) < len(members):
                raise TraceAnalyzerError(f"groups.{kind}: {ranks!r} are no ranks of {world_size}", "scenario")
            groups.append(ProcessGroup(str(len(groups)), kind, members))
    if value is not None and not isinstance(value, Mapping):
        raise TraceAnalyzerError(f"groups: {value!r} names no groups", "scenario", "such as `tp: [[0, 1], [2, 3]]`")
    return tuple(groups)


class Communicator:
    """Numbers a rank's collectives by group and its messages by the pair of ranks, as every member does."""

    def __init__(self, rank: int, groups: tuple[ProcessGroup, ...]) -> None:
        self.rank = rank
        self._groups = groups
        self._counts: Counter[tuple[str | int, ...]] = Counter()

    def group(self, kind: str) -> ProcessGroup | None:
        """Return the group of a kind that this rank is in; None where it is in none."""
        of_kind = [group for group in self._groups if group.description == kind]
        if not of_kind:
            raise unknown_name_error("group", kind, {group.description for group in self._groups})
        return next((group for group in of_kind if self.rank in group.ranks), None)

    def collective(self, kind: CollectiveKind, group: ProcessGroup, elements: int) -> Collective:
        """Return the group's next collective; `elements` counts the larger one of input and output."""
        sequence = self._next(("group", group.name))
        share = max(1, elements // len(group.ranks))
        return Collective(
            kind.recorded_name,
            _NCCL_DTYPE,
            group,
            sequence,
            share if kind.gathers else elements,
            share if kind.scatters else elements,
            (Rendezvous(("group", group.name, "collective", sequence), len(group.ranks)),),
        )

    def messages(self, target: int | None, source: int | None, elements: int) -> Collective:
        """Return a message to another rank, from another one, or both at once."""
        world = self._groups[0]
        for peer in (target, source):
            if peer is not None and (peer == self.rank or peer not in world.ranks):
                raise TraceAnalyzerError(f"rank {self.rank} cannot exchange messages with rank {peer}", "scenario")
        pairs = [(self.rank, target)] if target is not None else []
        pairs += [(source, self.rank)] if source is not None else []
        rendezvous = [Rendezvous(("from", a, "to", b, "message", self._next(("message", a, b))), 2) for a, b in pairs]
        name = "batch_isend_irecv" if len(pairs) == 2 else "send" if source is None else "recv"
        return Collective(
            name,
            _NCCL_DTYPE,
            world,
            self._next(("message",)),
            elements,
            elements,
            tuple(rendezvous),
            self.rank if source is None else source,
            self.rank if target is None else target,
        )

    def _next(self, key: tuple[str | int, ...]) -> int:
        self._counts[key] += 1
        return self._counts[key]
