"""The names of slices: strings by id, and for ranges of PyTorch the text before their numbers.

Ranges of PyTorch's emit_nvtx: the operator's name, and the values that it appends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.masks import Column, Mask, both, count, either, filled, where

# As getNvtxStr of torch/csrc/profiler/util.cpp puts it together; each part may be absent, and nothing follows.
_RANGE = (
    r"(?s)^(?P<name>.+?)"
    r"(?:, seq = (?P<sequence>\d{1,18}))?"
    r"(?:, op_id = (?P<op_id>\d{1,18}))?"
    r"(?:, sizes = (?P<sizes>\[(?:\[[-\d, ]*\](?:, )?)*\]))?"
    r"(?:, input_op_ids = (?P<inputs>\[[-\d(), ]*\]))?$"
)
_PARTS = (", op_id = ", ", seq = ", ", sizes = ")
# Before PyTorch 1.11 there was no op_id, and a user's own range may say ", seq = 12" too: there only the name can show
# it.
_OPERATOR_NAME = r"^\w[\w.]*::\w+$|Backward\d*$|^torch::autograd::"
# Names by which users and wrappers of modules draw ranges, which the profiler calls annotations too.
_DRAWN_NAME = (
    r"^(FSDP::|nccl:|gloo:|ucc:|mpi:|## |Optimizer\.|ProfilerStep#|enumerate\()|^[\w:.]+(\.forward|\.rate_limiter)$"
)


@dataclass(frozen=True)
class TorchRanges:
    """The texts among some that PyTorch wrote: where they stand, and what each says; numbers are NONE where unsaid."""

    rows: Int
    name: Column
    is_operator: npt.NDArray[np.bool_]
    sequence: Int
    op_id: Int
    shapes: Column  # of the inputs, a JSON list; NULL: unsaid
    args: Column  # JSON, under the names that PyTorch's profiler gives an operator's arguments; NULL: none


def take_apart(texts: Column) -> TorchRanges | None:
    """Find the ranges that PyTorch wrote and return their parts; None where there is none."""
    likely = _contains(texts, _PARTS[0])
    for part in _PARTS[1:]:
        likely = either(likely, _contains(texts, part))
    if not count(likely):
        return None
    found = pc.extract_regex(texts.filter(likely), _RANGE)
    name, sequence, op_id, sizes, inputs = (
        cast("Column", pc.struct_field(found, part)) for part in ("name", "sequence", "op_id", "sizes", "inputs")
    )
    is_operator = either(filled(op_id), both(either(filled(sequence), filled(sizes)), _matches(name, _OPERATOR_NAME)))
    name = name.filter(is_operator)
    return TorchRanges(
        np.flatnonzero(_flags(likely))[_flags(is_operator)],
        name,
        ~_flags(_matches(name, _DRAWN_NAME)),
        _numbers(sequence.filter(is_operator)),
        _numbers(op_id.filter(is_operator)),
        _or_null(pc.replace_substring(sizes.filter(is_operator), " ", "")),
        _arguments(sizes.filter(is_operator), inputs.filter(is_operator)),
    )


def _contains(texts: Column, part: str) -> Mask:
    return cast("Mask", pc.coalesce(pc.match_substring(texts, part), pa.scalar(False)))


def _matches(texts: Column, pattern: str) -> Mask:
    return cast("Mask", pc.coalesce(pc.match_substring_regex(texts, pattern), pa.scalar(False)))


def _flags(mask: Mask) -> npt.NDArray[np.bool_]:
    return mask.to_numpy(zero_copy_only=False)


def _numbers(digits: Column) -> Int:
    """Return numbers of their digits, NONE where there are none."""
    return where(filled(digits), digits, pa.scalar(str(NONE))).cast(pa.int64()).to_numpy()


def _arguments(sizes: Column, inputs: Column) -> Column:
    """Return the shapes as PyTorch's profiler writes them, and which operators' outputs the inputs are.

    Other than there, the tensors of a list stand among the other inputs.
    """
    pairs = pc.replace_substring(pc.replace_substring(inputs, "(", "["), ")", "]")
    ending = where(filled(pairs), _joined(',"input_op_ids":', pairs, "}"), pa.scalar("}"))
    return where(filled(sizes), _joined('{"Input Dims":', sizes, ending), pa.scalar(None, pa.string()))


def _or_null(texts: Column) -> Column:
    return where(filled(texts), texts, pa.scalar(None, pa.string()))


def _joined(first: str, middle: Column, last: Column | str) -> Column:
    parts = (pa.scalar(first), middle, pa.scalar(last) if isinstance(last, str) else last)
    return cast("Column", pc.call_function("binary_join_element_wise", [*parts, pa.scalar("")]))


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
