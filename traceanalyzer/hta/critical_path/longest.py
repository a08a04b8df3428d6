"""The longest path through a graph by the weights of its edges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from traceanalyzer.hta.critical_path.graph import Edge


def longest_path(node_count: int, edges: Iterable[Edge]) -> tuple[list[Edge], int]:
    """Return the edges of a longest path in order, and how many edges were left out because they close a circle.

    Of several longest paths it is the one that arrives at each node from the node with the highest number. Edges that
    close a circle lead from a higher number to a lower one: an end that was recorded after what waited for it.
    """
    kept = list(edges)
    order = _in_order(node_count, kept)
    left_out = 0
    if order is None:
        forward = [edge for edge in kept if edge.source < edge.target]
        left_out, kept, order = len(kept) - len(forward), forward, range(node_count)
    arriving: defaultdict[int, list[Edge]] = defaultdict(list)
    for edge in kept:
        arriving[edge.target].append(edge)
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


def _in_order(node_count: int, edges: Sequence[Edge]) -> Sequence[int] | None:
    """Return the nodes so that each edge leads onwards; None: there is a circle."""
    leaving: defaultdict[int, list[int]] = defaultdict(list)
    waiting = [0] * node_count
    for edge in edges:
        leaving[edge.source].append(edge.target)
        waiting[edge.target] += 1
    order = [node for node in range(node_count) if not waiting[node]]
    for node in order:
        for target in leaving[node]:
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order if len(order) == node_count else None
