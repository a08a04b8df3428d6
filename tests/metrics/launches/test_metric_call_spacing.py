"""call_spacing: how far apart runtime calls usually are."""

from __future__ import annotations

from text_tables import ask, connect

QUERY = "SELECT call_count, median_ns FROM call_spacing"


def test_spacing_is_from_start_to_start_and_one_pause_does_not_change_it() -> None:
    calls = """
    slice_id  category  name              start_ns  dur_ns
    1         runtime   cudaLaunchKernel  0         4
    2         driver    cuLaunchKernel    10        4
    3         runtime   cudaLaunchKernel  20        4
    4         cpu_op    aten::mul         21        1
    5         runtime   cudaLaunchKernel  9000      4
    """
    assert ask(connect(host_slices=calls), QUERY) == [(4, 10.0)]


def test_a_single_call_has_no_spacing() -> None:
    calls = """
    slice_id  category  name              start_ns  dur_ns
    1         runtime   cudaLaunchKernel  0         4
    """
    assert ask(connect(host_slices=calls), QUERY) == [(1, None)]
