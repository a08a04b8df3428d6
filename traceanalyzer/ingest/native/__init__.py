"""A chunk of the event list read by a library in C, where it was built and the chunk holds nothing unusual.

The library (`scanner.c`) fills the columns of `host.sql`, `gpu_events.sql`, `other.sql` and `args.sql`, equal to what
DuckDB makes of the chunk, or refuses it; then DuckDB reads it. Usual arguments of GPU work it types as `gpu.sql` does.
It also nests slices (`nesting.h`), reads pages of SQLite files (`pages.h`) and takes PyTorch's ranges apart
(`ranges.h`): without it, ingesters do each of these.
"""

from __future__ import annotations

import ctypes
import os
import weakref
import zlib
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from traceanalyzer.errors import TraceAnalyzerError

# Names the reader of chunks: `duckdb`, or `native` to have an error where the library is missing.
READER_VARIABLE = "TRACEANALYZER_READER"
READERS = {"native": "native, and DuckDB for unusual chunks", "duckdb": "DuckDB"}
SOURCES = [
    Path(__file__).with_name(name)
    for name in ("columns.h", "words.h", "between.h", "nesting.h", "pages.h", "ranges.h", "scanner.c")
]
LIBRARY = Path(__file__).with_name("scanner.so")

_ARGS, _HOST, _GPU, _OTHER = range(4)
# As the library numbers them.
_CLASSES = ("host", "gpu", "sync", "async", "refused")
_CATEGORIES = ("other", "cpu_op", "annotation", "python", "runtime", "driver", "overhead")
_PHASES = tuple("XMBEiIRnbeSFstfC")
# Dialects of their own where an event has a corr_id.
_OF_SDK = ("kernel_dispatch", "memory_copy", "hip_api", "hsa_api", "marker_api", "rccl_api")
_OF_OMNITRACE = ("device_hip", "rocm_hip", "rocm_hsa", "rocm_roctx")
_REFUSED = (*_OF_SDK, *(f"rocm_{name}" for name in _OF_SDK), *_OF_OMNITRACE)
_NUMBER, _SMALL, _TRUTH, _TEXT, _CLASS, _CATEGORY, _PHASE, _DOUBLE = range(8)
_TIMES = tuple((name, _NUMBER) for name in ("start_ns", "start_double_ns", "dur_ns", "dur_double_ns"))
_HOST_COLUMNS = (
    ("event_id", _NUMBER),
    ("pid", _TEXT),
    ("tid", _TEXT),
    ("category", _CATEGORY),
    ("raw_category", _TEXT),
    ("name", _TEXT),
    *_TIMES,
    ("correlation", _NUMBER),
    ("external_id", _NUMBER),
    ("sequence", _NUMBER),
    ("forward_thread", _NUMBER),
    ("input_shapes", _TEXT),
    ("frame_id", _NUMBER),
    ("caller_id", _NUMBER),
    ("lost_values", _SMALL),
)
_NAMED = (("category", _CATEGORY), ("name", _TEXT), ("pid", _TEXT), ("tid", _TEXT), *_TIMES)
_GPU_COLUMNS = (("event_id", _NUMBER), *_NAMED, ("args", _NUMBER))
# What the arguments of GPU work say, behind those columns; `gpu_typed.sql` reads them.
_NUMBERS_OF_WORK = (
    *("device", "stream", "context", "correlation", "external_id", "graph_id", "graph_node_id", "size_bytes"),
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread", "shared_memory_bytes"),
)
_WORK_COLUMNS = (
    *((name, _NUMBER) for name in _NUMBERS_OF_WORK),
    *((name, _DOUBLE) for name in ("blocks_per_sm", "warps_per_sm", "occupancy_percent")),
    *((name, _NUMBER) for name in ("group_size", "in_elements", "out_elements", "comm_seq")),
    *((name, _TEXT) for name in ("collective", "group_name", "group_desc", "group_ranks", "comm_dtype")),
)
_OTHER_COLUMNS = (
    ("event_id", _NUMBER),
    ("class", _CLASS),
    ("phase", _PHASE),
    ("raw_category", _TEXT),
    *_NAMED,
    ("id", _TEXT),
    ("id2", _TEXT),
    ("bp", _TEXT),
    ("scope", _TEXT),
    ("flow_in", _TRUTH),
    ("flow_out", _TRUTH),
    ("lost_flows", _SMALL),
    ("args", _NUMBER),
)
_TYPES: dict[int, pa.DataType] = {_NUMBER: pa.int64(), _SMALL: pa.int8(), _TRUTH: pa.int8(), _DOUBLE: pa.float64()}
_REFUSED_CHUNK, _DOUBLES = 0, 1


def reader_in_use() -> str:
    """Return what reads chunks of JSON traces: `native`, with DuckDB for unusual chunks, or `duckdb`.

    Raises TraceAnalyzerError where the environment asks for a reader that is not there.
    """
    wanted = os.environ.get(READER_VARIABLE, "")
    if wanted and wanted not in READERS:
        raise TraceAnalyzerError(f"{READER_VARIABLE}={wanted} is no reader", hint="native and duckdb are")
    if wanted == "native" and _library() is None:
        raise TraceAnalyzerError(
            "the native reader was not built here",
            hint=f"install from source with a C compiler, or unset {READER_VARIABLE}",
        )
    return "duckdb" if wanted == "duckdb" or _library() is None else "native"


@cache
def _library() -> ctypes.CDLL | None:
    """Return the library, where it was built from the source beside it."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.scanner_source.restype = ctypes.c_uint32
        if library.scanner_source() != zlib.crc32(b"".join(path.read_bytes() for path in SOURCES)):
            return None
    except (OSError, AttributeError):
        return None
    pointer, number, small = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    of_column = [pointer, small, small]
    for name, result, arguments in (
        ("new", pointer, [small, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(small), ctypes.POINTER(small)]),
        ("free", None, [pointer]),
        ("scan", small, [pointer, pointer, number, small]),
        ("event_count", number, [pointer]),
        ("has_stacks", small, [pointer]),
        ("has_unusual_work", small, [pointer]),
        ("row_count", number, [pointer, small]),
        ("data", pointer, of_column),
        ("valid", pointer, of_column),
        ("text_count", number, of_column),
        ("text_offsets", pointer, of_column),
        ("text_bytes", pointer, of_column),
        ("args_offsets", pointer, [pointer]),
        ("args_bytes", pointer, [pointer]),
    ):
        function = getattr(library, f"scanner_{name}")
        function.restype, function.argtypes = result, arguments
    library.nest_slices.restype = number
    library.nest_slices.argtypes = [pointer, number, number, *[pointer] * 8]
    library.frames_lie_in_callers.restype = small
    library.frames_lie_in_callers.argtypes = [pointer, number, *[pointer] * 6]
    library.ranges_take_apart.restype = number
    library.ranges_take_apart.argtypes = [number, *[pointer] * 3, number, *[pointer] * 3]
    for name, result, arguments in (
        ("new", pointer, [small, *[number] * 5, small, pointer]),
        ("free", None, [pointer]),
        ("read", number, [pointer, number, pointer, pointer]),
        ("null_count", number, [pointer, small]),
        ("bytes", pointer, [pointer, small]),
        ("byte_count", number, [pointer, small]),
    ):
        function = getattr(library, f"pages_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def native_library() -> ctypes.CDLL | None:
    return _library() if reader_in_use() == "native" else None


def nest_natively(
    stack: NDArray[np.int64],
    depth: int,
    columns: Sequence[NDArray[np.int64]],
    found: NDArray[np.int64],
    crosses: NDArray[np.bool_],
) -> int:
    """Do what `in_plain_python` of `nesting` does."""
    library = _library()
    assert library is not None
    arrays = (*columns, found, crosses)
    count: int = library.nest_slices(stack.ctypes.data, depth, len(crosses), *(array.ctypes.data for array in arrays))
    return count


def frames_lie_in_callers(
    rows: NDArray[np.int64], thread_id: NDArray[np.int32], columns: Sequence[NDArray[np.int64]]
) -> bool:
    """Return whether each Python frame runs within its caller and beside no other; False where the library is missing.

    `columns` are starts, durations, ids and callers, -1 for none; `rows` are the places of frames by thread, start and
    longer first.
    """
    library = native_library()
    if library is None:
        return False
    stack = np.empty(2 * len(rows), np.int64)
    arrays: list[NDArray[Any]] = [
        np.ascontiguousarray(rows),
        np.ascontiguousarray(thread_id),
        *map(np.ascontiguousarray, columns),
        stack,
    ]
    rows_at, *others = (array.ctypes.data for array in arrays)
    return bool(library.frames_lie_in_callers(rows_at, len(rows), *others))


class Scanned(Struct, frozen=True):
    """What a chunk holds."""

    event_count: int
    has_gpu_work: bool
    has_stacks: bool


@lru_cache(1)
def _meanings(categories: tuple[tuple[str, str, str], ...]) -> tuple[list[str], Any, Any, Any]:
    """Return all categories, and the raw names, classes and numbers of categories that a scanner is made with."""
    meanings = [row for row in categories if row[0] not in _REFUSED]
    meanings += [(raw, "refused", "other") for raw in _REFUSED]
    known = [*_CATEGORIES, *sorted({category for _, _, category in meanings} - set(_CATEGORIES))]
    count = len(meanings)
    names = (ctypes.c_char_p * count)(*(raw.encode() for raw, _, _ in meanings))
    classes = (ctypes.c_int * count)(*(_CLASSES.index(kind) for _, kind, _ in meanings))
    numbers = (ctypes.c_int * count)(*(known.index(category) for _, _, category in meanings))
    return known, names, classes, numbers


class NativeScanner:
    """Scans chunks one after the other, in memory that it keeps; `categories` are the rows of that table."""

    def __init__(self, categories: Sequence[tuple[str, str, str]]) -> None:
        library = _library()
        assert library is not None
        self._categories, *meanings = _meanings(tuple(categories))
        self._library = library
        self._scanner = library.scanner_new(len(meanings[0]), *meanings)
        if not self._scanner:
            raise MemoryError
        # Tables hold on to the scanner, whose memory they lie in.
        self._free = weakref.finalize(self, library.scanner_free, self._scanner)
        self._by_doubles = False

    def scan(self, events: bytes | memoryview, *, look_for_stacks: bool) -> Scanned | None:
        """Scan a chunk; None where it is refused. What the chunk before held is gone."""
        if not len(events):
            return None
        text = np.frombuffer(events, np.uint8)
        result = self._library.scanner_scan(self._scanner, text.ctypes.data, len(text), look_for_stacks)
        if result == _REFUSED_CHUNK:
            return None
        self._by_doubles = result == _DOUBLES
        return Scanned(
            self._library.scanner_event_count(self._scanner),
            self._row_count(_GPU) > 0,
            bool(self._library.scanner_has_stacks(self._scanner)),
        )

    def tables(self, first_event_id: int) -> dict[str, pa.Table]:
        """Return the rows of the chunk by part, as the SQL files of the parts list them; valid until the next scan.

        The typed part of GPU work is there where no arguments of it are unusual.
        """
        offsets = self._library.scanner_args_offsets(self._scanner)
        count = self._row_count(_ARGS)
        texts = self._texts(count, offsets, self._library.scanner_args_bytes(self._scanner))
        ids, is_naming = self._column(_ARGS, 0, pa.int64(), count), self._column(_ARGS, 1, pa.int8(), count)
        args = pa.table({"event_id": _shifted(ids, first_event_id), "args": _as_json(texts)})
        parts = {
            "args": _without(np.flatnonzero(np.asarray(is_naming)), args),
            "host": self._part(_HOST, _HOST_COLUMNS, first_event_id, texts),
            "gpu_events": self._part(_GPU, _GPU_COLUMNS, first_event_id, texts),
            "other": self._part(_OTHER, _OTHER_COLUMNS, first_event_id, texts),
        }
        if not self._library.scanner_has_unusual_work(self._scanner):
            parts["gpu_typed"] = self._typed_work(parts["gpu_events"])
        return parts

    def close(self) -> None:
        """Free the memory of the last chunk; tables made of it must be gone."""
        self._free()

    def _row_count(self, table: int) -> int:
        count: int = self._library.scanner_row_count(self._scanner, table)
        return count

    def _part(self, table: int, columns: Sequence[tuple[str, int]], first_event_id: int, texts: Any) -> pa.Table:
        count = self._row_count(table)
        part: dict[str, Any] = {}
        for at, (name, kind) in enumerate(columns):
            if name.endswith("_ns") and name.endswith("_double_ns") != self._by_doubles:
                continue
            part[name.replace("_double_ns", "_ns")] = self._values(table, at, kind, count)
        part["event_id"] = _shifted(part["event_id"], first_event_id)
        if "args" in part:
            part["args"] = _as_json(texts.take(part["args"]) if count else texts.slice(0, 0))
        if "id2" in part:
            part["id2"] = _as_json(part["id2"].dictionary_decode())
        return pa.table(part)

    def _typed_work(self, events: pa.Table) -> pa.Table:
        columns: dict[str, Any] = {
            name: events.column(name) for name in ("event_id", "category", "name", "start_ns", "dur_ns")
        }
        for at, (name, kind) in enumerate(_WORK_COLUMNS, len(_GPU_COLUMNS)):
            columns[name] = self._values(_GPU, at, kind, len(events))
        return pa.table(columns)

    def _values(self, table: int, at: int, kind: int, count: int) -> Any:
        if kind in _TYPES:
            values = self._column(table, at, _TYPES[kind], count)
            return values.cast(pa.bool_()) if kind == _TRUTH else values
        codes = self._column(table, at, pa.int32(), count)
        known = {_CLASS: _CLASSES, _CATEGORY: self._categories, _PHASE: _PHASES}
        if kind in known:
            meanings = pa.array(known[kind], pa.string())
        else:
            library, column = self._library, (self._scanner, table, at)
            meanings = self._texts(
                library.scanner_text_count(*column),
                library.scanner_text_offsets(*column),
                library.scanner_text_bytes(*column),
            )
        return pa.DictionaryArray.from_arrays(codes, meanings, safe=False)

    def _column(self, table: int, at: int, kind: pa.DataType, count: int) -> Any:
        if not count:
            return pa.array([], kind)
        column = (self._scanner, table, at)
        data = pa.foreign_buffer(self._library.scanner_data(*column), count * kind.bit_width // 8, self)
        valid = pa.foreign_buffer(self._library.scanner_valid(*column), (count + 7) // 8, self)
        return pa.Array.from_buffers(kind, count, [valid, data])

    def _texts(self, count: int, offsets: int, content: int) -> Any:
        if not count:
            return pa.array([], pa.string())
        places = pa.foreign_buffer(offsets, (count + 1) * 4, self)
        size = int(np.frombuffer(memoryview(places), np.int32)[-1])
        return pa.Array.from_buffers(pa.string(), count, [None, places, pa.foreign_buffer(content, size, self)])


def _without(places: NDArray[np.intp], rows: pa.Table) -> pa.Table:
    """Return the other rows, in the memory of all: texts are long, and few are left out, most of them in a row."""
    bounds = np.array([-1, *places, len(rows)])
    sizes = zip((bounds[:-1] + 1).tolist(), (np.diff(bounds) - 1).tolist(), strict=True)
    return pa.concat_tables([rows.slice(0, 0), *(rows.slice(first, size) for first, size in sizes if size)])


def _shifted(ids: Any, first_id: int) -> Any:
    return pa.array(np.asarray(ids) + first_id, pa.int64())


def _as_json(texts: Any) -> Any:
    """Return texts of the type that DuckDB takes for JSON, where PyArrow has it."""
    return pa.ExtensionArray.from_storage(pa.json_(pa.string()), texts) if hasattr(pa, "json_") else texts
