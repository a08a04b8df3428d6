"""Host stacks as a flame graph, and the frames that take most by themselves as a table.

Equal stacks of the launching threads are put together, each frame with what it costs. A slice lies below the one around
it, as viewers draw it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.answers.flame import without_numbers
from traceanalyzer.report.diagnosis_blocks.ledgers import alike, group_place
from traceanalyzer.report.html.document import Part, filled
from traceanalyzer.report.html.sections.tables import PageColumn, table_markup
from traceanalyzer.report.html.source import PageSource, query
from traceanalyzer.text.words import counted, name_words

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


# Clocks of annotations and frames differ by a little: a slice that ends this much after another still lies inside it.
TOLERANCE_NS = 1_000
# A row that covers less of a place says nothing about it; a slice that covers more is only what is around it.
_EMPTY_SHARE = 0.05
_WHOLE_SHARE = 0.98


def rows_of(spans: Sequence[tuple[int, int]]) -> list[int]:
    """Return the row of each (start, end), given by start and longest first, so that none overlaps in its row.

    A slice lies below the innermost one around it; one that outlives the slice that it begins in, as the profiler's
    steps do, lies below what holds it whole, in the next row that is free there.
    """
    rows: list[int] = []
    stack: list[tuple[int, int]] = []  # end and row of the slices that are open
    free_from: list[int] = []  # by row
    for start, end in spans:
        while stack and stack[-1][0] <= start:
            stack.pop()
        around = [item for item in stack if item[0] >= end - TOLERANCE_NS]
        row = around[-1][1] + 1 if around else 0
        while row < len(free_from) and free_from[row] > start + TOLERANCE_NS:
            row += 1
        free_from += [0] * (row + 1 - len(free_from))
        free_from[row] = max(free_from[row], end)
        rows.append(row)
        stack.append((end, row))
    return rows


def telling_rows(slices: Sequence[tuple[int, int, int]], place: tuple[int, int], length: int, most: int) -> list[int]:
    """Return at most so many rows, those that say most about a place, of slices given as (row, start, end).

    Where there are too many, rows that are nearly empty are left out, then those that one slice around the place fills,
    but the outermost of these, and then the deepest ones.
    """
    covered: dict[int, int] = {}
    inside: dict[int, int] = {}
    longest: dict[int, int] = {}
    for row, start, end in slices:
        overlap = max(min(end, place[1]) - max(start, place[0]), 0)
        covered[row] = covered.get(row, 0) + end - start
        inside[row] = inside.get(row, 0) + overlap
        longest[row] = max(longest.get(row, 0), overlap)
    room = max(place[1] - place[0], 1)
    empty = [row for row in covered if covered[row] < _EMPTY_SHARE * length and inside[row] < _EMPTY_SHARE * room]
    around = sorted(row for row in covered if longest[row] >= _WHOLE_SHARE * room)[1:]
    rows = set(covered)
    for row in [*sorted(empty, key=lambda row: (covered[row], -row)), *around]:
        if len(rows) <= most:
            break
        rows.discard(row)
    return sorted(rows)[:most]


BATCH_ROWS = 100_000
MOST_FRAMES = 1500
MOST_DEPTH = 250
HALF_BITS = 28
# Frames below this share of every total are left out.
LEAST_SHARE = 0.0004
# A frame that holds this much of its parent is no more than a way to it.
CHAIN_SHARE = 0.999
_ADDRESS = re.compile(r" object at 0x[0-9a-f]+")

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Frames:
    """Frames with their parents before them (-1: outermost): names by number, and three inclusive times each."""

    parents: Numbers
    names: Numbers
    weights: Numbers  # one row a frame: on the host, on the device, without compute on the device
    name_texts: tuple[str | None, ...]  # the names by their numbers


def read_frames(connection: duckdb.DuckDBPyConnection, trace_id: int, device: int) -> Frames | None:
    """Return the stacks of the threads that launch work of a device; None: no launch is recorded."""
    columns = _columns(connection.sql(query("stack_slices"), params=[trace_id, device]).to_arrow_reader(BATCH_ROWS))
    if not len(columns["slice_id"]):
        return None
    rows = connection.execute(query("stack_names"), [trace_id, device]).fetchall()
    shown: dict[str | None, int] = {}
    plain = np.asarray([shown.setdefault(_plain(name), len(shown)) for (name,) in rows], dtype=np.int64)
    weights = np.stack([columns.pop(f"{name}_ns") for name in ("host", "device", "idle")], axis=1)
    parents = _parents(columns.pop("slice_id"), columns.pop("parent_id"), columns.pop("end_ns"))
    return grouped(parents, columns["depth"], plain[columns["name_number"]], weights, tuple(shown))


def _columns(batches: pa.RecordBatchReader) -> dict[str, Numbers]:
    """Return the columns of rows, without holding the rows beside them."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in batches.schema.names}
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            parts[name].append(column.to_numpy())
    return {name: np.concatenate(parts.pop(name) or [np.empty(0, np.int64)]) for name in list(parts)}


def _plain(name: str | None) -> str | None:
    """Return a frame's name without what tells steps, modules of one class and objects of one kind apart."""
    return None if name is None else _ADDRESS.sub("", without_numbers(name))


def _parents(ids: Numbers, parent_ids: Numbers, ends: Numbers) -> Numbers:
    """Return the position of each slice's parent, -1 for none: the nearest ancestor that holds it to its end.

    A step's mark begins inside the frame that opens it and outlives it by far; below that frame it would hide the rest.
    """
    # The last place is that of no parent.
    places = np.full(max(ids.max(), parent_ids.max()) + 2, -1, dtype=np.int32)
    places[ids] = np.arange(len(ids), dtype=np.int32)
    parents = places[parent_ids]
    escaping = np.arange(len(parents))
    while True:
        around = parents[escaping]
        escaping = escaping[(around >= 0) & (ends[around] < ends[escaping] - TOLERANCE_NS)]
        if not len(escaping):
            return parents
        parents[escaping] = parents[parents[escaping]]


def grouped(
    parents: Numbers, depths: Numbers, numbers: Numbers, weights: Numbers, names: tuple[str | None, ...]
) -> Frames:
    """Return one frame for all slices with the same names around them; a frame holds at least what is inside it."""
    path = np.full(len(parents), -1, dtype=np.int64)
    known: dict[int, int] = {}
    above: list[int] = []
    name_of: list[int] = []
    width = max(len(names), 1)
    for depth in range(min(int(depths.max()) + 1, MOST_DEPTH)):
        here = np.flatnonzero(depths == depth)
        outer = np.where(parents[here] >= 0, path[parents[here]], -1)
        keys, inverse = np.unique((outer + 1) * width + numbers[here], return_inverse=True)
        frames = []
        for key in keys.tolist():
            if key not in known:
                known[key] = len(above)
                above.append(key // width - 1)
                name_of.append(key % width)
            frames.append(known[key])
        path[here] = np.asarray(frames, dtype=np.int64)[inverse]
    inside = path >= 0
    totals = np.stack([_sums(path[inside], column[inside], len(above)) for column in weights.T], axis=1)
    children = np.zeros_like(totals)
    for frame in range(len(above) - 1, -1, -1):
        totals[frame, 0] = max(totals[frame, 0], children[frame, 0])
        totals[frame, 1:] += children[frame, 1:]
        if above[frame] >= 0:
            children[above[frame]] += totals[frame]
    return Frames(np.asarray(above, dtype=np.int64), np.asarray(name_of, dtype=np.int64), totals, names)


def _sums(groups: Numbers, values: Numbers, count: int) -> Numbers:
    """Return the sum of each group; in two halves, whose sums doubles hold exactly."""
    halves = (values >> HALF_BITS, values & (2**HALF_BITS - 1))
    high, low = (np.bincount(groups, half, count).astype(np.int64) for half in halves)
    return (high << HALF_BITS) + low


def unfolded(frames: Frames) -> tuple[Frames, list[int]]:
    """Return frames without the chain of single ones at the top, and the names of that chain."""
    chain: list[int] = []
    outermost = -1
    while True:
        inside = np.flatnonzero(frames.parents == outermost)
        whole = frames.weights[inside].sum(axis=0)
        big = [
            frame for frame in inside.tolist() if (frames.weights[frame] >= CHAIN_SHARE * whole).all() and whole.any()
        ]
        if not big or not (frames.parents == big[0]).any():
            break
        outermost = big[0]
        chain.append(outermost)
    if not chain:
        return frames, []
    gone = np.isin(np.arange(len(frames.parents)), chain)
    beside = np.zeros(len(frames.parents), dtype=bool)
    for frame in range(len(frames.parents)):
        parent = frames.parents[frame]
        beside[frame] = not gone[frame] and (
            ((parent == -1 or gone[parent]) and parent != outermost) or (parent >= 0 and beside[parent])
        )
    parents = np.where(frames.parents == outermost, -1, frames.parents)
    kept = ~(gone | beside)
    return _only(Frames(parents, frames.names, frames.weights, frames.name_texts), kept), [
        int(frames.names[c]) for c in chain
    ]


def pruned(frames: Frames, most: int = MOST_FRAMES) -> Frames:
    """Return the frames that take most; with a frame stay those around it."""
    whole = np.maximum(frames.weights[frames.parents < 0].sum(axis=0), 1)
    shares = (frames.weights / whole).max(axis=1)
    order = np.lexsort((np.arange(len(shares)), -shares))
    kept = np.zeros(len(shares), dtype=bool)
    kept[order[:most]] = True
    kept &= shares >= LEAST_SHARE
    for frame in range(len(shares)):
        if frames.parents[frame] >= 0:
            kept[frame] &= kept[frames.parents[frame]]
    return _only(frames, kept)


def _only(frames: Frames, kept: NDArray[np.bool_]) -> Frames:
    new = np.cumsum(kept) - 1
    parents = np.where(frames.parents[kept] >= 0, new[frames.parents[kept]], -1)
    return Frames(parents, frames.names[kept], frames.weights[kept], frames.name_texts)


MOST_ROWS = 30
# Fewer frames are no graph.
LEAST_FRAMES = 3
_COLUMNS = (
    PageColumn("frame", "name", "name", letters=40),
    PageColumn("by itself, host", "self_ns", "time"),
    PageColumn("on the host", "host_ns", "time"),
    PageColumn("launched work", "device_ns", "time"),
    PageColumn("GPU idle because of it", "idle_ns", "time"),
)


def section(source: PageSource) -> Part | None:
    """Return the stacks around the launches of the slowest device, within its analysis window."""
    if source.connection is None or not source.diagnosis.ledgers:
        return None
    group = alike(source.diagnosis.ledgers)[0]
    trace = next((row for row in source.rows("run_traces") if row["trace"] == group.worst.trace), None)
    frames = None if trace is None else read_frames(source.connection, trace["trace_id"], group.worst.device)
    if frames is None:
        return None
    inner, chain = unfolded(frames)
    shown = pruned(inner)
    if len(shown.parents) < LEAST_FRAMES:
        return None
    words = [name_words(name or "–") for name in frames.name_texts]
    note = "of the threads that launch work, in the analyzed time; equal stacks are put together"
    if len(source.diagnosis.ledgers) > 1:
        note = f"{group_place(group, source.diagnosis.ledgers)}: {note}"
    heaviest = _heaviest(shown, words)
    longest = min(source.limits.name_letters, 512)
    values = {
        "around": (f"{counted(len(chain), 'frame')} around it all", " › ".join(words[name] for name in chain))
        if chain
        else (),
        "says": f"Flame graph of {counted(len(shown.parents), 'frame')}; the table below names the heaviest.",
        "table": table_markup("t-stacks", "Frames that take most by themselves", _COLUMNS, heaviest, longest=longest),
        "weights": [
            label
            for label, total in zip(("host", "device", "idle"), shown.weights.sum(axis=0).tolist(), strict=True)
            if total
        ],
    }
    numbers: list[int] = []
    for parent, name, weights in zip(shown.parents.tolist(), shown.names.tolist(), shown.weights.tolist(), strict=True):
        numbers += [parent, source.names.number(words[name]), *weights]
    return Part("stacks", "Host stacks", filled("stacks.html", values), "Stacks", note, {"stacks": numbers})


def _heaviest(frames: Frames, words: list[str]) -> list[dict[str, object]]:
    """Return the names that take most host time by themselves, wherever they are called from."""
    inside = np.zeros(len(frames.parents), dtype=np.int64)
    has_parent = frames.parents >= 0
    np.add.at(inside, frames.parents[has_parent], frames.weights[has_parent, 0])
    own = np.maximum(frames.weights[:, 0] - inside, 0)
    count = int(frames.names.max()) + 1
    sums = np.zeros((count, 4), dtype=np.int64)
    np.add.at(sums[:, 0], frames.names, own)
    outermost = np.array([not _calls_itself(frames, at) for at in range(len(frames.names))])
    for column in range(3):
        np.add.at(sums[:, column + 1], frames.names[outermost], frames.weights[outermost, column])
    order = sorted(np.flatnonzero(sums[:, 0] > 0).tolist(), key=lambda name: (-int(sums[name, 0]), words[name]))
    keys = ("self_ns", "host_ns", "device_ns", "idle_ns")
    return [{"name": words[name], **dict(zip(keys, sums[name].tolist(), strict=True))} for name in order[:MOST_ROWS]]


def _calls_itself(frames: Frames, at: int) -> bool:
    """Return whether a frame is inside one of the same name, whose times hold its own."""
    above = int(frames.parents[at])
    while above >= 0:
        if frames.names[above] == frames.names[at]:
            return True
        above = int(frames.parents[above])
    return False
