"""Edges of devices: operations, what each started after, and what hosts and streams waited for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict

from traceanalyzer.hta.critical_path.graph import Graph
from traceanalyzer.hta.critical_path.records import DeviceOp, HostCall, PathRecords, RecordedSync

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
