"""Numbers that no recording holds and no table can keep: read as unknown, and counted."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.export.tables import TableLayout
from traceanalyzer.ingest.nsys.masks import Column, Mask, both, count, either, finite_ones, known, less, negated, where

# Sums and differences of times up to 2096, doubled, fit into 64 bits. nsys counts from the begin of the capture.
EARLIEST_NS, LATEST_NS = -4 * 10**17, 4 * 10**18
_TIME_COLUMNS = frozenset({"start", "end", "timestamp", "taken", "utcEpochNs"})
_OF_32_BITS = frozenset(
    {"deviceId", "registersPerThread", "launchType", "localMemoryPerThread", "greenContextId"}
    | {"clusterX", "clusterY", "clusterZ", "gpuId", "cudaId", "cuDevice", "smCount", "computeMajor", "computeMinor"}
    | {"rank"}
)
# The limits of CUDA's launches, and far above them of transfers: their sums and products fit into 64 bits.
_LARGEST = {
    **dict.fromkeys(("gridX", "staticSharedMemory", "dynamicSharedMemory"), 2**31 - 1),
    **dict.fromkeys(("gridY", "gridZ"), 2**16 - 1),
    **dict.fromkeys(("blockX", "blockY", "blockZ", "threadsPerWarp", "maxWarpsPerSm"), 2**10),
    **dict.fromkeys(("bytes", "size", "recvSize"), 2**44),
}


def in_range(array: Column, column: str, relation: str, layout: TableLayout, defects: Defects) -> Column:
    """Return a column of integers with those out of range as NULL."""
    if column in _TIME_COLUMNS:
        low, high = EARLIEST_NS, LATEST_NS
    elif column in _OF_32_BITS or (relation == "gpu" and column == "id"):
        low, high = -(2**31), 2**31 - 1
    elif (largest := _LARGEST.get(column)) is not None:
        low, high = -largest, largest
    else:
        return array
    ends: dict[str, Any] = pc.min_max(array).as_py()  # type: ignore[assignment]
    if ends["min"] is None or (ends["min"] >= low and ends["max"] <= high):
        return array
    low_end, high_end = (cast("Column", pa.scalar(end, pa.int64())) for end in (low, high))
    return _unknown_where(either(less(array, low_end), less(high_end, array)), array, column, layout, defects)


def within_64_bits(array: Column, column: str, layout: TableLayout, defects: Defects) -> Column:
    """Return numbers of a column of integers, with those that no signed integer of 64 bits is near as NULL."""
    low_end, high_end = (cast("Column", pa.scalar(end)) for end in (-(2.0**63), 2.0**63))
    reals = array.cast(pa.float64(), safe=False)
    beyond = both(known(array), negated(both(less(low_end, reals), less(reals, high_end))))
    return _unknown_where(beyond, array, column, layout, defects)


def finite(array: Column, column: str, layout: TableLayout, defects: Defects) -> Column:
    """Return a column of reals with infinities, and what is no number, as NULL."""
    return _unknown_where(both(known(array), negated(finite_ones(array))), array, column, layout, defects)


def _unknown_where(beyond: Mask, array: Column, column: str, layout: TableLayout, defects: Defects) -> Column:
    """Return a column with NULL where a mask holds, which counts as a defect each."""
    if not count(beyond):
        return array
    example = array.filter(beyond)[0].as_py()
    defects.add("number-out-of-range", count(beyond), f"{layout.stored_name}.{column}: {example}")
    return where(beyond, cast("Column", pa.scalar(None, array.type)), array)
