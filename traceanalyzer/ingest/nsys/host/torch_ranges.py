"""Ranges of PyTorch's emit_nvtx: the operator's name, and the values that it appends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

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
