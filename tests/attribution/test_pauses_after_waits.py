"""A long stretch of the program's own code is one cause, whatever call came before it."""

from __future__ import annotations

import pytest
from drawn_timeline import Drawn

US = 1_000
KERNEL_US = 57_000


def pauses(code_us: int, wait: str | None) -> Drawn:
    """Return five rounds: a kernel, a wait for it or none, and code of the program."""
    slices = ["id thread category name start end"]
    ops = ["id stream kind start end launch"]
    begin_us = 0
    for at in range(6):
        slices.append(f"{at + 1} 0 runtime cudaLaunchKernel {begin_us} {begin_us + 10}")
        ops.append(f"{at + 41} 7 kernel {begin_us + 12} {begin_us + 12 + KERNEL_US} {at + 1}")
        done_us = begin_us + KERNEL_US + 20
        if wait is not None:
            slices.append(f"{at + 21} 0 runtime {wait} {begin_us + 20} {done_us}")
        begin_us = done_us + code_us
    return Drawn.of("\n".join(slices), "\n".join(ops))


@pytest.mark.sampled
@pytest.mark.parametrize("wait", ["cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", None])
def test_code_of_the_program_is_that_after_a_wait_too(wait: str | None) -> None:
    rows = pauses(84_000, wait).rows(
        "SELECT cause, dur_ns FROM ledger_rows WHERE bucket <> 'compute' AND dur_ns > 1000000"
    )
    assert [cause for cause, _ in rows] == ["host.other"] * 5
    assert all(dur_ns == pytest.approx(84_000 * US, rel=0.001) for _, dur_ns in rows)


def test_work_around_a_launch_stays_with_the_wait_that_took_the_lead() -> None:
    rows = pauses(200, "cudaDeviceSynchronize").rows(
        "SELECT cause, sum(dur_ns) FROM ledger_rows WHERE bucket <> 'compute' GROUP BY cause ORDER BY 2 DESC"
    )
    assert rows[0][0] == "host.sync"
    assert rows[0][1] >= 5 * 200 * US


@pytest.mark.sampled
@pytest.mark.parametrize(("call", "divides"), [("putc", False), ("write", False), ("cudaLaunchKernel", True)])
def test_calls_of_the_system_do_not_divide_code_of_the_program_and_the_driver_does(call: str, divides: bool) -> None:
    """Two milliseconds of code print a letter each 0.2 ms: they are the program's, not the wait's before them."""
    drawn = ["id thread category name start end"]
    ops = ["id stream kind start end launch"]
    begin_us, category = 0, "runtime" if divides else "os"
    for at in range(6):
        done_us = begin_us + KERNEL_US + 20
        drawn.append(f"{at + 1} 0 runtime cudaLaunchKernel {begin_us} {begin_us + 10}")
        drawn.append(f"{at + 21} 0 runtime cudaDeviceSynchronize {begin_us + 20} {done_us}")
        drawn += [
            f"{100 + 10 * at + nth} 0 {category} {call} {done_us + 200 * nth} {done_us + 200 * nth + 2}"
            for nth in range(1, 10)
        ]
        ops.append(f"{at + 41} 7 kernel {begin_us + 12} {begin_us + 12 + KERNEL_US} {at + 1}")
        begin_us = done_us + 2_000
    rows = dict(
        Drawn.of("\n".join(drawn), "\n".join(ops)).rows(
            "SELECT cause, sum(dur_ns) FROM ledger_rows WHERE bucket <> 'compute' GROUP BY cause"
        )
    )
    assert (rows.get("host.sync", 0) > 5 * 1_500 * US) == divides
    assert (rows.get("host.other", 0) > 5 * 1_900 * US) != divides


def test_work_that_overtakes_what_was_launched_before_it_waits_for_the_code_before_both() -> None:
    """The kernel of stream 13 waits for its copy, so that the one launched after it runs first.

    host   L                                 C L L
    13                                         [copy][==== 93 ====]
    14     [= 90 =]                              [= 94 =]
    us     0      100                      504
    """
    found = Drawn.of(
        """
        id thread category name             start end
        1  0      runtime  cudaLaunchKernel 0     4
        3  0      runtime  cudaMemcpyAsync  504   508
        4  0      runtime  cudaLaunchKernel 508   512
        5  0      runtime  cudaLaunchKernel 512   516
        """,
        """
        id stream kind   start end launch
        90 14     kernel 6     100 1
        91 13     h2d    510   530 3
        93 13     kernel 531   600 4
        94 14     kernel 518   526 5
        """,
    )
    longest = "SELECT bucket, dur_ns FROM ledger_rows WHERE bucket <> 'compute' ORDER BY dur_ns DESC LIMIT 1"
    assert found.rows(longest) == [("host.other", pytest.approx(400 * US, rel=0.05))]
