"""How much of the device each kernel needs, from how many of its blocks can be resident at once."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from traceanalyzer.attribution.vocabulary.arrow_columns import column
from traceanalyzer.attribution.vocabulary.buckets import Ints

_RESIDENCE_QUERY = """
SELECT device, vendor, sm_count, max_threads_per_sm, compute_major, compute_minor, warp_size
FROM canonical.devices
WHERE trace_id = $trace_id AND sm_count > 0
"""
_REGISTERS = 65_536
# Registers are given to a warp in units of so many.
_REGISTER_UNIT = 256
# Most blocks and bytes of shared memory of an SM by compute capability: CUDA C++ Programming Guide, 'Technical
# Specifications per Compute Capability'. Of an unknown one, the largest of all: more blocks at once need less.
_LIMITS = {
    (6, 0): (32, 65_536),
    (6, 1): (32, 98_304),
    (6, 2): (32, 65_536),
    (7, 0): (32, 98_304),
    (7, 5): (16, 65_536),
    (8, 0): (32, 167_936),
    (8, 6): (16, 102_400),
    (8, 7): (16, 167_936),
    (8, 9): (24, 102_400),
    (12, 0): (24, 102_400),
    (12, 1): (24, 102_400),
}
_MOST_BLOCKS, _MOST_SHARED = 32, 233_472
_MOST_THREADS = 2_048

Shares = NDArray[np.float64]


@dataclass(frozen=True)
class Residence:
    """What limits the resident blocks of a device."""

    sm_count: int
    threads: int  # of an SM
    warp_size: int
    blocks: int  # of an SM
    shared_bytes: int  # of an SM
    registers: int | None  # of an SM; None: other rules than NVIDIA's

    def blocks_per_sm(self, threads: Ints, registers: Ints, shared: Ints) -> Ints:
        """Return how many blocks of each kernel an SM holds at once, at least one."""
        warps = -(-threads // self.warp_size)
        most = np.minimum(self.threads // (warps * self.warp_size), self.blocks)
        most = np.where(shared > 0, np.minimum(most, self.shared_bytes // np.maximum(shared, 1)), most)
        if self.registers is not None:
            of_warp = -(-registers * self.warp_size // _REGISTER_UNIT) * _REGISTER_UNIT
            most = np.where(
                registers > 0, np.minimum(most, self.registers // np.maximum(of_warp, 1) // np.maximum(warps, 1)), most
            )
        found: Ints = np.maximum(most, 1)
        return found


def load_residence(con: duckdb.DuckDBPyConnection, trace_id: int) -> dict[int, Residence]:
    """Return the limits of each device whose number of SMs is known."""
    found = {}
    for device, vendor, sm_count, threads, major, minor, warp_size in con.execute(
        _RESIDENCE_QUERY, {"trace_id": trace_id}
    ).fetchall():
        is_amd = vendor == "amd"
        blocks, shared = _LIMITS.get((major, minor), (_MOST_BLOCKS, _MOST_SHARED)) if not is_amd else (64, _MOST_SHARED)
        found[device] = Residence(
            sm_count, threads or _MOST_THREADS, warp_size or 32, blocks, shared, None if is_amd else _REGISTERS
        )
    return found


def device_shares(table: pa.Table, residence: Residence | None) -> Shares:
    """Return which part of the device each kernel needs while it runs; 0: its grid or the device is not known.

    A grid of 2.5 times the blocks that are resident at once runs in three waves, and needs 2.5 / 3 of the device.
    """
    blocks, threads, registers, shared = (
        column(table, name, 0) for name in ("blocks", "threads", "registers_per_thread", "shared_memory_bytes")
    )
    if residence is None:
        return np.zeros(table.num_rows)
    known = (blocks > 0) & (threads > 0)
    at_once = residence.sm_count * residence.blocks_per_sm(np.maximum(threads, 1), registers, shared)
    waves = np.maximum(-(-blocks // at_once), 1)
    return np.where(known, blocks / (at_once * waves), 0.0)
