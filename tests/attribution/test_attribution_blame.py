"""A row of the ledger names what a person would: the slice that holds most of it, and what lies around that."""

from __future__ import annotations

import pytest
from drawn_timeline import Drawn

KERNELS = """
id stream kind   start end launch
90 7      kernel 10    100 1
91 7      kernel {0}   {1} 2
"""
LATE_BLAME = "SELECT blame_name FROM attribution.ledger_rows WHERE cause = '{0}' ORDER BY dur_ns DESC LIMIT 1"


@pytest.mark.check
def test_a_long_wait_is_blamed_on_what_holds_most_of_it() -> None:
    # host  L.[ loader: [op][op][op][op][op] ].L      the longest operator is a sixth of it
    ops = "\n".join(f"{10 + i} 0 cpu_op aten::cat {10 + 65 * i} {70 + 65 * i}" for i in range(6))
    drawn = Drawn.of(
        f"""
        id thread category   name                                   start end
        1  0      runtime    cudaLaunchKernel                       0     5
        3  0      annotation enumerate(DataLoader)#_Single.__next__ 5     395
        {ops}
        2  0      runtime    cudaLaunchKernel                       395   400
        """,
        KERNELS.format(405, 500),
    )
    assert drawn.rows(LATE_BLAME.format("host.dataloader")) == [("enumerate(DataLoader)#_Single.__next__",)]


@pytest.mark.check
def test_of_frames_inside_each_other_the_innermost_one_that_holds_most_is_to_blame() -> None:
    # train( step( log( fmt write fmt write ) ) )
    inner = "\n".join(f"{10 + i} 0 python {'fmt' if i % 2 else 'write'} {50 + 50 * i} {95 + 50 * i}" for i in range(6))
    drawn = Drawn.of(
        f"""
        id thread category name              start end
        5  0      python   train             -5    600
        6  0      python   step              -4    500
        1  0      runtime  cudaLaunchKernel  0     5
        3  0      python   log               40    370
        {inner}
        2  0      runtime  cudaLaunchKernel  395   400
        """,
        KERNELS.format(405, 500),
    )
    assert drawn.rows(LATE_BLAME.format("host.python")) == [("log",)]


def test_of_operators_beside_each_other_the_largest_with_all_it_calls_is_to_blame() -> None:
    drawn = Drawn.of(
        """
        id thread category name             start end
        1  0      runtime  cudaLaunchKernel 0     5
        3  0      cpu_op   aten::linear     10    90
        4  0      cpu_op   aten::norm       110   205
        5  0      cpu_op   aten::mean       115   155
        6  0      cpu_op   aten::var        160   200
        7  0      cpu_op   aten::relu       260   345
        2  0      runtime  cudaLaunchKernel 395   400
        """,
        KERNELS.format(405, 500),
    )
    assert drawn.rows(LATE_BLAME.format("host.op")) == [("aten::norm",)]


def test_what_nothing_was_recorded_of_is_not_blamed_on_what_was() -> None:
    inner = "\n".join(f"{10 + i} 0 python frame {20 + 40 * i} {30 + 40 * i}" for i in range(8))
    drawn = Drawn.of(
        f"""
        id thread category name             start end
        1  0      runtime  cudaLaunchKernel 0     5
        {inner}
        2  0      runtime  cudaLaunchKernel 395   400
        """,
        KERNELS.format(405, 500),
    )
    assert drawn.rows(LATE_BLAME.format("host.other")) == [(None,)]


def test_blame_names_operator_annotation_and_python_line() -> None:
    drawn = Drawn.of(
        """
        id thread category   name                  start end
        1  0      runtime    cudaLaunchKernel      0     5
        6  0      python     train.py(12):~loop    6     400
        5  0      annotation validation            7     400
        4  0      cpu_op     aten::item            8     390
        3  0      runtime    cudaStreamSynchronize 9     104
        7  0      python     train.py(13):~more    105   380
        2  0      runtime    cudaLaunchKernel      392   396
        """,
        KERNELS.format(400, 500),
    )
    worst = drawn.rows(
        "SELECT bucket, blame_name, blame_op, blame_annotation, blame_python FROM ledger_rows "
        "WHERE bucket <> 'compute' ORDER BY dur_ns DESC LIMIT 2"
    )
    assert worst == [
        ("host.python", "train.py(13): more", "aten::item", "validation", "train.py(13): more"),
        ("host.sync", "cudaStreamSynchronize", "aten::item", "validation", "train.py(12): loop"),
    ]
