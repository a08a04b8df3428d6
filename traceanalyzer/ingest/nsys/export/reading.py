"""From an export's stored columns to the relations that the mapping's SQL selects from, batch by batch.

Numbers that no recording holds and no table can keep: read as unknown, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.export.source import RowSource
from traceanalyzer.ingest.nsys.export.tables import ColumnSpec, TableLayout
from traceanalyzer.ingest.nsys.masks import (
    Column,
    Mask,
    above,
    both,
    count,
    either,
    finite_ones,
    known,
    less,
    negated,
    where,
)
from traceanalyzer.ingest.nsys.masks import Column as Array

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


# Sees every batch of a table on its way; what it returns goes on, what it takes out goes its own way.
Hook = Callable[[pa.RecordBatch], pa.RecordBatch]
_TIMES = frozenset({"start", "end", "timestamp", "taken"})
# Blobs of tool configuration stand here in a text column: no text is lost.
_HOLDS_BLOBS = frozenset({"system_env", "capture_option"})


class Stream:
    """Hands an Arrow stream to DuckDB once, without reading ahead."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._reader = pa.RecordBatchReader.from_batches(schema, batches)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._reader.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]


def read_table(
    source: RowSource, layout: TableLayout, first_id: int, defects: Defects, hook: Hook | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield a table's rows in the schema of the mapping, rows without times left out, numbered from `first_id`."""
    stored = [column.name for column in layout.table.columns if column.name in layout.stored]
    position = first_id
    for batch in source.batches(layout, stored, defects):
        ids = pa.array(np.arange(position, position + batch.num_rows, dtype=np.int64))
        position += batch.num_rows
        columns = [ids, *(_in_range(column, batch, layout, defects) for column in layout.table.columns)]
        rows = pa.RecordBatch.from_arrays(columns, schema=layout.table.schema)
        rows = _repair_times(rows, layout, defects)
        if hook is not None:
            rows = hook(rows)
        if rows.num_rows:
            yield rows


def _in_range(column: ColumnSpec, batch: pa.RecordBatch, layout: TableLayout, defects: Defects) -> Array:
    array = _column(column, batch, layout, defects)
    if column.name not in layout.stored or column.type not in ("int", "real"):
        return array
    if column.type == "real":
        return finite(array, column.name, layout, defects)
    return in_range(array, column.name, layout.table.relation, layout, defects)


def _column(column: ColumnSpec, batch: pa.RecordBatch, layout: TableLayout, defects: Defects) -> Array:
    """Return one column in its type: NULL where it is not stored."""
    if column.name not in layout.stored:
        return cast("Array", pa.nulls(batch.num_rows, column.arrow_type))  # type: ignore[call-overload]
    array = batch.column(column.name)
    if not (_is_text(array.type) or (column.type != "blob" and _is_number(array.type))):
        defects.add("mixed-types", count(known(array)), f"{layout.stored_name}.{column.name}: {array.type}")
        return cast("Array", pa.nulls(batch.num_rows, column.arrow_type))  # type: ignore[call-overload]
    if column.type in ("text", "blob"):
        array = _shortened(array, layout, column, defects)
    if array.type == column.arrow_type:
        return array
    if column.type == "int" and (pa.types.is_floating(array.type) or pa.types.is_uint64(array.type)):
        array = within_64_bits(array, column.name, layout, defects)
    if column.type == "text":
        return _text(array, layout, column, defects)
    try:
        return array.cast(column.arrow_type, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _numbers(array, column, layout, defects)


def _is_text(kind: pa.DataType) -> bool:
    is_large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return is_large or pa.types.is_string(kind) or pa.types.is_binary(kind)


def _is_number(kind: pa.DataType) -> bool:
    is_plain = pa.types.is_boolean(kind) or pa.types.is_null(kind)
    return is_plain or pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _shortened(array: Array, layout: TableLayout, column: ColumnSpec, defects: Defects) -> Array:
    """Cut texts that are longer than any tool writes, and leave out such blobs, half of which mean nothing."""
    most = layout.table.longest
    if not _is_text(array.type):
        return array
    long = above(cast("Array", pc.call_function("binary_length", [array])), most)
    if not count(long):
        return array
    defects.add("long-text", count(long), f"{layout.stored_name}.{column.name}")
    raw: list[bytes | None] = array.cast(pa.binary()).to_pylist()
    kept = [
        value
        if value is None or len(value) <= most
        else value[:most].decode("utf-8", "ignore").encode()
        if column.type == "text"
        else b""
        for value in raw
    ]
    return pa.array(kept, pa.binary()).cast(array.type)


def _text(array: Array, layout: TableLayout, column: ColumnSpec, defects: Defects) -> Array:
    """Decode bytes; text that is no UTF-8 survives with its bad bytes replaced."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = []
        for value in array.to_pylist():
            text = (value or b"").decode("utf-8", "replace")
            if "\ufffd" in text and layout.table.relation not in _HOLDS_BLOBS:
                defects.add("invalid-utf8", example=f"{layout.stored_name}.{column.name}: {text}")
            texts.append(text)
        return pa.array(texts, pa.string())


def _numbers(array: Array, column: ColumnSpec, layout: TableLayout, defects: Defects) -> Array:
    """Read numbers that are stored as text; what is no number becomes NULL and is counted."""
    kept: list[Any] = []
    for value in array.to_pylist():
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        try:
            number = None if text is None or text == "" else int(text) if column.type == "int" else float(text)
        except ValueError:
            defects.add("mixed-types", example=f"{layout.stored_name}.{column.name}: {text!r}")
            number = None
        if isinstance(number, int) and not -(2**63) <= number < 2**63:
            defects.add("number-out-of-range", example=f"{layout.stored_name}.{column.name}: {text!r}")
            number = None
        kept.append(number)
    return pa.array(kept, column.arrow_type)


def _repair_times(rows: pa.RecordBatch, layout: TableLayout, defects: Defects) -> pa.RecordBatch:
    """Leave out rows without required times, and end rows that end before they start where they start."""
    for column in layout.table.columns:
        if column.required and column.name in _TIMES and rows.column(column.name).null_count:
            timed = known(rows.column(column.name))
            defects.add("no-times", count(negated(timed)), layout.stored_name)
            rows = rows.filter(timed)
    if "end" not in rows.schema.names:
        return rows
    start, end = rows.column("start"), rows.column("end")
    backwards = less(end, start)
    if count(backwards):
        defects.add("negative-duration", count(backwards), layout.stored_name)
        place = rows.schema.get_field_index("end")
        rows = rows.set_column(place, rows.schema.field(place), where(backwards, start, end))
    return rows
