"""Allocations and releases of XLA's allocators, on the host's lines."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceanalyzer.ingest.sink import TraceSink
from traceanalyzer.ingest.xla.events import LineEvents, start_ns
from traceanalyzer.ingest.xla.naming import Details, details_of
from traceanalyzer.ingest.xla.space import Plane
from traceanalyzer.ingest.xla.stats import codes_of_used
from traceanalyzer.ingest.xla.wire import Int

_ALLOCATIONS = {"MemoryAllocation": 1, "MemoryDeallocation": 2}
_DEVICE_OF_ALLOCATOR = re.compile(r"GPU_(\d+)")
_MOST_SIZE_BYTES = 2**46
_OF_DRIVER = (("memalloc_details", "alloc"), ("MemFree_details", "free"))


def write_allocations(
    sink: TraceSink, plane: Plane, events: LineEvents, starts: Int, thread_id: int
) -> npt.NDArray[np.bool_]:
    """Write allocator events, and return which events they are."""
    kinds = codes_of_used(events.name, plane.event_names, lambda name: _ALLOCATIONS.get(name, 0))
    is_memory = kinds > 0
    if not is_memory.any():
        return is_memory
    rows = np.flatnonzero(is_memory)
    picker = events.picker
    codes, allocators = picker.codes("allocator_name")
    device_of = [_device_of_allocator(name) for name in allocators]
    is_alloc = kinds == _ALLOCATIONS["MemoryAllocation"]
    numbers = {}
    for name in ("addr", "allocation_bytes", "bytes_allocated", "index_on_host"):
        values, known = np.zeros(len(events), np.int64), np.zeros(len(events), np.bool_)
        owner, found = picker.integers(name)
        values[owner], known[owner] = found, True
        if name != "addr":
            known &= np.abs(values) <= _MOST_SIZE_BYTES
        numbers[name] = (values, known)
    device = np.array(device_of, np.int64)[codes]
    on_tpu = numbers["index_on_host"][1]
    device = np.where(on_tpu, numbers["index_on_host"][0] % 2**31, device)
    sizes, known_sizes = numbers["allocation_bytes"]
    sink.append(
        "memory_events",
        pa.table(
            {
                "event_id": pa.array(events.event_id[rows]),
                "thread_id": pa.array(np.full(len(rows), thread_id)),
                "start_ns": pa.array(starts[rows]),
                "kind": pa.array(np.where(is_alloc[rows], "alloc", "free").tolist(), pa.string()),
                "device_type": pa.array(np.where(device[rows] < 0, 0, 1)),
                "device": pa.array(device[rows]),
                "address": _known(*numbers["addr"], rows),
                "size_bytes": _known(np.where(is_alloc, sizes, -sizes), known_sizes, rows),
                "allocated_bytes": _known(*numbers["bytes_allocated"], rows),
            }
        ),
    )
    return is_memory


def write_allocations_of_driver(sink: TraceSink, events: LineEvents, device: int, base_ns: int) -> bool:
    """Write what programs take from a GPU's driver; return whether there was any.

    Memory that was in use when the recording began is not among it: its allocations lie before.
    """
    found: list[tuple[int, str, Details]] = []
    for key, kind in _OF_DRIVER:
        codes, texts = events.picker.codes(key)
        details = [details_of(text) for text in texts]
        found += [(row, kind, details[codes[row]]) for row in np.flatnonzero(events.picker.has(key)).tolist()]
    if not found:
        return False
    rows = np.array([row for row, _, _ in found], np.int64)
    on_device = [said.target in (None, "device", "managed", "array") for _, _, said in found]
    sizes = [
        None if said.size_bytes is None else said.size_bytes * (-1 if kind == "free" else 1) for _, kind, said in found
    ]
    sink.append(
        "memory_events",
        pa.table(
            {
                "event_id": pa.array(events.event_id[rows]),
                "start_ns": pa.array(start_ns(events.line, events.offset_ps[rows], base_ns)),
                "kind": pa.array([kind for _, kind, _ in found], pa.string()),
                "device_type": pa.array([int(one) for one in on_device], pa.int64()),
                "device": pa.array([device if one else -1 for one in on_device], pa.int64()),
                "address": pa.array([said.address for _, _, said in found], pa.int64()),
                "size_bytes": pa.array(sizes, pa.int64()),
            }
        ),
    )
    return True


def _device_of_allocator(name: str | None) -> int:
    """Return the device of an allocator, such as GPU_0_bfc; -1: the host's."""
    found = _DEVICE_OF_ALLOCATOR.search(name or "")
    return int(found[1]) if found and len(found[1]) < 9 else -1


def _known(values: Int, known: npt.NDArray[np.bool_], rows: Int) -> pa.Array[Any]:
    return pa.array(values[rows], mask=~known[rows])
