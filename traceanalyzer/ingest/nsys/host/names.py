"""The names of slices: strings by id, and for ranges of PyTorch the text before their numbers."""

from __future__ import annotations

from typing import Any, cast

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.host.torch_ranges import TorchRanges, take_apart
from traceanalyzer.ingest.nsys.masks import Column

_OPERATOR = "cpu_op"
_WITH_NULLS = pc.DictionaryEncodeOptions("encode")
_TYPES: tuple[pa.DataType, ...] = (pa.string(), pa.string(), pa.bool_())


class SliceNamer:
    """Completes sorted slices, which carry an id or a text; few strings name millions of them, and are kept."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        # The string of each id so far, the kind of synchronisation that it names, and whether it records an event.
        self._strings: dict[int | None, tuple[Any, ...]] = {None: (None, None, False)}

    def complete(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return slices with their final category and what their names say, in place of ids and texts."""
        name, sync_kind, records_event = self._look_up(rows.column("name_id"))
        texts = rows.column("text")
        name = cast("Column", pc.call_function("coalesce", [texts, name]))
        columns = {column: rows.column(column) for column in rows.schema.names if column not in ("name_id", "text")}
        columns |= {"name": name, "sync_kind": sync_kind, "records_event": records_event}
        torch = None if texts.null_count == len(texts) else take_apart(texts)
        if torch is None:
            columns |= {column: pa.nulls(len(rows), pa.int64()) for column in ("sequence", "external_id")}
            columns |= {column: pa.nulls(len(rows), pa.string()) for column in ("input_shapes", "args")}
        else:
            columns |= as_operators(torch, columns["category"], name)
        return pa.RecordBatch.from_pydict(columns)

    def _look_up(self, ids: Column) -> list[Column]:
        """Return what the strings of some ids say, row by row."""
        different, places = coded(cast("Column", pc.call_function("dictionary_encode", [ids], _WITH_NULLS)))
        self._learn([string_id for string_id in different if string_id not in self._strings])
        columns = zip(*(self._strings[string_id] for string_id in different), strict=True)
        rows = pa.array(places)
        return [
            cast("Column", pa.array(list(values), kind).take(rows))
            for values, kind in zip(columns, _TYPES, strict=True)
        ]

    def _learn(self, string_ids: list[int]) -> None:
        if not string_ids:
            return
        self._strings |= dict.fromkeys(string_ids, self._strings[None])
        query = "SELECT id, value, sync_kind, records_event FROM strings WHERE id IN (SELECT unnest($ids))"
        for string_id, *texts in self._connection.execute(query, {"ids": string_ids}).fetchall():
            self._strings[string_id] = tuple(texts)


def coded(column: Column) -> tuple[list[Any], npt.NDArray[np.integer[Any]]]:
    """Return the different values of a dictionary-encoded column, and the place of each row's among them."""
    encoded = cast(Any, column)
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)


def as_operators(torch: TorchRanges, category: Column, name: Column) -> dict[str, Column]:
    """Return the columns in which PyTorch's ranges differ from others."""
    is_torch = np.zeros(len(name), np.bool_)
    is_torch[torch.rows] = True
    is_operator = np.zeros(len(name), np.bool_)
    is_operator[torch.rows] = torch.is_operator
    mask, none = pa.array(is_torch), pa.nulls(len(name), pa.string())
    categories, places = coded(category)
    codes = places.copy()
    codes[is_operator] = categories.index(_OPERATOR)
    return {
        "category": cast("Column", pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(categories))),
        "name": pc.replace_with_mask(name, mask, torch.name),
        "sequence": _spread(torch.sequence, is_torch),
        "external_id": _spread(torch.op_id, is_torch),
        "input_shapes": pc.replace_with_mask(
            none, pa.array(is_operator), torch.shapes.filter(pa.array(torch.is_operator))
        ),
        "args": pc.replace_with_mask(none, mask, torch.args),
    }


def _spread(numbers: Int, mask: npt.NDArray[np.bool_]) -> Column:
    """Return numbers in the rows of a mask; NULL elsewhere and where there is NONE."""
    spread = np.full(len(mask), NONE, np.int64)
    spread[mask] = numbers
    return pa.array(spread, mask=spread == NONE)
