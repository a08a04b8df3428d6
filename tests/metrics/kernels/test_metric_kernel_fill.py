"""kernel_fill: how much of the device a kernel's grid can fill."""

from __future__ import annotations

import pytest
from text_tables import ask, connect

DEVICES = """
device  sm_count
0       100
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("grid", "block", "filled_share"),
    [
        ((1, 1, 1), (1, 1, 1), 1 / 128 / 100),
        ((10, 5, 1), (16, 16, 1), 0.5),
        ((100, 1, 1), (32, 1, 1), 0.25),
        ((10, 10, 10), (1024, 1, 1), 10.0),
    ],
)
def test_blocks_of_fewer_threads_than_an_sm_has_lanes_fill_a_part_of_it(
    grid: tuple[int, int, int], block: tuple[int, int, int], filled_share: float
) -> None:
    sizes = {f"grid_{axis}": size for axis, size in zip("xyz", grid, strict=True)}
    sizes |= {f"block_{axis}": size for axis, size in zip("xyz", block, strict=True)}
    rows = ask(connect(devices=DEVICES, gpu_ops=[{"op_id": 1, "kind": "kernel", **sizes}]), "FROM kernel_fill")
    assert [row[-1] for row in rows] == [pytest.approx(filled_share)]


def test_kernels_of_unknown_grid_collectives_and_copies_are_not_listed() -> None:
    ops = """
    op_id  kind    is_comm  grid_x  grid_y  grid_z  block_x  block_y  block_z
    1      kernel  false    -       -       -       -        -        -
    2      kernel  true     1       1       1       128      1        1
    3      memcpy  false    1       1       1       128      1        1
    4      kernel  false    1       1       1       128      1        1
    """
    assert ask(connect(devices=DEVICES, gpu_ops=ops), "SELECT op_id, filled_share FROM kernel_fill") == [(4, 0.01)]


def test_a_device_of_unknown_size_has_no_shares() -> None:
    ops = [{"op_id": 1, "kind": "kernel", **{f"{side}_{axis}": 1 for side in ("grid", "block") for axis in "xyz"}}]
    assert ask(connect(devices=[{"device": 0, "sm_count": None}], gpu_ops=ops), "FROM kernel_fill") == []
