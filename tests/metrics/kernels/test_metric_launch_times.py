"""launch_times: which launches were held up, and which kernels take as long with several times the blocks."""

from __future__ import annotations

import pytest
from text_tables import ask, connect

DEVICES = """
device  sm_count
0       80
"""


def launches(*times: tuple[int, int], name: str = "level") -> list[dict[str, object]]:
    """Return launches of a kernel by their blocks and durations in nanoseconds."""
    sizes = {"grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
    return [
        {"op_id": op_id, "kind": "kernel", "name": name, "dur_ns": dur_ns, "grid_x": blocks, **sizes}
        for op_id, (blocks, dur_ns) in enumerate(times)
    ]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("times", "held_up"),
    [
        ([(4, 9_600), (4, 2_440_700)], [1]),
        ([(4, 2_050), *((4, 34_000 + 25_000 * i) for i in range(22)), *((4, 2_050) for _ in range(60))], range(1, 23)),
        ([(4, 9_600), (4_000, 2_440_700)], []),
        ([(4, 100), (4, 100), (4, 100), (4, 9_000), (4, 9_100)], []),
        ([(4, 9_600), (4, 12_000)], []),
        ([(4, 9_600)], []),
    ],
)
def test_launches_that_take_many_times_the_usual_time_were_held_up(
    times: list[tuple[int, int]], held_up: list[int]
) -> None:
    con = connect(devices=DEVICES, gpu_ops=launches(*times))
    assert ask(con, "SELECT op_id FROM launch_times WHERE was_held_up ORDER BY op_id") == [(at,) for at in held_up]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("times", "takes_any"),
    [
        ([(1, 62_000), (9, 66_000), (73, 73_000)], True),
        ([(1, 62_000), (9, 200_000), (73, 700_000)], False),
        ([(30, 62_000), (73, 62_000)], False),
        ([(1, 62_000)], False),
        # Of a grid that does not fit at once, some blocks wait for others.
        ([(1, 62_000), (4_000, 62_000)], False),
    ],
)
def test_kernels_that_take_as_long_with_several_times_the_blocks_are_known(
    times: list[tuple[int, int]], takes_any: bool
) -> None:
    con = connect(devices=DEVICES, gpu_ops=launches(*times))
    assert ask(con, "SELECT DISTINCT takes_any_grid FROM launch_times") == [(takes_any,)]


def test_collectives_and_copies_are_not_listed() -> None:
    ops = launches((1, 10), (1, 10), (1, 10))
    ops[1] |= {"is_comm": True}
    ops[2] |= {"kind": "memcpy"}
    assert ask(connect(devices=DEVICES, gpu_ops=ops), "SELECT op_id FROM launch_times") == [(0,)]
