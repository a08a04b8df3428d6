"""The ranges of PyTorch's emit_nvtx: found among other texts, parsed, and turned into slices."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.native import native_library
from traceanalyzer.ingest.nesting import NONE, Int, id_column
from traceanalyzer.ingest.nsys.masks import Column, Mask, count, either, filled, where

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
# Offsets of texts have 32 bits; arguments are longer than what they are read from by less than this.
_MOST_BYTES, _SPARE_BYTES = 2**31 - 1, 64
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
    is_plain = native_library() is None or not isinstance(texts, pa.StringArray)
    parts = in_plain_arrow(texts) if is_plain else parts_natively(texts)
    if parts is None:
        return None
    rows, name, sequence, op_id, shapes, args = parts
    # Few names are those of millions of ranges.
    encoded = cast(Any, name.dictionary_encode())
    names, codes = encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False)
    is_operator = (op_id != NONE) | _flags(_matches(names, _OPERATOR_NAME))[codes]
    is_drawn = _flags(_matches(names, _DRAWN_NAME))[codes]
    if not is_operator.all():
        kept = pa.array(is_operator)
        rows, sequence, op_id, is_drawn = (array[is_operator] for array in (rows, sequence, op_id, is_drawn))
        name, shapes, args = (column.filter(kept) for column in (name, shapes, args))
    return TorchRanges(rows, name, ~is_drawn, sequence, op_id, shapes, args)


# The rows that have a part that PyTorch writes, and of each its name, sequence, op_id, shapes and arguments.
Parts = tuple[Int, Column, Int, Int, Column, Column]


def in_plain_arrow(texts: Column) -> Parts | None:
    """Find the parts of texts by the pattern; a library in C does the same where it was built (`native/ranges.h`)."""
    likely = _contains(texts, _PARTS[0])
    for part in _PARTS[1:]:
        likely = either(likely, _contains(texts, part))
    if not count(likely):
        return None
    found = pc.extract_regex(texts.filter(likely), _RANGE)
    name, sequence, op_id, sizes, inputs = (
        cast("Column", pc.struct_field(found, part)) for part in ("name", "sequence", "op_id", "sizes", "inputs")
    )
    has_parts = either(filled(op_id), either(filled(sequence), filled(sizes)))
    if not count(has_parts):
        return None
    name, sequence, op_id, sizes, inputs = (
        column.filter(has_parts) for column in (name, sequence, op_id, sizes, inputs)
    )
    return (
        np.flatnonzero(_flags(likely))[_flags(has_parts)],
        name,
        _numbers(sequence),
        _numbers(op_id),
        _or_null(pc.replace_substring(sizes, " ", "")),
        _arguments(sizes, inputs),
    )


def parts_natively(texts: Column) -> Parts | None:
    """Find the same with the library."""
    valid, offsets, content = texts.buffers()
    size = len(texts)
    if offsets is None or content is None or not size:
        return None
    places = np.frombuffer(memoryview(offsets), np.int32)[texts.offset : texts.offset + size + 1]
    length = int(places[-1] - places[0])
    library = native_library()
    if library is None or length > _MOST_BYTES - _SPARE_BYTES * size:
        return in_plain_arrow(texts)
    numbers = np.empty((3, size), np.int64)
    written = [np.empty(most, np.uint8) for most in (length, length, length + _SPARE_BYTES * size)]
    ends = np.zeros((3, size + 1), np.int32)
    pointers = ctypes.c_void_p * 3
    found = library.ranges_take_apart(
        *(size, places.ctypes.data, content.address, None if valid is None else valid.address, texts.offset),
        numbers.ctypes.data,
        pointers(*(array.ctypes.data for array in written)),
        pointers(*(row.ctypes.data for row in ends)),
    )
    if not found:
        return None
    name, shapes, args = (
        pa.StringArray.from_buffers(
            found, pa.py_buffer(row[: found + 1].tobytes()), pa.py_buffer(text[: row[found]].tobytes())
        )
        for row, text in zip(ends, written, strict=True)
    )
    rows, sequence, op_id = (row[:found] for row in numbers)
    return rows, name, sequence, op_id, _or_null(shapes), _or_null(args)


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
    return id_column(spread)
