"""The graph of a window: a node for each start and end, and an edge for what follows from what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from traceanalyzer.hta.critical_path.records import DeviceOp, HostCall, PathRecords, RecordedSync


@dataclass(frozen=True, slots=True)
class Node:
    """The start or the end of a call, an operation or a synchronisation, named by its position in the file."""

    time_ns: int
    position: int
    is_end: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """What follows from what: numbers of two nodes, the kind, and the nanoseconds that count.

    Kinds: operator (time on a host thread, or of a device operation), dependency, launch, kernel_kernel, sync.
    """

    source: int
    target: int
    kind: str
    weight_ns: int


@dataclass(frozen=True)
class Graph:
    """Nodes by time and position in the file, and edges, of which there is at most one between two nodes.

    `calls`, `ops` and `syncs` are what the nodes are of; `call_of` is the call by its correlation id, also of calls
    outside the window.
    """

    records: PathRecords
    calls: dict[int, HostCall]
    ops: dict[int, DeviceOp]
    syncs: tuple[RecordedSync, ...]
    call_of: dict[int | None, HostCall]
    nodes: tuple[Node, ...]
    starts: dict[int, int]
    ends: dict[int, int]
    edges: dict[tuple[int, int], Edge] = field(default_factory=dict)

    def add(self, source: int, target: int, kind: str, weight_ns: int = 0) -> None:
        """Add an edge of a given weight; it replaces one between the same nodes."""
        self.edges[source, target] = Edge(source, target, kind, weight_ns)

    def add_time(self, source: int, target: int, kind: str) -> None:
        """Add an edge that weighs the time between its nodes, and nothing if it leads back in time."""
        self.add(source, target, kind, max(self.nodes[target].time_ns - self.nodes[source].time_ns, 0))


def graph_without_edges(records: PathRecords) -> Graph:
    """Return the nodes of a window: calls that start in it and last, and the work that these launched.

    Waits of streams are nodes wherever they are, because the definition does not cut them; synchronisations without a
    stream are none.
    """
    window = records.window
    calls = {
        position: call
        for position, call in records.calls.items()
        if window.start_ns <= call.start_ns <= window.end_ns and call.end_ns > call.start_ns
    }
    ops = {op.position: op for op in records.ops if op.launch_position in calls}
    call_of = {call.correlation: call for call in records.calls.values() if call.is_call}
    syncs = tuple(
        sync
        for sync in records.syncs
        if sync.kind == "stream_wait" or (sync.correlation in call_of and call_of[sync.correlation].position in calls)
    )
    nodes = _nodes([*calls.values(), *ops.values(), *(sync for sync in syncs if sync.stream is not None)])
    numbers = [(node, number) for number, node in enumerate(nodes)]
    starts = {node.position: number for node, number in numbers if not node.is_end}
    ends = {node.position: number for node, number in numbers if node.is_end}
    return Graph(records, calls, ops, syncs, call_of, nodes, starts, ends)


def _nodes(events: Iterable[HostCall | DeviceOp | RecordedSync]) -> tuple[Node, ...]:
    nodes = [
        node
        for event in events
        for node in (Node(event.start_ns, event.position, False), Node(event.end_ns, event.position, True))
    ]
    return tuple(sorted(nodes, key=lambda node: (node.time_ns, node.position, node.is_end)))
