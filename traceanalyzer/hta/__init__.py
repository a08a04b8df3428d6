"""The critical path by the definition of Holistic Trace Analysis (HTA), and the time that it leaves out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import duckdb

from traceanalyzer.hta.edges import (
    Edge,
    Graph,
    Node,
    add_device_edges,
    add_lock_edges,
    add_thread_edges,
    graph_without_edges,
)
from traceanalyzer.hta.records import PathWindow, read_records

__all__ = ["KINDS", "CriticalPath", "PathPart", "critical_path"]


def longest_path(node_count: int, edges: Iterable[Edge]) -> tuple[list[Edge], int]:
    """Return the edges of a longest path in order, and how many edges were left out because they close a circle.

    Of several longest paths it is the one that arrives at each node from the node with the highest number. Edges that
    close a circle lead from a higher number to a lower one: an end that was recorded after what waited for it.
    """
    every = list(edges)
    arriving = _by_target(every)
    left_out = 0
    order: Iterable[int]
    try:
        order = tuple(TopologicalSorter({at: [e.source for e in own] for at, own in arriving.items()}).static_order())
    except CycleError:
        forward = [edge for edge in every if edge.source < edge.target]
        left_out, arriving, order = len(every) - len(forward), _by_target(forward), range(node_count)
    length = [0] * node_count
    taken: list[Edge | None] = [None] * node_count
    for node in order:
        for edge in arriving[node]:
            best = taken[node]
            reached = (length[edge.source] + edge.weight_ns, edge.source)
            if best is None or reached > (length[node], best.source):
                length[node], taken[node] = reached[0], edge
    path: list[Edge] = []
    last = max(range(node_count), key=lambda node: length[node], default=0)
    step = taken[last] if node_count else None
    while step is not None:
        path.append(step)
        step = taken[step.source]
    return path[::-1], left_out


def _by_target(edges: Sequence[Edge]) -> defaultdict[int, list[Edge]]:
    arriving: defaultdict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        arriving[edge.target].append(edge)
    return arriving


# host and device: time in calls and operations; launch: from the start of a launch call to the start of its operation;
# kernel_kernel: between two operations of a stream; left_out: time of the span that no edge of the path counts.
KINDS = ("host", "device", "launch", "kernel_kernel", "left_out")


@dataclass(frozen=True)
class PathPart:
    """One edge of the path: the events that it leads from and to, when, and how much of that time counts."""

    kind: str
    source: str
    source_position: int
    target: str
    target_position: int
    start_ns: int
    end_ns: int
    weight_ns: int


@dataclass(frozen=True)
class CriticalPath:
    """The longest path of a window: its parts in order, and nanoseconds by kind, which add up to `span_ns`.

    The span is the window, and the time after it in which the path still runs. `edge_counts` counts the edges of the
    graph by HTA's kinds; `left_out_op_count` is how many GPU operations of the trace have no recorded launch call and
    so no place in the graph; `circle_edge_count` how many edges contradict the order of time.
    """

    window: PathWindow
    parts: tuple[PathPart, ...]
    length_ns: int
    span_ns: int
    kind_ns: dict[str, int]
    node_count: int
    edge_counts: dict[str, int]
    left_out_op_count: int
    circle_edge_count: int

    @property
    def window_ns(self) -> int:
        return self.window.end_ns - self.window.start_ns


def critical_path(
    connection: duckdb.DuckDBPyConnection, trace_id: int, annotation: str = "", instance: int = 0
) -> CriticalPath:
    """Return the critical path of a trace by HTA's definition, in the tables of a run.

    The window is instance number `instance` of the annotations whose names contain `annotation`; without a text it is
    the whole trace. Of several profiler steps the last is dropped first, as HTA does. The length is unique; of several
    longest paths this returns one. Raises TraceAnalyzerError if there is no such annotation.
    Source: Holistic Trace Analysis, critical path analysis.
    """
    records = read_records(connection, trace_id, annotation, instance)
    graph = graph_without_edges(records)
    add_lock_edges(graph)
    add_thread_edges(graph)
    add_device_edges(graph)
    edges, circle_count = longest_path(len(graph.nodes), graph.edges.values())
    parts = tuple(_part(graph, edge) for edge in edges)
    length_ns = sum(part.weight_ns for part in parts)
    end_ns = max((records.window.end_ns, *(part.end_ns for part in parts)))
    span_ns = end_ns - records.window.start_ns
    by_kind: Counter[str] = Counter()
    for part in parts:
        by_kind[part.kind] += part.weight_ns
    by_kind["left_out"] = span_ns - length_ns
    return CriticalPath(
        window=records.window,
        parts=parts,
        length_ns=length_ns,
        span_ns=span_ns,
        kind_ns={kind: by_kind[kind] for kind in KINDS},
        node_count=len(graph.nodes),
        edge_counts=dict(Counter(edge.kind for edge in graph.edges.values())),
        left_out_op_count=records.unlinked_op_count,
        circle_edge_count=circle_count,
    )


def _part(graph: Graph, edge: Edge) -> PathPart:
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    kind = edge.kind
    if kind == "operator":
        kind = "device" if source.position in graph.ops else "host"
    return PathPart(
        kind,
        _name(graph, source),
        source.position,
        _name(graph, target),
        target.position,
        source.time_ns,
        target.time_ns,
        edge.weight_ns,
    )


def _name(graph: Graph, node: Node) -> str:
    event = graph.calls.get(node.position) or graph.ops[node.position]
    return event.name
