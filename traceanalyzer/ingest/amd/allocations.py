"""Memory that programs take from the driver, as rocprofiler records it: a FREE names an address and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

_CPU, _ROCM = 0, 6  # c10::DeviceType
_SCRATCH = "SCRATCH"


def allocation_rows(rows: Sequence[Mapping[str, Any]], devices: Sequence[int]) -> Iterator[tuple[str, pa.Table]]:
    """Yield rows of `memory_events`, with sizes and devices of frees from what was allocated at their address.

    `rows` have event_id, start, end, tid, type, level, address and size; `devices` are their GPUs, -1 for none. Scratch
    memory belongs to no allocation of the program: it is kept as arguments.
    """
    order = sorted(range(len(rows)), key=lambda at: (rows[at]["end"], rows[at]["event_id"]))
    held: dict[int | None, tuple[int | None, int]] = {}
    events, scratch = [], []
    for at in order:
        row, device = rows[at], devices[at]
        kind, size = (row["type"] or "").upper(), row["size"]
        if (row["level"] or "").upper() == _SCRATCH:
            scratch.append({"event_id": row["event_id"], "args": f'{{"scratch": "{kind}", "bytes": {size or 0}}}'})
            continue
        is_free = kind in ("FREE", "RECLAIM")
        if is_free:
            size, device = held.pop(row["address"], (None, device))
        else:
            held[row["address"]] = (size, device)
        events.append(
            {
                "event_id": row["event_id"],
                "thread": row["tid"],
                "start_ns": row["end"],
                "kind": "free" if is_free else "alloc",
                "device_type": _CPU if device < 0 else _ROCM,
                "device": device,
                "address": row["address"],
                "size_bytes": None if size is None else -size if is_free else size,
            }
        )
    if events:
        yield "memory_events", pa.Table.from_pylist(events)
    if scratch:
        yield "event_args", pa.Table.from_pylist(scratch)
