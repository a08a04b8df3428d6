"""The host slice or GPU op to blame for a ledger row, with names that can be found in a trace viewer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow.compute as pc

from traceanalyzer.attribution.records.host_slices import HostSlices
from traceanalyzer.attribution.vocabulary.arrow_columns import NO_ROW, Texts, named, optional
from traceanalyzer.attribution.vocabulary.buckets import CODE, HOST, Ints

_HOST_BUCKETS = np.asarray([CODE[name] for name in HOST])
# Other tools than PyTorch give the ranges that they write no category.
_RANGES = ("annotation", "other")
_STEP = "ProfilerStep#"
# No program nests as deep; a file may say that one does.
_MOST_LEVELS = 1_000

if TYPE_CHECKING:
    from traceanalyzer.attribution.attributed_device import AttributedDevice


@dataclass(frozen=True)
class Blames:
    """One entry per ledger row; unknown names are NULL."""

    event_id: Ints
    kind: Ints  # 0 host slice, 1 GPU op, NO_ROW none
    name: Texts
    op: Texts
    annotation: Texts
    python: Texts

    @classmethod
    def of_rows(cls, device: AttributedDevice, rows: Ints) -> Self:
        """Return the blame of some rows of a device's ledger."""
        ops, slices = device.ops, device.slices
        blame = device.ledger.blame[rows]
        of_op = device.ledger.blames_op[rows] & (blame != NO_ROW)
        of_slice = ~device.ledger.blames_op[rows] & (blame != NO_ROW)
        op_row, slice_row = np.where(of_op, blame, NO_ROW), np.where(of_slice, blame, NO_ROW)
        around = [
            np.where(of_op, slices.rows_of(ids)[op_row], NO_ROW)
            for ids in (ops.cpu_op_id, ops.annotation_id, ops.python_id)
        ]
        mine = (slices.op_id, slices.annotation_id, slices.python_id)
        names = [
            _names(slices, np.where(of_slice, _own_or_around(slices, slice_row, c, m), a))
            for a, m, c in zip(around, mine, ("cpu_op", "annotation", "python"), strict=True)
        ]
        is_bare = (blame == NO_ROW) & np.isin(device.ledger.bucket[rows], _HOST_BUCKETS)
        bare = np.flatnonzero(is_bare)
        annotation = np.full(len(rows), NO_ROW)
        annotation[bare] = _annotations_at(device, rows[bare])
        names[1] = pc.coalesce(names[1], _names(slices, annotation))
        op_names = ops.name.take(optional(np.where(of_op, op_row, NO_ROW)))
        event_id = np.where(of_op, ops.op_id[op_row], NO_ROW)
        if slices.count:
            event_id = np.where(of_slice, slices.slice_id[slice_row], event_id)
        return cls(
            event_id=event_id,
            kind=np.where(of_op, 1, np.where(of_slice, 0, NO_ROW)),
            name=pc.coalesce(_names(slices, slice_row), op_names),
            op=names[0],
            annotation=names[1],
            python=names[2],
        )


def _annotations_at(device: AttributedDevice, rows: Ints) -> Ints:
    """Return the innermost annotation around the launching thread in the middle of rows with nothing else recorded."""
    ops, slices, ledger = device.ops, device.slices, device.ledger
    found = np.full(len(rows), NO_ROW)
    if not len(rows) or not slices.count:
        return found
    linked = np.flatnonzero(ops.linked)
    starts = ops.start[linked]
    order = np.argsort(starts, kind="stable")
    following = np.searchsorted(starts[order], ledger.start[rows] + ledger.dur[rows])
    known = np.flatnonzero(following < len(linked))
    thread = ops.launch_thread[linked[order[following[known]]]]
    middle = (ledger.start[rows] + ledger.dur[rows] // 2)[known]
    is_annotation = slices.flags(
        [c in _RANGES and not n.startswith(_STEP) for c, n in zip(slices.categories, slices.names, strict=True)]
    )
    for one in np.unique(thread).tolist():
        first, last = np.searchsorted(slices.thread, [one, one + 1])
        mine = np.flatnonzero(thread == one)
        at = first + np.searchsorted(slices.start[first:last], middle[mine], side="right") - 1
        at = np.where(at >= first, at, NO_ROW)
        for _ in range(_MOST_LEVELS):
            further = (at != NO_ROW) & (~is_annotation[at] | (slices.end[at] <= middle[mine]))
            if not further.any():
                found[known[mine]] = at
                break
            at[further] = slices.parent[at[further]]
    return found


def _own_or_around(slices: HostSlices, rows: Ints, category: str, around_id: Ints) -> Ints:
    """Return each slice itself if it has a category, else the slice of that category around it."""
    if not slices.count:
        return rows
    is_own = slices.flags([c == category for c in slices.categories], rows)
    found: Ints = np.where(rows == NO_ROW, NO_ROW, np.where(is_own, rows, slices.rows_of(around_id[rows])))
    return found


def _names(slices: HostSlices, rows: Ints) -> Texts:
    missing = rows == NO_ROW
    codes = slices.name_code[rows] if slices.count else rows
    return named(np.where(missing, NO_ROW, codes), slices.names)
