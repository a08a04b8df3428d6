"""Ranges of PyTorch's emit_nvtx are told from others, and taken apart as PyTorch put them together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from both_readers import need_library
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.ingest.native import READER_VARIABLE, READERS
from traceanalyzer.ingest.nsys.torch_ranges import in_plain_arrow, parts_natively, take_apart


@pytest.fixture(autouse=True, scope="module", params=READERS)
def reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Take texts apart by the library and by the pattern."""
    if request.param == "native":
        need_library()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(READER_VARIABLE, request.param)
        yield


def told(text: str) -> tuple[Any, ...] | None:
    """Return name, whether it is an operator, sequence number, id and arguments; None: not PyTorch's."""
    found = take_apart(pa.array([None, text, "step 1"]))
    if found is None or not len(found.rows):
        return None
    assert found.rows.tolist() == [1]
    args = found.args[0].as_py()
    name, is_operator = found.name[0].as_py(), bool(found.is_operator[0])
    return name, is_operator, int(found.sequence[0]), int(found.op_id[0]), args and json.loads(args)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aten::mm, seq = 3, op_id = 4", ("aten::mm", True, 3, 4, None)),
        ("aten::empty, op_id = 4", ("aten::empty", True, -1, 4, None)),
        (
            "aten::mm, op_id = 4, sizes = [[1, 2], [], [3]]",
            ("aten::mm", True, -1, 4, {"Input Dims": [[1, 2], [], [3]]}),
        ),
        (
            "autograd::engine::evaluate_function: MmBackward0, seq = 7, op_id = 9",
            ("autograd::engine::evaluate_function: MmBackward0", True, 7, 9, None),
        ),
        ("Optimizer.step#AdamW.step, op_id = 8", ("Optimizer.step#AdamW.step", False, -1, 8, None)),
        ("nccl:all_to_all, op_id = 991698", ("nccl:all_to_all", False, -1, 991698, None)),
        ("blocks.1.attn.forward, op_id = 3", ("blocks.1.attn.forward", False, -1, 3, None)),
        # Without an op_id, as before PyTorch 1.11.
        ("aten::mm, seq = 3, sizes = [[1, 2]]", ("aten::mm", True, 3, -1, {"Input Dims": [[1, 2]]})),
        ("MmBackward, seq = 3", ("MmBackward", True, 3, -1, None)),
        # record_function keeps what its name says.
        ("batch, step = 3, op_id = 4", ("batch, step = 3", True, -1, 4, None)),
        ("epoch, op_id = 3 of 9, op_id = 4", ("epoch, op_id = 3 of 9", True, -1, 4, None)),
    ],
)
def test_a_range_of_pytorch_is_taken_apart(text: str, expected: tuple[Any, ...]) -> None:
    assert told(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "forward",
        "batch, seq = 128",
        "batch, seq = 128, sizes = [[1, 2]]",
        "aten::mm, op_id = x",
        "aten::mm, op_id = 4 again",
        "aten::mm, op_id=4",
        "resize, sizes = [1, 2]",
        ", op_id = 4",
        "aten::mm, op_id = 4, sizes = [[1, 2",
        "tokens, seq = 12345678901234567890",
    ],
)
def test_a_name_that_only_looks_alike_is_left_as_it_is(text: str) -> None:
    assert told(text) is None


PIECES = (
    *(", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = ", "[", "]", "[[", "]]", "[[1, 2], [3]]", "[], ", "]]"),
    *("[(1,0), (2,1)]", "(", ")", "-", ",", ", ", " ", "7", "123456789012345678", "aten::mm", "é", "\n", "\0", "x"),
)


@examples(300)
@given(st.lists(st.none() | st.lists(st.sampled_from(PIECES), max_size=9).map("".join)), st.integers(0, 3))
def test_the_library_finds_what_the_pattern_finds(texts: list[str | None], first: int) -> None:
    need_library()
    column = pa.array(texts, pa.string()).slice(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(READER_VARIABLE, "native")
        found, expected = parts_natively(column), in_plain_arrow(column)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert [list(part) for part in found] == [list(part) for part in expected]


shapes = st.lists(st.lists(st.integers(-1, 2**40), max_size=4), min_size=1, max_size=5)
inputs = st.lists(st.tuples(st.integers(1, 2**40), st.integers(-1, 9)), max_size=4)


@pytest.mark.check
@examples(100)
@given(st.text(min_size=1), st.none() | st.integers(0, 2**50), st.integers(1, 2**50), st.none() | shapes, inputs)
def test_what_pytorch_writes_comes_back_whatever_the_name(
    name: str, sequence: int | None, op_id: int, sizes: list[list[int]] | None, ids: list[tuple[int, int]]
) -> None:
    text = name if sequence is None else f"{name}, seq = {sequence}"
    text += f", op_id = {op_id}"
    expected: dict[str, Any] = {}
    if sizes is not None:
        text += f", sizes = {sizes}"
        expected["Input Dims"] = sizes
        if ids:
            text += f", input_op_ids = [{', '.join(f'({source},{output})' for source, output in ids)}]"
            expected["input_op_ids"] = [list(pair) for pair in ids]
    found = told(text)
    assert found is not None
    assert found[0] == name
    assert found[2:] == (-1 if sequence is None else sequence, op_id, expected or None)
