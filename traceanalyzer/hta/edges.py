"""The graph of a window: a node for each start and end, and an edge for what follows from what.

Edges of host threads lead from call to call, and between calls that share the runtime's lock; those of devices from
what an operation started after, and from what hosts and streams waited for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from traceanalyzer.hta.records import DeviceOp, HostCall, PathRecords, RecordedSync

# Calls that wait for the device: the time before their end does not count.
BLOCKING = frozenset(
    {
        "cudaDeviceSynchronize",
        "cudaStreamSynchronize",
        "cudaEventQuery",
        "cudaEventSynchronize",
        "cudaMemcpy",
        "cudaMemcpyAsync",
    }
)
# Calls of which only one at a time makes progress.
LOCKING = frozenset({"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"})


def add_lock_edges(graph: Graph) -> None:
    """Chain overlapping calls that share the runtime's lock: the first to end had it, and the others waited for that.

    The end of a call follows from the starts of all that were open, and from the end before it. Only its own start
    gives it weight.
    """
    open_starts: list[int] = []
    before: int | None = None
    for number, node in enumerate(graph.nodes):
        call = graph.calls.get(node.position)
        if call is None or call.name not in LOCKING:
            continue
        if node.is_end:
            for start in open_starts:
                if graph.nodes[start].position == node.position:
                    graph.add_time(start, number, "operator")
                else:
                    graph.add(start, number, "dependency")
            open_starts.clear()
            if before is not None and graph.nodes[before].is_end:
                graph.add(before, number, "dependency")
        else:
            open_starts.append(number)
        before = number


def add_thread_edges(graph: Graph) -> None:
    """Chain starts and ends of each thread in order; time with nothing open, and the end of a wait, weigh nothing."""
    threads: defaultdict[int, list[HostCall]] = defaultdict(list)
    for call in graph.calls.values():
        threads[graph.records.merged.get(call.thread_id, call.thread_id)].append(call)
    for calls in threads.values():
        _add_chain(graph, calls)


def _add_chain(graph: Graph, calls: list[HostCall]) -> None:
    before: tuple[HostCall, bool] | None = None
    open_count = 0
    for call, is_end in _nested(calls):
        if before is not None and not _share_lock(before, (call, is_end)):
            source = (graph.ends if before[1] else graph.starts)[before[0].position]
            target = (graph.ends if is_end else graph.starts)[call.position]
            if open_count == 0:
                graph.add(source, target, "dependency")
            elif is_end and call.name in BLOCKING:
                graph.add(source, target, "operator")
            else:
                graph.add_time(source, target, "operator")
        open_count += -1 if is_end else 1
        before = call, is_end


def _nested(calls: list[HostCall]) -> list[tuple[HostCall, bool]]:
    """Return the starts and ends of a thread's calls in order: of a time, ends first, the inner before the outer."""

    def order(event: tuple[HostCall, bool]) -> tuple[int, bool, int, int]:
        call, is_end = event
        dur_ns = call.end_ns - call.start_ns
        if is_end:
            return call.end_ns, False, dur_ns, -call.position
        return call.start_ns, True, -dur_ns, call.position

    return sorted(((call, is_end) for call in calls for is_end in (False, True)), key=order)


def _share_lock(first: tuple[HostCall, bool], second: tuple[HostCall, bool]) -> bool:
    """Return whether `add_lock_edges` connects two successive nodes: calls that share the lock and overlap."""
    follows = first[1] and not second[1]
    return first[0].name in LOCKING and second[0].name in LOCKING and not follows


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


# Calls that put one operation into a queue.
LAUNCHING = frozenset(
    {
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cuLaunchKernel",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "hipLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipMemsetAsync",
        "hipMemcpyAsync",
        "hipMemcpyWithStream",
        "runFunction - job_prep_and_submit_for_execution",
    }
)
RECORDING = "cudaEventRecord"
# An operation that starts later than this after the one before it in its stream does not follow from it.
MOST_GAP_NS = 1_500_000

_Stream = tuple[int | None, int | None]


class _Launches:
    """The launch calls of a trace in order of time, with the operation of each, by stream and by thread and stream."""

    def __init__(self, records: PathRecords) -> None:
        self._streams: defaultdict[_Stream, list[tuple[int, int, DeviceOp]]] = defaultdict(list)
        self._threads: defaultdict[tuple[int, _Stream], list[tuple[int, int, DeviceOp]]] = defaultdict(list)
        self.queue_after: dict[int, int] = {}
        # At one instant, a launch counts before the start of an operation.
        queues: defaultdict[_Stream, list[tuple[int, bool, int]]] = defaultdict(list)
        for op in records.ops:
            call = records.calls[op.launch_position]
            if call.name not in LAUNCHING:
                continue
            stream = op.device, op.stream
            launch = call.start_ns, call.position, op
            self._streams[stream].append(launch)
            self._threads[call.thread_id, stream].append(launch)
            queues[stream] += [(call.start_ns, False, call.position), (op.start_ns, True, op.position)]
        for launches in (*self._streams.values(), *self._threads.values()):
            launches.sort(key=lambda launch: launch[:2])
        for changes in queues.values():
            length = 0
            for _, is_op, position in sorted(changes):
                length += -1 if is_op else 1
                self.queue_after[position] = length

    def before(self, stream: _Stream, call: HostCall) -> DeviceOp | None:
        """Return the operation that was launched last into a stream before a call, from whatever thread."""
        launches = self._streams[stream]
        at = bisect_right(launches, call.start_ns, key=lambda launch: launch[0])
        return launches[at - 1][2] if at else None

    def after(self, stream: _Stream, call: HostCall) -> DeviceOp | None:
        """Return the operation that a call's thread launches next into a stream."""
        launches = self._threads[call.thread_id, stream]
        at = bisect_left(launches, call.start_ns, key=lambda launch: launch[0])
        return launches[at][2] if at < len(launches) else None


def add_device_edges(graph: Graph) -> None:
    """Add the edges of operations and synchronisations, in the order in which operations start and waits end."""
    launches = _Launches(graph.records)
    last: dict[_Stream, DeviceOp] = {}
    awaited: dict[int, DeviceOp] = {}
    events: list[DeviceOp | RecordedSync] = [*graph.ops.values(), *graph.syncs]
    for event in sorted(events, key=_order):
        if isinstance(event, DeviceOp):
            _add_op(graph, event, launches, last.get((event.device, event.stream)), awaited.get(event.position))
            last[event.device, event.stream] = event
        elif event.kind == "stream_wait":
            source, call = _recorded_work(graph, event, launches), graph.call_of.get(event.correlation)
            target = launches.after((event.device, event.stream), call) if call else None
            if source is not None and target is not None and source.position in graph.ops:
                awaited[target.position] = source
        else:
            _add_host_wait(graph, event, launches, last)


def _order(event: DeviceOp | RecordedSync) -> tuple[int, int]:
    return event.start_ns if isinstance(event, DeviceOp) else event.end_ns, event.position


def _recorded_work(graph: Graph, sync: RecordedSync, launches: _Launches) -> DeviceOp | None:
    """Return the operation that was launched last before the event that is waited for was recorded."""
    record = graph.call_of.get(sync.wait_on_correlation)
    if record is None or record.name != RECORDING or sync.wait_on_stream is None:
        return None
    return launches.before((sync.device, sync.wait_on_stream), record)


def _add_op(graph: Graph, op: DeviceOp, launches: _Launches, before: DeviceOp | None, awaited: DeviceOp | None) -> None:
    start = graph.starts[op.position]
    graph.add_time(start, graph.ends[op.position], "operator")
    if awaited is not None:
        graph.add(graph.ends[awaited.position], start, "sync")
    call = graph.calls[op.launch_position]
    queue_after = launches.queue_after
    if (
        queue_after.get(call.position) == 1
        and queue_after.get(op.position) == 0
        and all(earlier is None or earlier.end_ns < call.start_ns for earlier in (before, awaited))
    ):
        graph.add_time(graph.starts[call.position], start, "launch")
    elif (
        before is not None
        and (awaited is None or awaited.end_ns < before.end_ns)
        and op.start_ns - before.end_ns < MOST_GAP_NS
    ):
        graph.add_time(graph.ends[before.position], start, "kernel_kernel")


def _add_host_wait(graph: Graph, sync: RecordedSync, launches: _Launches, last: dict[_Stream, DeviceOp]) -> None:
    if sync.kind == "event":
        work = [_recorded_work(graph, sync, launches)]
    elif sync.kind == "stream":
        work = [last.get((sync.device, sync.stream))]
    else:
        work = list(last.values())
    end = graph.ends[graph.call_of[sync.correlation].position]
    for op in work:
        if op is not None and op.position in graph.ops:
            graph.add(graph.ends[op.position], end, "sync")
