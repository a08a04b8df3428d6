"""Tables of an SQLite database read from its pages by a library in C (`native/pages.h`), in a tenth of the time that
SQLite takes, where they are as any tool writes them; SQLite reads the others.
"""

from __future__ import annotations

import ctypes
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from traceanalyzer.ingest.native import native_library
from traceanalyzer.ingest.nsys.masks import Column
from traceanalyzer.ingest.nsys.tables import TableLayout

# Page size, bytes left free in each page, number of pages, and encoding, out of the file's header.
_HEADER = struct.Struct(">16xH2xB7xI24xI40x")
_UTF_8 = 1
_INTEGER, _REAL, _BYTES, _ROW_ID, _NOTHING = range(5)
_TYPES: dict[int, pa.DataType] = {_INTEGER: pa.int64(), _REAL: pa.float64(), _BYTES: pa.binary(), _ROW_ID: pa.int64()}
_FIELDS = "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?) ORDER BY cid"
# With an index SQLite may find the columns there, in another order.
_ROOT = """
SELECT rootpage, sql
FROM sqlite_master
WHERE type = 'table' AND name = ? AND NOT EXISTS (
    SELECT 1
    FROM sqlite_master AS other
    WHERE other.type = 'index' AND lower(other.tbl_name) = lower(sqlite_master.name)
)
"""


@dataclass(frozen=True)
class StoredTable:
    """Where the rows of a table begin, and what is read of each field of them."""

    root: int
    kinds: Sequence[int]
    places: Sequence[int]  # the field of each column that is read


def stored_table(connection: sqlite3.Connection, layout: TableLayout, columns: Sequence[str]) -> StoredTable | None:
    """Return what to read for some columns; None where the table is not as tools write it."""
    try:
        fields = connection.execute(_FIELDS, (layout.stored_name,)).fetchall()
        roots = connection.execute(_ROOT, (layout.stored_name,)).fetchall()
    except sqlite3.DatabaseError:
        return None
    # A row that lacks the last fields, whose values are defaults, is found when it is read.
    if len(roots) != 1 or any(hidden for *_, hidden in fields):
        return None
    ((root, text),) = roots
    names = [name.decode("utf-8", "replace") for name, *_ in fields]
    types = {column.name: column.type for column in layout.table.columns}
    kinds, places = [_NOTHING] * len(fields), []
    keys = sum(key > 0 for _, _, key, _ in fields)
    for column in columns:
        place = names.index(layout.stored[column])
        declared, key = fields[place][1].upper(), fields[place][2]
        if key and (keys > 1 or declared != b"INTEGER" or b"DESC" in text.upper() or types[column] != "int"):
            return None
        is_real = b"INT" not in declared and any(word in declared for word in (b"REAL", b"FLOA", b"DOUB"))
        if (types[column] == "real" and not is_real) or (types[column] == "int" and is_real):
            return None
        kinds[place] = _ROW_ID if key else {"int": _INTEGER, "real": _REAL}.get(types[column], _BYTES)
        places.append(place)
    return StoredTable(root, kinds, places) if len(set(places)) == len(places) else None


def page_batches(
    path: Path, table: StoredTable, columns: Sequence[str], longest: int, most_rows: int, batch_rows: int
) -> Iterator[pa.RecordBatch | None]:
    """Yield rows in the order of the file, and None in the place of the first batch that is not as expected.

    `longest` is how many bytes are read of a text.
    """
    library = native_library()
    size = path.stat().st_size
    with path.open("rb") as file:
        page_size, spare, page_count, encoding = _HEADER.unpack(file.read(_HEADER.size).ljust(_HEADER.size, b"\0"))
        page_size = 65_536 if page_size == 1 else page_size
        is_plain = 512 <= page_size and page_size & (page_size - 1) == 0 and page_size - spare >= 480
        if library is None or not is_plain or encoding != _UTF_8 or size != page_count * page_size:
            yield None
            return
        kinds = (ctypes.c_int * len(table.kinds))(*table.kinds)
        head = (file.fileno(), page_size, page_size - spare, page_count, table.root, longest)
        pages = library.pages_new(*head, len(kinds), kinds)
        if not pages:
            raise MemoryError
        try:
            while most_rows > 0:
                batch = _read(library, pages, table, columns, min(batch_rows, most_rows))
                if batch is not None and not batch.num_rows:
                    return
                yield batch
                most_rows -= batch.num_rows if batch is not None else most_rows
        finally:
            library.pages_free(pages)


def _read(
    library: ctypes.CDLL, pages: int, table: StoredTable, columns: Sequence[str], most: int
) -> pa.RecordBatch | None:
    values = {place: np.empty(most + 1, np.int64) for place in table.places}
    valid = {place: np.zeros((most + 7) // 8, np.uint8) for place in table.places}
    pointers = ctypes.c_void_p * len(table.kinds)
    ends = [
        pointers(*(arrays[place].ctypes.data if place in arrays else None for place in range(len(table.kinds))))
        for arrays in (values, valid)
    ]
    count: int = library.pages_read(pages, most, *ends)
    if count < 0:
        return None
    arrays: list[Column] = []
    for place in table.places:
        kind, numbers = table.kinds[place], pa.py_buffer(values[place].data)
        if kind == _BYTES:
            size = library.pages_byte_count(pages, place)
            content = ctypes.string_at(library.pages_bytes(pages, place), size) if size else b""
            arrays.append(pa.Array.from_buffers(pa.binary(), count, [None, numbers, pa.py_buffer(content)]))
            continue
        bits = pa.py_buffer(valid[place].data) if library.pages_null_count(pages, place) else None
        arrays.append(pa.Array.from_buffers(_TYPES[kind], count, [bits, numbers]))
    return pa.RecordBatch.from_arrays(arrays, list(columns))
