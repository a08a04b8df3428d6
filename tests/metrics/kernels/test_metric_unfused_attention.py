"""unfused_attention: matmul, softmax, matmul on one stream."""

from __future__ import annotations

import pytest
from text_tables import ask, connect

#  stream 7   [gemm][scale][softmax][gemm][gemm]
SOFTMAX = 3


def blocks(name: str) -> list[tuple[object, ...]]:
    """Return (op_id, block_id) of the kernels of every block around a softmax kernel of this name."""
    classes = ["gemm", "elementwise", "softmax", "gemm", "gemm"]
    kernels = [
        {"op_id": i, "stream": 7, "start_ns": 10 * i, "class": kind, "name": name if i == SOFTMAX else kind}
        for i, kind in enumerate(classes, start=1)
    ]
    rows: list[tuple[object, ...]] = ask(
        connect(kernel_class=kernels), "SELECT op_id, block_id FROM unfused_attention ORDER BY op_id"
    )
    return rows


@pytest.mark.parametrize(
    "name",
    [
        "cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16, SoftMaxForwardEpilogue>",
        "void softmax_warp_forward<c10::Half, c10::Half, float, 9, false, false>(c10::Half*, int)",
        "void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)0, (bool)0>(float *, int)",
    ],
)
def test_without_operators_the_order_of_kernels_shows_the_block(name: str) -> None:
    assert blocks(name) == [(1, 3), (2, 3), (3, 3), (4, 3)]


@pytest.mark.parametrize(
    "name",
    [
        "cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>",
        "void softmax_warp_forward<float, float, float, 10, true, false>(float*, int)",
        "void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)1, (bool)0>(float *, int)",
    ],
)
def test_the_softmax_of_a_loss_is_no_attention(name: str) -> None:
    assert blocks(name) == []
