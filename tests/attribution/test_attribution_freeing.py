"""Giving memory back waits for the device: who comes earlier waits longer, and faster kernels let it return earlier."""

from __future__ import annotations

import pytest
from drawn_timeline import Drawn

from traceanalyzer.attribution.replay.bounds import Bounds

# host    |L|  Python  |== cudaFree ====|L|
# device   |======= 90 ==========|        |= 91 =|
SLICES = """
id thread category name             start end
1  0      runtime  cudaLaunchKernel 0     5
2  0      python   train.py         5     100
3  0      runtime  cudaFree         100   240
4  0      runtime  cudaLaunchKernel 240   245
"""
OPS = "id stream kind start end launch\n90 7 kernel 10 210 1\n91 7 kernel 250 300 4"


def bound(*removed: str, savings: dict[int, int] | None = None, slices: str = SLICES, ops: str = OPS) -> int:
    bounds = Bounds.load(Drawn.of(slices, ops).con)
    assert bounds.abstains(0, 0) is None
    return bounds.bound(0, 0, frozenset(removed), savings)


@pytest.mark.check
@pytest.mark.parametrize("call", ["cudaFree", "cudaFree_v3020", "hipFree", "cuMemFree_v2"])
def test_a_host_that_comes_earlier_only_waits_longer(call: str) -> None:
    assert bound("host.python", slices=SLICES.replace("cudaFree", call)) == 0


def test_a_faster_kernel_lets_the_memory_be_given_back_earlier() -> None:
    assert bound(savings={90: 100_000}) == pytest.approx(100_000, abs=1_000)


def test_without_it_neither_its_wait_nor_its_work_is_left() -> None:
    assert bound("host.alloc") == pytest.approx(39_000, abs=1_000)  # the second kernel follows the first


def test_what_waited_for_nothing_may_have_to_wait_for_who_comes_earlier() -> None:
    # host    |L|   Python    |Free|L|
    # device   |==== 90 ====|       |= 91 =|
    ops = OPS.replace("10 210", "10 80")
    slices = SLICES.replace("3  0      runtime  cudaFree         100   240", "3 0 runtime cudaFree 100 140").replace(
        "240   245", "140   145"
    )
    told = bound("host.python", slices=slices, ops=ops.replace("250 300", "150 200"))
    assert told == pytest.approx(20_000, abs=1_000)  # of 95: memory is given back once the first kernel is done


@pytest.mark.check
@pytest.mark.parametrize("call", ["cudaFreeAsync", "cudaFreeHost", "cudaMalloc"])
def test_calls_that_do_not_wait_let_an_earlier_host_go_on(call: str) -> None:
    assert bound("host.python", slices=SLICES.replace("cudaFree", call)) > 30_000
