"""An export loaded for the SQL of the mapping: a DuckDB connection with a relation per table, filled batch by batch.

Numbers that no recording holds and no table can keep are read as unknown, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from traceanalyzer.ingest.nesting import BATCH_ROWS
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.masks import (
    Column,
    Mask,
    above,
    both,
    count,
    differs,
    either,
    finite_ones,
    known,
    less,
    negated,
    where,
)
from traceanalyzer.ingest.nsys.masks import Column as Array
from traceanalyzer.ingest.nsys.source import ExportSource, RowSource
from traceanalyzer.ingest.nsys.tables import BY_RELATION, GPU_RELATIONS, TABLES, ColumnSpec, TableLayout
from traceanalyzer.schema import parquet_options

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
    if layout.table.relation in GPU_RELATIONS:
        # CUPTI writes zeros where it could not collect the times of work.
        timed = either(differs(rows.column("start"), 0), differs(rows.column("end"), 0))
        defects.add("no-times", count(negated(timed)), layout.stored_name)
        rows = rows.filter(timed)
    start, end = rows.column("start"), rows.column("end")
    backwards = less(end, start)
    if count(backwards):
        defects.add("negative-duration", count(backwards), layout.stored_name)
        place = rows.schema.get_field_index("end")
        rows = rows.set_column(place, rows.schema.field(place), where(backwards, start, end))
    return rows


# These may hold most of the file: they pass through one query each and are never kept.
STREAMED = ("kernel", "memcpy", "memset", "runtime", "nvtx", "osrt", "gpu_metric", "nic_metric")
# Sorting and joining spill to disk beyond this.
_MEMORY_LIMIT = "400MB"


@cache
def sql(name: str) -> str:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


class StagedExport:
    """Holds the connection, gives every row its id, and keeps count of what was read."""

    def __init__(self, source: ExportSource, scratch: Path, defects: Defects) -> None:
        self.source = source
        self.defects = defects
        self._read: set[str] = set()
        self.connection = duckdb.connect(
            config={
                # Streams come one batch after the other: a second thread waits for them, at the cost of a core.
                "threads": 1,
                "memory_limit": _MEMORY_LIMIT,
                "temp_directory": str(scratch),
                "preserve_insertion_order": False,
                "asof_loop_join_threshold": 0,  # estimates can be far too low
                # A stream's length is unknown, and the guess would hold the stream in memory instead of the other side:
                # every join here is written with its small side last.
                "disabled_optimizers": "join_order,build_side_probe_side",
            }
        )
        self.first_ids, self.row_count = self._number_rows()

    def select(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield what one of the mapping's SELECTs returns, as it comes; the connection is free once all is drawn."""
        yield from self.connection.sql(sql(name).rstrip().removesuffix(";")).to_arrow_reader(BATCH_ROWS)

    def _number_rows(self) -> tuple[dict[str, int], int]:
        first, firsts = 0, {}
        for table in TABLES:
            layout = self.source.layouts.get(table.relation)
            firsts[table.relation] = first
            first += self.source.row_counts[layout.stored_name] if layout else 0
        return firsts, first

    @property
    def event_count(self) -> int:
        return sum(
            self.source.row_counts[layout.stored_name]
            for layout in self.source.layouts.values()
            if {"start", "timestamp"} & set(layout.stored)
        )

    def has_rows(self, relation: str) -> bool:
        """Return whether the export holds rows of a table that can be read."""
        layout = self.source.layouts.get(relation)
        return layout is not None and not layout.unreadable and self.source.row_counts[layout.stored_name] > 0

    def rows(self, relation: str, hook: Hook | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in the mapping's schema; none where the export lacks it."""
        if self.has_rows(relation):
            layout = self.source.layouts[relation]
            # Some tables are read twice, and a defect of theirs is one.
            defects = Defects() if relation in self._read else self.defects
            self._read.add(relation)
            yield from read_table(self.source, layout, self.first_ids[relation], defects, hook)

    def last_end(self, relation: str) -> int | None:
        """Return when the last row of a table ends; None: it has no rows with ends."""
        layout = self.source.layouts.get(relation)
        if not self.has_rows(relation) or layout is None or "end" not in layout.stored:
            return None
        ends = (pc.max(batch.column(0)).as_py() for batch in self.source.batches(layout, ["end"], Defects()))
        return max((end for end in ends if isinstance(end, int)), default=None)

    def stream(
        self,
        relation: str,
        hook: Hook | None = None,
        last: Iterable[pa.RecordBatch] = (),
        schema: pa.Schema | None = None,
    ) -> None:
        """Make a table available to one query, which reads it as it comes; `last` is drawn after its last row.

        `schema` is that of the rows if the hook gives them other columns.
        """
        batches = chain(self.rows(relation, hook), last)
        self.connection.register(relation, Stream(schema or BY_RELATION[relation].schema, batches))

    def load(self, relation: str) -> None:
        """Make a small table available to any number of queries."""
        self.put(relation, BY_RELATION[relation].schema, self.rows(relation))

    def put(self, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.connection.register("incoming", Stream(schema, batches))
        # The name is one of ours.
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS FROM incoming")
        self.connection.unregister("incoming")

    def leave_out_repeated(self, relation: str) -> None:
        """Keep one of several rows of a loaded table that are equal in all columns but the id, and count the others."""
        once = f"SELECT min(event_id) AS event_id, * EXCLUDE (event_id) FROM {relation} GROUP BY ALL"
        counted = f"SELECT (SELECT count(*) FROM {relation}) - (SELECT count(*) FROM ({once}))"
        ((count,),) = self.connection.execute(counted).fetchall()
        if count:
            self.defects.add("repeated-record", count, relation)
            self.connection.execute(f"CREATE OR REPLACE TABLE {relation} AS {once}")

    def run(self, name: str) -> None:
        """Execute one of the mapping's SQL files."""
        self.connection.execute(sql(name))

    def write(self, name: str, path: Path) -> None:
        """Write what one of the mapping's SELECTs returns as a Parquet file."""
        rows = self.connection.sql(sql(name)).to_arrow_reader(BATCH_ROWS)
        with pq.ParquetWriter(path, rows.schema, store_schema=False, **parquet_options(rows.schema)) as writer:
            for batch in rows:
                writer.write_batch(batch)

    def set(self, **variables: object) -> None:
        """Set variables that the SQL files read with getvariable."""
        for name, value in variables.items():
            self.connection.execute(f"SET VARIABLE {name} = $value", {"value": value})

    def close(self) -> None:
        self.connection.close()
