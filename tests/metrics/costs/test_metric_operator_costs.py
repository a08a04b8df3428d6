"""operator_costs and what builds on it: formulas by hand, and against loops that count every product."""

from __future__ import annotations

import itertools
import json
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import ask, connect
from tiers import examples

READER = "SELECT * FROM operator_costs JOIN operator_floors USING (slice_id) JOIN op_owners USING (op_id)"


def call(
    name: str,
    dims: list[Any],
    types: list[str] | None = None,
    concrete: list[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return one operator call as the tables hold it: the slice, and its arguments under `args`."""
    args = {"Input type": ["float"] * len(dims) if types is None else types}
    if concrete is not None:
        args["Concrete Inputs"] = concrete
    return {
        "category": "cpu_op",
        "name": name,
        "input_shapes": json.dumps(dims),
        "args": json.dumps(args),
    } | more


def costs(*calls: dict[str, Any], columns: str = "flops, size_bytes, reason") -> list[tuple[Any, ...]]:
    """Return columns of operator_costs for calls one after the other, in their order."""
    slices, args = [], []
    for number, one in enumerate(calls, 1):
        row = {"slice_id": number, "thread_id": 0, "start_ns": number * 100, "dur_ns": 50, "depth": 0} | one
        args.append({"event_id": row["slice_id"], "args": row.pop("args")})
        slices.append(row)
    con = connect("FROM operator_costs", host_slices=slices, event_args=args)
    return ask(con, f"SELECT {columns} FROM operator_costs ORDER BY slice_id")


def test_a_product_takes_two_operations_a_pair_and_moves_three_matrices() -> None:
    assert costs(
        call("aten::mm", [[3, 5], [5, 7]]),
        call("aten::bmm", [[2, 3, 5], [2, 5, 7]], ["c10::Half", "c10::Half"]),
        call("aten::addmm", [[7], [3, 5], [5, 7], [], []], concrete=["", "", "", "1", "1"]),
        call("aten::addmm", [[7], [3, 5], [5, 7], [], []], concrete=["", "", "", "0", "1"]),
    ) == [
        (2 * 3 * 5 * 7, 4 * (15 + 35 + 21), None),
        (2 * 2 * 3 * 5 * 7, 2 * 2 * (15 + 35 + 21), None),
        (2 * 3 * 5 * 7, 4 * (15 + 35 + 21 + 7), None),
        (2 * 3 * 5 * 7, 4 * (15 + 35 + 21), None),
    ]


def test_types_and_options_count_in_every_spelling() -> None:
    options = ["", "", "", "{0}2, 2{1}", "{0}1,1{1}", "{0}1,1{1}", "False", "{0}0,0{1}", "1"]
    for types, brackets in (
        (["c10::BFloat16"] * 2, "[]"),
        (["c10::bfloat16"] * 2, "[]"),
        (["BFloat16"] * 2, "()"),
        (["Half"] * 2, "()"),
    ):
        concrete = [option.format(*brackets) for option in options]
        # Each of 8 x 8 outputs of 5 channels is a dot product over 3 x 3 positions of 4 channels.
        assert costs(call("aten::convolution", [[1, 4, 16, 16], [5, 4, 3, 3]], types, concrete)) == [
            (2 * 5 * 64 * 36, 2 * (4 * 256 + 5 * 36 + 5 * 64), None)
        ]
    (row,) = costs(call("aten::mm", [[3, 5], [5, 7]], ["Float", "Float"]), columns="element_type, size_bytes")
    assert row == ("float", 4 * (15 + 35 + 21))


def test_attention_of_aiter_has_the_places_of_the_flash_attn_package() -> None:
    dims = [[2, 6, 3, 4]] * 3 + [[]] * 7
    concrete = ["", "", "", "0.", "0.5", "True", "-1", "0", "False", "False"]
    types = ["c10::BFloat16"] * 3 + ["Scalar"] * 7
    for name in ("aiter::_flash_attn_forward", "aiter::mha_fwd", "aiter::fmha_v3_fwd"):
        # 2 sequences of 3 heads; of 6 queries the first sees one key, the last all six.
        assert costs(call(name, dims, types, concrete), columns="flops, reason") == [(2 * 6 * 21 * 8, None)]
        (row,) = costs(call(name, dims[:3], types[:3]), columns="flops, flops_unmasked, reason")
        assert row == (None, 2 * 6 * 36 * 8, "mask not recorded")


def test_unknown_arguments_are_unknown_and_not_zero() -> None:
    assert costs(
        call("aten::mm", [[3, 5], [6, 7]]),
        call("aten::mm", [[3, 5], [5, 7]], ["", ""]),
        call("aten::mm", [], None, input_shapes=None),
        call("aten::mm", [[9 * 10**18, 9 * 10**18], [9 * 10**18, 9 * 10**18]]),
        call("aten::sum", [[10, 1000], [], []], ["float", "", ""]),
    ) == [
        (None, None, "unknown arguments"),
        (210, None, "no types"),
        (None, None, "no arguments"),
        (None, None, "unknown arguments"),
        (0, None, "unknown arguments"),
    ]


def test_products_of_sparse_tensors_are_unknown() -> None:
    # torch.sparse.mm calls addmm with the dense shape of the sparse operand, which has no strides.
    dims: list[Any] = [[64, 32], [64, 64], [64, 32], [], []]
    types = ["float", "float", "float", "Scalar", "Scalar"]
    given = {"Input type": types, "Concrete Inputs": ["", "", "", "0", "1"]}
    rows = costs(
        *(
            call("aten::addmm", dims) | {"args": json.dumps(given | {"Input Strides": [[32, 1], lhs, [32, 1], [], []]})}
            for lhs in ([], [64, 1])
        )
    )
    assert rows == [(None, None, "unknown arguments"), (2 * 64 * 64 * 32, 4 * (64 * 64 + 2 * 64 * 32), None)]


def test_only_the_outermost_of_nested_operators_counts() -> None:
    dims = [[3, 5], [5, 7]]
    rows = costs(
        call("aten::addmm", [[7], *dims], start_ns=0, dur_ns=100),
        call("aten::mm", dims, start_ns=10, dur_ns=20),
        call("aten::mm", dims, start_ns=200, dur_ns=20),
        columns="operator, flops",
    )
    assert rows == [("aten::addmm", 210), ("aten::mm", 210)]


def test_the_gradients_of_a_convolution_count_as_its_mask_says() -> None:
    dims: list[Any] = [[2, 4, 5, 5], [2, 3, 5, 5], [4, 3, 3, 3], *([[]] * 8)]
    types = ["float", "float", "float"] + [""] * 8
    concrete = ["", "", "", "[4]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
    forward = 2 * (2 * 4 * 5 * 5) * (3 * 3 * 3)
    gradient, x, weight = 4 * 200, 4 * 150, 4 * 108
    masks = ["[True, True, True]", "[False, True, False]"]
    rows = costs(*(call("aten::convolution_backward", dims, types, [*concrete, mask]) for mask in masks))
    assert rows == [
        (2 * forward, gradient + 2 * (x + weight) + 4 * 4, None),
        (forward, gradient + x + weight, None),
    ]


def test_a_convolution_without_options_has_the_shape_of_its_gradient() -> None:
    dims = [[2, 3, 8, 8], [4, 3, 3, 3], [4]]
    rows = costs(
        call("aten::convolution", dims, sequence=5),
        call("CudnnConvolutionBackward", [[2, 4, 3, 3]], sequence=5, forward_thread=1),
        columns="flops, size_bytes",
    )
    assert rows == [(2 * (2 * 4 * 3 * 3) * (3 * 3 * 3), 4 * (2 * 3 * 64 + 108 + 72 + 4))]


def test_a_convolution_counts_once_whether_traced_by_torchscript_or_not() -> None:
    dims: list[Any] = [[2, 8, 14, 14], [8, 4, 3, 3], [8], *([[]] * 6)]
    types = ["float"] * 3 + [""] * 6
    concrete = ["", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "2"]
    more = ["False", "False", "True", "True"]
    inner = call("aten::_convolution", dims + [[]] * 4, types + [""] * 4, concrete + more)
    rows = costs(
        inner | {"start_ns": 0, "dur_ns": 40},
        call("aten::convolution", dims, types, concrete, start_ns=100, dur_ns=40),
        inner | {"start_ns": 110, "dur_ns": 20},
        columns="operator, flops",
    )
    flops = 2 * (2 * 8 * 6 * 6) * (4 * 3 * 3)
    assert rows == [("aten::_convolution", flops), ("aten::convolution", flops)]


def test_a_convolution_that_shares_its_number_with_one_that_has_a_gradient_keeps_its_own_shape() -> None:
    # Forward operators without gradients have the number that the next one with a gradient takes.
    dims: list[Any] = [[2, 3, 8, 8], [4, 3, 3, 3], *([[]] * 7)]
    types = ["float", "float", *([""] * 7)]
    strides = [["", "", "", f"[{n}, {n}]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"] for n in (1, 2)]
    node = call("ConvolutionBackward0", [[2, 4, 3, 3]], sequence=5, forward_thread=1)
    rows = costs(*(call("aten::convolution", dims, types, one, sequence=5) for one in strides), node, columns="flops")
    assert rows == [(2 * 2 * 4 * size * size * 27,) for size in (6, 3)]
    without = [call("aten::convolution", [x, dims[1]], sequence=5) for x in ([2, 3, 9, 9], [2, 3, 8, 8])]
    assert costs(*without, node, columns="flops, reason") == [(None, "unknown arguments"), (2 * 2 * 4 * 9 * 27, None)]


def test_a_causal_mask_of_flash_attention_ends_in_the_lower_right_corner() -> None:
    # Two queries and five keys: the first query sees four of them, or one where the mask starts in the upper left.
    dims: list[Any] = [[1, 1, 2, 8], [1, 1, 5, 8], [1, 1, 5, 8]]
    rest = ["", "", "", "0.", "True", "False", ""]
    back = ["", "", "", "", "", "", "", "", "2", "5", "0.", "True"]
    half = ["c10::Half"] * 3
    rows = costs(
        call("aten::_scaled_dot_product_flash_attention", dims + [[]] * 4, half + [""] * 4, rest),
        call(
            "aten::_scaled_dot_product_flash_attention_backward",
            [dims[0], *dims, dims[0], *([[]] * 7)],
            ["c10::Half"] * 5 + [""] * 7,
            back,
        ),
        call(
            "aten::_scaled_dot_product_cudnn_attention",
            dims + [[]] * 4,
            half + [""] * 4,
            ["", "", "", "", "True", "0.", "True"],
        ),
        call(
            "aten::_scaled_dot_product_fused_attention_overrideable_backward",
            [dims[0], *dims, *([[]] * 10)],
            ["c10::Half"] * 4 + [""] * 10,
            [""] * 12 + ["0.", "True"],
        ),
        columns="flops",
    )
    assert rows == [(2 * 9 * 16,), (2 * 9 * 40,), (2 * 3 * 16,), (2 * 3 * 40,)]


def test_products_of_groups_of_packed_numbers_and_of_another_type_of_result() -> None:
    rows = costs(
        # 2 groups of tokens with a matrix each; the gradient of these matrices; the groups as a dimension.
        call("aten::_grouped_mm", [[6, 5], [2, 5, 7], [2]], ["c10::BFloat16", "c10::BFloat16", "int"]),
        call("aten::_grouped_mm", [[5, 6], [6, 7], [2]], ["c10::BFloat16", "c10::BFloat16", "int"]),
        call("aten::_grouped_mm", [[2, 3, 5], [2, 5, 7]], ["c10::BFloat16", "c10::BFloat16"]),
        # 4 bits a number, two in an element; bfloat16 (15) as result.
        call(
            "aten::_scaled_mm",
            [[4, 16], [16, 8], *([[]] * 6)],
            ["c10::Float4_e2m1fn_x2"] * 2 + [""] * 6,
            ["", "", "", "", "", "", "15", "False"],
        ),
        # With lists of scales, a bias, and bfloat16 as result.
        call(
            "aten::_scaled_mm_v2",
            [[4, 16], [16, 8], [[1]], [], [], [[1]], [], [], [8], [], [], []],
            ["c10::Float8_e4m3fn"] * 2 + ["TensorList", "", "", "TensorList", "", "", "c10::BFloat16", "", "", ""],
            [""] * 9 + ["15", "[]", "False"],
        ),
        call("aten::baddbmm_", [[2, 4, 6], [2, 4, 5], [2, 5, 6], [], []], concrete=["", "", "", "0.5", "1"]),
        # FP32 (6) as result.
        call("aten::mm", [[4, 16], [16, 8], []], ["c10::Half", "c10::Half", "Scalar"], ["", "", "6"]),
    )
    assert rows == [
        (2 * 6 * 5 * 7, 2 * (30 + 70 + 42), None),
        (2 * 6 * 5 * 7, 2 * (30 + 42 + 2 * 35), None),
        (2 * 6 * 5 * 7, 2 * (30 + 70 + 42), None),
        (2 * 4 * 32 * 8, 64 + 128 + 2 * 32, None),
        (2 * 4 * 16 * 8, 64 + 128 + 2 * (8 + 32), None),
        (2 * 2 * 4 * 5 * 6, 4 * (40 + 60 + 2 * 48), None),
        (2 * 4 * 16 * 8, 2 * (64 + 128) + 4 * 32, None),
    ]


def test_a_causal_mask_counts_its_pairs_and_not_half_of_all() -> None:
    dims: list[Any] = [[1, 8, 128, 64]] * 3 + [[], [], [], []]
    types = ["c10::Half"] * 3 + [""] * 4
    rows = costs(
        *(
            call("aten::_scaled_dot_product_flash_attention", dims, types, ["", "", "", "0.", mask, "False", ""])
            for mask in ("True", "False")
        ),
        call("aten::_scaled_dot_product_flash_attention", dims, types),
        columns="flops, flops_unmasked, size_bytes, reason",
    )
    all_pairs, masked = 8 * 128 * 128, 8 * 128 * 129 // 2
    tensors = 4 * 8 * 128 * 64 * 2
    assert rows == [
        (4 * 64 * masked, 4 * 64 * all_pairs, tensors, None),
        (4 * 64 * all_pairs, 4 * 64 * all_pairs, tensors, None),
        (None, 4 * 64 * all_pairs, tensors, "mask not recorded"),
    ]


def varlen(q: list[int], k: list[int], ends: int, longest: list[str], mask: list[str], **more: Any) -> dict[str, Any]:
    """Return a call of the flash-attn package with sequences one after the other."""
    dims: list[Any] = [q, k, k, [ends], [ends], [], [], [], [], []]
    types = ["c10::Half"] * 3 + ["int"] * 2 + ["Scalar"] * 5 + [""] * (len(mask) - 1)
    concrete = ["", "", "", "", "", *longest, "0.", "0.125", *mask]
    return call("flash_attn::_flash_attn_varlen_forward", dims + [[]] * (len(mask) - 1), types, concrete, **more)


def test_sequences_of_equal_length_are_known_and_others_are_not() -> None:
    q, k = [3 * 10, 8, 64], [3 * 16, 2, 64]
    size = 2 * (2 * 30 * 8 * 64 + 2 * 48 * 2 * 64)
    unmasked, masked = 3 * 8 * 10 * 16, 3 * 8 * (10 * 16 - 10 * 9 // 2)
    rows = costs(
        varlen(q, k, 4, ["10", "16"], ["False", "-1", "-1"]),
        varlen(q, k, 4, ["10", "16"], ["True", "-1", "-1"]),
        varlen(q, k, 4, ["10", "16"], ["True", "4", "0"]),
        varlen(q, k, 4, ["12", "16"], ["True", "-1", "-1"]),
        varlen(q, [200, 16, 2, 64], 4, ["10", "16"], ["True", "-1", "-1"]),
        columns="flops, flops_unmasked, size_bytes, reason",
    )
    assert rows == [
        (4 * 64 * unmasked, 4 * 64 * unmasked, size, None),
        (4 * 64 * masked, 4 * 64 * unmasked, size, None),
        (None, 4 * 64 * unmasked, size, "mask not recorded"),
        (None, None, size, "lengths not recorded"),
        (None, None, None, "unknown arguments"),
    ]


def test_attention_below_pytorchs_wrapper_has_its_own_places() -> None:
    x: list[Any] = [2, 10, 8, 64]
    half = ["c10::Half"] * 3
    flash = ["", "", "", "", "", "10", "10", "0.", "True", "False", "0.125", "-1", "-1"]
    efficient = ["", "", "", "", "", "", "10", "10", "0.", "1", "True", "", "", ""]
    rows = costs(
        call("aten::_flash_attention_forward", [x] * 3 + [[]] * 10, half + [""] * 10, flash),
        call("aten::_flash_attention_forward", [x] * 3 + [[]] * 10, half + [""] * 10, [*flash[:11], "4", "0"]),
        call("aten::_efficient_attention_forward", [x] * 3 + [[]] * 11, half + [""] * 11, efficient),
        call(
            "aten::_efficient_attention_forward",
            [[1, 20, 8, 64]] * 3 + [[], [3], [3]] + [[]] * 8,
            [*half, "", "int", "int", *[""] * 8],
            efficient,
        ),
        call("vllm::unified_attention_with_output", [[20, 8, 64]] * 4, ["c10::Half"] * 4),
        columns="flops, reason",
    )
    masked = 4 * 64 * 2 * 8 * 55
    assert rows == [
        (masked, None),
        (None, "mask not recorded"),
        (masked, None),
        (masked, None),
        (None, "lengths not recorded"),
    ]


def test_a_sum_over_a_dimension_leaves_the_others() -> None:
    types = ["float", "ScalarList", "Scalar", ""]
    dims: list[Any] = [[10, 1000], [], [], []]
    rows = costs(
        call("aten::sum", dims, types, ["", "[0]", "True", ""]),
        call("aten::sum", dims, types, ["", "[-1]", "True", ""]),
        call("aten::sum", dims, types, ["", "", "", ""]),
        columns="size_bytes",
    )
    assert rows == [(4 * (10_000 + 1000),), (4 * (10_000 + 10),), (4 * 10_001,)]


def test_a_tensor_that_was_given_to_write_to_counts_once() -> None:
    numbers: list[Any] = [[10, 1000], [], [], [10, 1000]]
    types = ["float", "Scalar", "Scalar", "float"]
    rows = costs(
        call("aten::_softmax", numbers, types, ["", "1", "False", ""]),
        call(
            "aten::sum",
            [[10, 1000], [], [], [], [1, 1000]],
            ["float", "ScalarList", "Scalar", "", "float"],
            ["", "[0]", "True", "", ""],
        ),
        call(
            "aten::index_select",
            [[10, 1000], [], [4], [4, 1000]],
            ["float", "Scalar", "long int", "float"],
            ["", "0", "", ""],
        ),
        columns="size_bytes",
    )
    assert rows == [(2 * 40_000,), (44_000,), (2 * 16_000 + 32,)]


def test_a_result_has_the_type_that_pytorch_promotes_to() -> None:
    inputs = [
        (([4, 3], "c10::BFloat16"), ([3], "float")),
        (([4], "c10::BFloat16"), ([4], "c10::Half")),
        (([4], "c10::BFloat16"), ([], "float")),
        (([4], "int"), ([], "double")),
        (([4], "c10::BFloat16"), ([], "Scalar")),
    ]
    calls = (call("aten::add", [d for d, _ in pair], [t for _, t in pair]) for pair in inputs)
    assert costs(*calls, columns="size_bytes") == [
        (24 + 12 + 48,),
        (8 + 8 + 16,),
        (8 + 4 + 8,),
        (16 + 8 + 16,),
        (8 + 8,),
    ]


def test_operators_of_serving_read_and_write_what_their_arguments_say() -> None:
    half, tokens, width = "c10::BFloat16", 10, 64
    x: list[Any] = [tokens, width]
    assert costs(
        call("aiter::add_rmsnorm", [x, x, x, x, [width], []], [half] * 5 + ["Scalar"]),
        call("_C::fused_add_rms_norm", [x, x, [width], []], [half] * 3 + ["Scalar"]),
        call("sgl_kernel::silu_and_mul", [[tokens, 32], x], [half] * 2),
        # Two query heads and one key head of 32 elements, of which the first 8 are turned.
        call(
            "_C::rotary_embedding",
            [[tokens], x, [tokens, 32], [], [1000, 8], []],
            ["long int", half, half, "Scalar", half, "Scalar"],
            ["", "", "", "32", "", "True"],
        ),
        # Nine tokens have a slot in a cache of bytes.
        call(
            "_C_cache_ops::reshape_and_cache_flash",
            [[tokens, 2, 32], [tokens, 2, 32], [500, 16, 2, 32], [500, 16, 2, 32], [9], [], [], []],
            [half, half, "unsigned char", "unsigned char", "long int", "", "float", "float"],
        ),
        columns="size_bytes",
    ) == [
        (2 * (5 * tokens * width - tokens * width) + 2 * width,),
        (2 * 4 * tokens * width + 2 * width,),
        (2 * (tokens * 32 + tokens * width),),
        (8 * tokens + 2 * 8 * tokens + 2 * 2 * tokens * 3 * 8,),
        (8 * 9 + 2 * 9 * 64 * (2 + 1),),
    ]


def test_gradients_of_a_batch_norm_need_its_input_and_not_its_statistics() -> None:
    dims: list[Any] = [[2, 3, 4, 4], [2, 3, 4, 4], [3], [3], [3], [3], [3], [], [0]]
    types = ["float"] * 7 + ["Double", "unsigned char"]
    assert costs(call("aten::cudnn_batch_norm_backward", dims, types), columns="size_bytes") == [
        (4 * (3 * 96 + 3 * 3),)
    ]


def test_what_arguments_do_not_say_has_no_bytes() -> None:
    image: list[Any] = [[1, 1, 9, 9], [], [], [], [], []]
    types = ["float"] + ["ScalarList"] * 4 + ["Scalar"]
    rows = costs(
        call("aten::max_pool2d_with_indices", image, types, ["", "[3, 3]", "[2, 2]", "[0, 0]", "[1, 1]", "True"]),
        call("aten::max_pool2d_with_indices", image, types),
        call("aten::native_dropout", [[8], [], []], ["float", "Scalar", "Scalar"], ["", "0.5", "False"]),
        call("aten::fill_", [[8], []], ["c10::SomethingNew", "Scalar"]),
        call("aten::copy_", [[8], [8], []], ["float", "c10::SomethingNew", "Scalar"]),
        call("aten::var", [[8, 4], [], [], []], ["float", "ScalarList", "Scalar", "Scalar"]),
        call("aten::native_layer_norm_backward", [[8, 4], [8, 4], [], [8, 1], [8, 1], [4], [4], []]),
        columns="size_bytes, reason",
    )
    assert rows == [(None, "unknown arguments")] * 7


def test_integers_times_a_number_that_was_not_recorded_may_become_real() -> None:
    rows = costs(
        call("aten::mul", [[8], []], ["long int", "Scalar"]),
        call("aten::mul", [[8], []], ["long int", "Scalar"], ["", "2"]),
        call("aten::mul", [[8], []], ["float", "Scalar"]),
        call("aten::mul_", [[8], []], ["long int", "Scalar"]),
        call("aten::div", [[8], []], ["long int", "Scalar"]),
        call("aten::eq", [[8], []], ["long int", "Scalar"]),
        columns="size_bytes, reason",
    )
    assert rows == [
        (None, "unknown arguments"),
        (64 + 64, None),
        (32 + 32, None),
        (64 + 64, None),
        (64 + 32, None),
        (64 + 8, None),
    ]


def test_what_is_expanded_is_stored_once() -> None:
    expanded = call("aten::add", [[8, 4], [8, 4]])
    expanded["args"] = json.dumps({"Input type": ["float", "float"], "Input Strides": [[0, 1], [4, 1]]})
    assert costs(expanded, columns="size_bytes, stored_bytes") == [(4 * 96, 4 * 68)]


def test_forward_operators_of_the_backward_pass_are_recomputed() -> None:
    dims: list[Any] = [[7], [3, 5], [5, 7]]
    nothing = {"args": None, "input_shapes": None}
    rows = costs(
        call("autograd::engine::evaluate_function: CheckpointBackward", [], start_ns=0, dur_ns=90) | nothing,
        call("aten::linear", [], start_ns=10, dur_ns=30) | nothing,
        call("aten::addmm", dims, start_ns=12, dur_ns=5),
        call("aten::mm", dims[1:], start_ns=50, dur_ns=5),
        call("aten::linear", [], start_ns=110, dur_ns=30) | nothing,
        call("aten::addmm", dims, start_ns=112, dur_ns=5),
        columns="is_recomputed, flops, model_flops",
    )
    assert rows == [(True, 210, 0), (False, 210, 210), (False, 210, 210)]


def test_torchscript_recomputes_nothing() -> None:
    dims: list[Any] = [[7], [3, 5], [5, 7]]
    nothing = {"args": None, "input_shapes": None}
    node = "autograd::engine::evaluate_function: torch::jit::(anonymous namespace)::DifferentiableGraphBackward"
    rows = costs(
        call(node, [], start_ns=0, dur_ns=90) | nothing,
        call("aten::linear", [], start_ns=10, dur_ns=30) | nothing,
        call("aten::addmm", dims, start_ns=12, dur_ns=5),
        columns="is_recomputed",
    )
    assert rows == [(False,)]


def on_device(ops: str, **traces: Any) -> duckdb.DuckDBPyConnection:
    """Return a connection with one bf16 product of 4096 x 4096 matrices, which launches these operations on an H100."""
    dims = [[4096, 4096], [4096, 4096]]
    return connect(
        READER,
        devices=[{"device": 0, "name": "NVIDIA H100 80GB HBM3", "sm_count": 132}],
        host_slices=[
            {"slice_id": 1, "thread_id": 3, "start_ns": 0, "dur_ns": 40, "category": "cpu_op", "name": "aten::mm"}
            | {"input_shapes": json.dumps(dims), "depth": 0},
            {"slice_id": 2, "thread_id": 3, "start_ns": 10, "dur_ns": 9, "category": "runtime", "parent_id": 1}
            | {"name": "cudaLaunchKernel", "op_id": 1, "depth": 1, "module_id": 7},
        ],
        event_args=[{"event_id": 1, "args": json.dumps({"Input type": ["c10::BFloat16"] * 2})}],
        gpu_ops=ops,
    )


@pytest.mark.check
def test_time_of_a_call_is_the_union_and_its_floor_comes_from_the_data_sheet() -> None:
    #      |---100---|            kernel
    #           |---100---|       kernel
    #                     |20|    memset
    con = on_device("""
        op_id  kind    start_ns  dur_ns  launch_id  cpu_op_id  name
        4      kernel  100       100000  2          1          gemm
        5      kernel  50100     100000  2          1          gemm
        6      memset  150100    20000   2          1          memset
    """)
    flops = 2 * 4096**3
    columns = "op_count, op_sum_ns, kernel_sum_ns, dur_ns"
    assert ask(con, f"SELECT {columns} FROM operator_costs") == [(3, 220_000, 200_000, 170_000)]
    floor = flops / 989 / 1000
    assert ask(con, "SELECT precision, floor_ns, roof, headroom_ns, status, limited_by FROM operator_floors") == [
        ("half", pytest.approx(floor), "compute", pytest.approx(170_000 - floor), "plausible", "compute")
    ]


@pytest.mark.check
def test_work_without_a_modelled_operator_is_covered_by_other_metrics_or_by_none() -> None:
    names = {1: "record_param_comms", 2: "triton_poi_fused_add_0", 3: "aten::index", 4: "aten::mm"}
    con = connect(
        "FROM cost_coverage FROM operator_costs",
        host_slices=[
            {"slice_id": at, "start_ns": 100 * at, "dur_ns": 50, "category": "cpu_op", "name": name}
            | {"input_shapes": "[[4, 4], [4, 4]]", "depth": 0}
            for at, name in names.items()
        ],
        event_args=[{"event_id": 4, "args": json.dumps({"Input type": ["float"] * 2})}],
        gpu_ops="""
        op_id  kind    start_ns  dur_ns  launch_id  cpu_op_id  is_comm  name
        1      kernel  1000      400     -          1          true     ncclDevKernel_AllReduce_Sum
        2      kernel  2000      300     -          2          false    triton_poi_fused_add_0
        3      kernel  3000      200     -          3          false    index_kernel
        4      kernel  4000      100     -          4          false    gemm
        """,
    )
    assert ask(con, "SELECT status, op_sum_ns FROM cost_coverage") == [
        ("communication", 400),
        ("compiled code", 300),
        ("no model", 200),
        ("modelled", 100),
    ]


def test_a_batch_norm_may_have_no_weight_whatever_its_mode() -> None:
    dims: list[Any] = [[2, 3, 4, 4], [], [], [3], [3], [], [], []]
    types = ["float", "", "", "float", "float", "Scalar", "Scalar", "Scalar"]
    concrete = ["", "", "", "", "", "False", "0.1", "1e-05"]
    weight: list[Any] = [[2, 3, 4, 4], [3], [3], [3], [3], [], [], []]
    rows = costs(
        call("aten::native_batch_norm", dims, types, concrete),
        call("aten::native_batch_norm", weight, ["float"] * 5 + ["Scalar"] * 3, concrete),
        columns="size_bytes",
    )
    assert rows == [(4 * 2 * 96,), (4 * (2 * 96 + 2 * 3),)]


def test_kernels_that_kernel_class_calls_tf32_have_the_peak_of_tf32() -> None:
    names = ["nvjet_sm90_sss_128x128_h_bz_TNT", "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n", "ampere_sgemm_128x64_nn"]
    con = connect(
        "FROM operator_costs FROM kernel_class",
        host_slices=[
            {"slice_id": at, "start_ns": 100 * at, "dur_ns": 50, "category": "cpu_op", "name": "aten::mm"}
            | {"input_shapes": "[[4, 4], [4, 4]]", "depth": 0}
            for at in range(3)
        ],
        gpu_ops=[
            {"op_id": at, "kind": "kernel", "start_ns": 1000 * (at + 1), "dur_ns": 100, "cpu_op_id": at, "name": name}
            for at, name in enumerate(names)
        ],
    )
    assert ask(con, "SELECT uses_tf32 FROM operator_costs ORDER BY slice_id") == [(True,), (True,), (False,)]
    assert ask(con, "SELECT precision FROM kernel_class ORDER BY op_id") == [("tf32",), ("tf32",), ("fp32",)]


def test_rows_in_memory_decide_what_is_aligned() -> None:
    # A vocabulary of 50257 and 1001 tokens, 768 elements each: result, gradient of the tokens, and of the weight.
    products: dict[int, tuple[Any, Any]] = {
        1: ([[1001, 768], [768, 50257]], [[768, 1], [1, 768]]),
        2: ([[1001, 50257], [50257, 768]], [[50257, 1], [768, 1]]),
        3: ([[50257, 1001], [1001, 768]], [[1, 50257], [768, 1]]),
        # The gradient of another weight: no row is as long as there are tokens.
        4: ([[2304, 1001], [1001, 768]], [[1, 2304], [768, 1]]),
        5: ([[2304, 1001], [1001, 768]], None),
        # The first 50257 of 50304 columns.
        6: ([[1001, 50257], [50257, 768]], [[50304, 1], [768, 1]]),
    }
    con = connect(
        "FROM matrix_products",
        host_slices=[
            {"slice_id": at, "start_ns": 100 * at, "dur_ns": 50, "category": "cpu_op", "name": "aten::mm"}
            | {"input_shapes": json.dumps(dims), "depth": 0}
            for at, (dims, _) in products.items()
        ],
        event_args=[
            {"event_id": at, "args": json.dumps({"Input Strides": strides} if strides else {})}
            for at, (_, strides) in products.items()
        ],
        gpu_ops=[
            {"op_id": at, "kind": "kernel", "start_ns": 1000 * at, "dur_ns": 100, "cpu_op_id": at}
            | {"name": "nvjet_tst_128x128_64x4_1x2_h_bz_TNT"}
            for at in products
        ],
    )
    rows = ask(con, "SELECT op_id, is_aligned FROM matrix_products ORDER BY op_id")
    assert rows == [(1, False), (2, False), (3, False), (4, True), (5, False), (6, True)]


@pytest.mark.check
def test_faster_than_the_data_sheet_is_suspect_and_not_clipped() -> None:
    con = on_device("""
        op_id  kind    start_ns  dur_ns  launch_id  cpu_op_id  name
        4      kernel  100       1000    2          1          gemm
    """)
    ((headroom, status),) = ask(con, "SELECT headroom_ns, status FROM operator_floors")
    assert headroom < 0
    assert status == "suspect"


def test_owners_of_an_operation_are_what_encloses_its_launch() -> None:
    con = on_device("""
        op_id  kind    start_ns  dur_ns  launch_id  cpu_op_id  name
        4      kernel  100       1000    2          1          gemm
        5      kernel  2000      1000    -          -          lost
    """)
    columns = "op_id, thread_id, at_id, operator_id, outer_operator_id, module_id, is_backward"
    assert ask(con, f"SELECT {columns} FROM op_owners ORDER BY op_id") == [
        (4, 3, 2, 1, 1, 7, False),
        (5, None, None, None, None, None, False),
    ]


def test_a_backward_operation_belongs_to_the_module_of_its_forward_operator() -> None:
    con = connect(
        READER,
        host_slices="""
        slice_id  thread_id  start_ns  dur_ns  category  name  depth  op_id  module_id  sequence  forward_thread
        1  0  0  50  python  nn.Module: Net_0  0  -  -  -  -
        2  0  5  20  cpu_op  aten::mm  1  -  1  4  -
        3  1  100  40  cpu_op  MmBackward0  0  -  -  4  1
        4  1  105  20  cpu_op  aten::mm  1  3  -  -  -
        5  1  106  5  runtime  cudaLaunchKernel  2  4  -  -  -
        """,
        gpu_ops="""
        op_id  start_ns  dur_ns  launch_id  cpu_op_id
        9      200       10      5          4
        """,
    )
    columns = "operator_id, outer_operator_id, autograd_id, forward_id, module_id, is_backward"
    assert ask(con, f"SELECT {columns} FROM op_owners") == [(4, 3, 3, 2, 1, True)]


def counted_convolution(x: int, w: int, stride: int, padding: int, dilation: int) -> tuple[int, int]:
    """Return output length and products of a convolution in one dimension, by trying every position.

    Products with padding count: kernels make them.
    """
    positions = [
        start
        for start in range(-padding, x + padding)
        if start + dilation * (w - 1) < x + padding and (start + padding) % stride == 0
    ]
    return len(positions), len(positions) * w


@pytest.mark.check
@given(
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 3),
)
@examples()
def test_convolutions_agree_with_counted_products(
    x: int, w: int, stride: int, padding: int, dilation: int, in_channels: int, groups: int
) -> None:
    length, products = counted_convolution(x, w, stride, padding, dilation)
    if length == 0:
        return
    dims: list[Any] = [[2, in_channels * groups, x], [4 * groups, in_channels, w], [], [], [], [], [], [], []]
    concrete = ["", "", "", f"[{stride}]", f"[{padding}]", f"[{dilation}]", "False", "[0]", str(groups)]
    ((flops, size, _),) = costs(call("aten::convolution", dims, ["float", "float"] + [""] * 7, concrete))
    assert flops == 2 * 2 * (4 * groups) * in_channels * products
    assert size == 4 * (2 * in_channels * groups * x + 4 * groups * in_channels * w + 2 * 4 * groups * length)


# What stands between the values and the mask.
BEFORE_MASK = {
    "flash_attn::_flash_attn_forward": ["0.", "1."],
    "aten::_scaled_dot_product_flash_attention": ["0."],
    "aten::_scaled_dot_product_efficient_attention": ["", "True", "0."],
    "aten::_scaled_dot_product_fused_attention_overrideable": ["", "0."],
}


@pytest.mark.check
@given(st.integers(1, 9), st.integers(1, 9), st.booleans(), st.sampled_from(sorted(BEFORE_MASK)))
@examples()
def test_attention_agrees_with_counted_pairs(queries: int, keys: int, causal: bool, name: str) -> None:
    offset = keys - queries if "flash" in name else 0
    pairs = sum(not causal or key <= query + offset for query, key in itertools.product(range(queries), range(keys)))
    shapes = [[2, 3, queries, 4], [2, 3, keys, 4], [2, 3, keys, 5]]
    if name.startswith("flash_attn"):
        shapes = [[b, s, h, d] for b, h, s, d in shapes]
    concrete = ["", "", "", *BEFORE_MASK[name], str(causal)]
    dims: list[Any] = [*shapes, *([[]] * (len(concrete) - 3))]
    ((flops,),) = costs(call(name, dims, ["float"] * 3 + [""] * (len(concrete) - 3), concrete), columns="flops")
    assert flops == 2 * 2 * 3 * pairs * (4 + 5)


@pytest.mark.check
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=4), st.booleans())
@examples()
def test_sequences_one_after_the_other_agree_with_counted_pairs_or_abstain(
    lengths: list[tuple[int, int]], causal: bool
) -> None:
    queries, keys = zip(*lengths, strict=True)
    pairs = sum(
        not causal or key <= query + k - q for q, k in lengths for query, key in itertools.product(range(q), range(k))
    )
    mask = [str(causal), "-1", "-1"]
    one = varlen([sum(queries), 3, 4], [sum(keys), 1, 4], len(lengths) + 1, [str(max(queries)), str(max(keys))], mask)
    ((flops, size),) = costs(one, columns="flops, size_bytes")
    assert flops == (2 * 3 * pairs * 8 if len(set(lengths)) == 1 else None)
    assert size == 2 * 4 * (2 * 3 * sum(queries) + 2 * sum(keys))


@pytest.mark.check
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=12))
@examples()
def test_nested_calls_agree_with_a_search_for_enclosing_ones(spans: list[tuple[int, int]]) -> None:
    """An outermost call is one that no other call covers; of equal ones the first is it."""
    calls = [call("aten::mm", [[3, 5], [5, 7]], start_ns=start, dur_ns=dur) for start, dur in spans]
    ordered = sorted(range(len(spans)), key=lambda at: (spans[at][0], -spans[at][1], at))
    outermost = [
        at + 1
        for place, at in enumerate(ordered)
        if not any(
            sum(spans[other]) >= sum(spans[at]) and sum(spans[other]) > spans[at][0] for other in ordered[:place]
        )
    ]
    assert costs(*calls, columns="slice_id") == [(number,) for number in sorted(outermost)]
