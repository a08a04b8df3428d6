"""Columns of numbers: the types of arrays, the numbers of the ledger's buckets, and the way to Arrow and back.

In arrays, integers stand for NULL and for names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeAlias, cast

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from traceanalyzer.text import words as table

Ints = NDArray[np.int64]
Codes = NDArray[np.int8]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
DeviceKey = tuple[int, int]  # trace_id, device

BUCKETS = tuple(bucket.name for bucket in table.BUCKETS)
CODE = {name: code for code, name in enumerate(BUCKETS)}


def _of(*roles: table.Role) -> tuple[str, ...]:
    return tuple(bucket.name for bucket in table.BUCKETS if bucket.role in roles)


LIGHT = _of(table.LIGHT)
HOST = _of(table.HEAVY, table.SYNC, table.LIGHT)
PRODUCERS = _of(table.PRODUCER)
# Buckets that name a cause which a fix can remove.
CAUSES = frozenset((*HOST, *PRODUCERS, *_of(table.WAIT)))

HOST_CODE = {name: code for code, name in enumerate(HOST)}
FIRST_HOST = CODE[HOST[0]]
LIGHT_CODES = tuple(HOST_CODE[name] for name in LIGHT)
# The program's own code, outside of operators and of calls into the driver.
OWN_CODE_CODES = (HOST_CODE["host.python"], HOST_CODE["host.other"])
# What own code goes on around: calls of the operating system and of the interpreter, which no driver's call divides.
OUTSIDE_DRIVER_CODES = (*OWN_CODE_CODES, *(HOST_CODE[f"host.{name}"] for name in ("io", "gc", "lock", "offcpu")))
SYNC_CODE = HOST_CODE["host.sync"]
LAUNCH_CODE = HOST_CODE["host.launch_api"]
OTHER_CODE = HOST_CODE["host.other"]

COMPUTE = "compute"
COPIES = ("dev.h2d", "dev.d2h", "dev.d2d")
TRANSFER, STRAGGLER_WAIT, MESSAGE = "dev.comm_transfer", "dev.straggler_wait", "dev.comm_p2p"
DISPATCH = "dev.dispatch"
GRAPH_GAP = "dev.graph_gap"
UNRESOLVED = "dev.unresolved"
NO_LAUNCH = "edge.no_launch"
HEAD = "edge.head"
QUEUED_BEFORE = "edge.queued_before_trace"
TAIL = "edge.tail"
NOT_RECORDED = "edge.not_recorded"

# Buckets that a rule may explain; without the cause in them no op would run earlier.
EXPLAINED = CAUSES | {NO_LAUNCH, TAIL, UNRESOLVED}


NO_ROW = -1

_NUMPY_TYPES = {"int32": np.int32, "int64": np.int64, "double": np.float64}

Texts: TypeAlias = "pa.Array[Any]"
Numbers: TypeAlias = "pa.Array[Any]"


class NamedRows(Struct, frozen=True):
    """A column with few different texts: the number of each row, and the text of each number."""

    codes: Ints
    names: tuple[str | None, ...]

    @classmethod
    def of(cls, texts: Any) -> Self:
        """Encode a column of texts."""
        codes, names = codes_of(texts)
        return cls(codes, tuple(names))

    def where(self, holds: Callable[[str | None], bool]) -> Flags:
        """Return for each row whether `holds` is true of its text; called once per different text."""
        if not self.names:
            return np.zeros(len(self.codes), np.bool_)
        flags: Flags = np.asarray([holds(name) for name in self.names], np.bool_)[self.codes]
        return flags

    def among(self, rows: Flags) -> set[str]:
        """Return the different texts of some rows."""
        return {name for code in np.unique(self.codes[rows]).tolist() if (name := self.names[code]) is not None}


def column(table: pa.Table, name: str, missing: int = NO_ROW) -> Ints:
    """Return an integer column as an array, `missing` for NULL."""
    # Arrow's combine_chunks of no rows imports pandas if it is installed, and so does fill_null: a third of a second.
    if not table.num_rows:
        return np.zeros(0, np.int64)
    values = cast(Any, table[name].combine_chunks().cast(pa.int64()))
    validity, data = values.buffers()
    numbers = np.frombuffer(data, np.int64)[values.offset : values.offset + len(values)]
    if validity is None or not values.null_count:
        return numbers
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    return np.where(bits[values.offset : values.offset + len(values)] == 1, numbers, missing)


def flag_column(table: pa.Table, name: str) -> Flags:
    """Return a column of truth values as an array; NULL is false."""
    if not table.num_rows:
        return np.zeros(0, np.bool_)
    values = cast(Any, table[name].combine_chunks())
    validity, data = values.buffers()
    within = slice(values.offset, values.offset + len(values))
    flags: Flags = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[within] == 1
    if validity is not None and values.null_count:
        flags &= np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")[within] == 1
    return flags


def codes_of(texts: Any) -> tuple[Ints, list[str | None]]:
    """Return texts as numbers, and the text of each number; NULL has a number of its own."""
    if not len(texts):
        return np.zeros(0, np.int64), []
    encoded = texts.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode("encode")
    indices = encoded.indices
    numbers = np.frombuffer(indices.buffers()[1], np.int32) if len(indices) else np.zeros(0, np.int32)
    return numbers[indices.offset : indices.offset + len(indices)].astype(np.int64), encoded.dictionary.to_pylist()


def rows_of_each(values: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each different value, the smallest first, with its rows in their order."""
    if len(values):
        order = np.argsort(values, kind="stable")
        found, first = np.unique(values[order], return_index=True)
        yield from zip(found.tolist(), np.split(order, first[1:]), strict=True)


def optional(values: Ints, missing: int = NO_ROW) -> Numbers:
    """Return an integer column that is NULL where the array holds `missing`."""
    return _of_numbers(values, values == missing, pa.int64())


def named(codes: Ints, names: Sequence[str | None]) -> Texts:
    """Return names by code; codes below 0 and names that are None give NULL."""
    found: Texts = cast(Any, coded(codes, names)).cast(pa.string())
    return found


def coded(codes: Ints, names: Sequence[str | None]) -> Texts:
    """Return names by code, as `named` does, in a column that holds each name once."""
    indices = _of_numbers(codes, codes < 0, pa.int32())
    found: Texts = cast(Any, pa.DictionaryArray).from_arrays(indices, _of_texts(names))
    return found


def array_of(values: Sequence[Any] | NDArray[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return values as an Arrow column; None gives NULL.

    pa.array would import pandas if it is installed, which takes a fifth of a second.
    """
    if pa.types.is_string(kind):
        return _of_texts(values)
    if isinstance(values, np.ndarray):
        return _of_numbers(values, np.zeros(len(values), np.bool_), kind)
    missing = np.asarray([value is None for value in values], np.bool_)
    return _of_numbers(np.asarray([0 if value is None else value for value in values]), missing, kind)


def table_of_columns(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Return columns of Arrow, arrays and lists as a table; None gives NULL."""
    arrays = [
        values.cast(field.type)
        if isinstance(values := columns[field.name], pa.Array | pa.ChunkedArray)
        else array_of(values, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _of_numbers(values: NDArray[Any], missing: NDArray[np.bool_], kind: pa.DataType) -> pa.Array[Any]:
    if pa.types.is_boolean(kind):
        data = np.packbits(values.astype(np.bool_), bitorder="little")
    else:
        data = np.ascontiguousarray(values, _NUMPY_TYPES[str(kind)])
    return _from_buffers(kind, len(values), [_validity(missing), _buffer(data)])


def _of_texts(texts: Sequence[str | None] | NDArray[Any]) -> pa.Array[Any]:
    encoded = [b"" if text is None else text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    missing = np.asarray([text is None for text in texts], np.bool_)
    return _from_buffers(
        pa.string(), len(encoded), [_validity(missing), _buffer(ends), pa.py_buffer(b"".join(encoded))]
    )


def _validity(missing: NDArray[np.bool_]) -> pa.Buffer | None:
    return _buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None


def _buffer(data: NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(cast(Any, data))


def _from_buffers(kind: pa.DataType, count: int, buffers: list[pa.Buffer | None]) -> pa.Array[Any]:
    found: pa.Array[Any] = cast(Any, pa.Array).from_buffers(kind, count, buffers)
    return found
