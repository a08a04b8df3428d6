"""kernels_beside_comm: equal kernels, alone and while a collective runs."""

from __future__ import annotations

from text_tables import ask, connect

COLUMNS = "op_id, beside_share, alone_ns, alone_count, beside_count, slowdown, is_apart"
QUERY = f"SELECT {COLUMNS} FROM kernels_beside_comm ORDER BY op_id"


def test_kernels_are_compared_with_equal_ones_that_run_alone() -> None:
    #  add   |-1-|     |--2---|    |---3--|
    #  nccl        |--------9--------|
    ops = """
    op_id  kind    is_comm  stream  name                                  start_ns  dur_ns  grid_x  block_x
    1      kernel  false    7       elementwise_kernel                    0         100     64      128
    2      kernel  false    7       elementwise_kernel                    300       150     64      128
    3      kernel  false    7       elementwise_kernel                    500       140     64      128
    4      kernel  false    7       elementwise_kernel                    460       20      65      128
    9      kernel  true     24      ncclDevKernel_AllReduce_Sum_f32_RING  200       405     16      512
    """
    windows = [{"start_ns": 0, "end_ns": 1000, "window_ns": 1000}]
    found = ask(connect(gpu_ops=ops, windows=windows), QUERY)
    assert found == [(2, 1.0, 100.0, 1, 1, 1.5, True), (3, 0.75, 100.0, 1, 1, 1.5, True)]


def test_matrix_products_without_shapes_are_not_compared() -> None:
    ops = """
    op_id  kind    is_comm  stream  name                                  start_ns  dur_ns  grid_x
    1      kernel  false    7       ampere_bf16_s16816gemm                0         100     64
    2      kernel  false    7       ampere_bf16_s16816gemm                300       150     64
    9      kernel  true     24      ncclDevKernel_AllReduce_Sum_f32_RING  200       400     16
    """
    assert ask(connect(gpu_ops=ops, windows=[{"start_ns": 0, "end_ns": 1000, "window_ns": 1000}]), QUERY) == []
