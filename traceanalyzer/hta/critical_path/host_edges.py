"""Edges of host threads: from call to call on a thread, and between calls that share the runtime's lock."""

from __future__ import annotations

from collections import defaultdict

from traceanalyzer.hta.critical_path.graph import Graph
from traceanalyzer.hta.critical_path.records import HostCall

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
