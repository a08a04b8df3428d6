"""host_waits: calls that return only after the device has finished something."""

from __future__ import annotations

import pytest
from text_tables import ask, connect

#  thread 0   [copy][======= wait =======]
CALLS = """
slice_id  thread_id  category  name                   start_ns  dur_ns  op_id
1         0          runtime   cudaMemcpyAsync_v3020  10        12      {op}
2         {thread}   runtime   {between}              23        1       -
3         0          runtime   {wait}                 24        10000   {op}
"""
COPY = """
op_id  kind    copy_kind  start_ns  dur_ns  launch_id
1      memcpy  HtoD       9000      1       1
"""
WAITS = "SELECT call_id, wait_id FROM host_waits"


def waits(
    between: str = "cudaGetDevice", wait: str = "cudaStreamSynchronize_v3020", thread: int = 1, op: str = "-"
) -> list[tuple[object, ...]]:
    """Return (call_id, wait_id) of every wait."""
    calls = CALLS.format(between=between, wait=wait, thread=thread, op=op)
    rows: list[tuple[object, ...]] = ask(connect(host_slices=calls, gpu_ops=COPY), WAITS)
    return rows


def test_without_operators_a_wait_right_after_a_copy_belongs_to_the_copy() -> None:
    assert waits() == [(3, 1)]


def test_a_wait_inside_an_operator_belongs_to_the_operator() -> None:
    assert waits(op="9") == [(3, 9)]


@pytest.mark.parametrize(
    ("between", "wait", "thread"),
    [
        ("cudaLaunchKernel", "cudaStreamSynchronize", 0),  # the host waits for the kernel, too
        ("cudaGetDevice", "cudaDeviceSynchronize", 1),  # and for all streams
        ("cudaGetDevice", "cudaEventSynchronize", 1),  # and for a place of its own in the stream
    ],
)
def test_any_other_wait_stands_for_itself(between: str, wait: str, thread: int) -> None:
    assert waits(between, wait, thread) == [(3, 3)]


def polls(asked: str, call: str = "cudaEventQuery", between: str = "") -> list[tuple[object, ...]]:
    """Return the waits of a thread that asks at some times, in µs, whether a kernel is done, which ends at 601."""
    calls = [*(f"{at}  0  runtime  {call}  {at}000  2000" for at in asked.split()), *filter(None, [between])]
    table = "\n".join(["slice_id  thread_id  category  name  start_ns  dur_ns", *calls])
    kernel = """
    op_id  kind    copy_kind  start_ns  dur_ns  launch_id
    1      kernel  -          100000    501000  -
    """
    rows: list[tuple[object, ...]] = ask(
        connect(host_slices=table, gpu_ops=kernel), "SELECT call_id, kind, start_ns, dur_ns FROM host_waits"
    )
    return rows


# thread 0   q..q..q..q..q..q
# gpu      [   kernel    ]
def test_calls_that_ask_until_work_is_done_are_one_wait() -> None:
    assert polls("120 220 320 420 520 602") == [(120, "event", 120_000, 484_000)]
    assert polls("120 220 320 420 520 602", "hipStreamQuery") == [(120, "stream", 120_000, 484_000)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("asked", "between"),
    [
        ("120 602", ""),  # asked twice
        ("603 604 605 606 700", ""),  # the work was done before
        ("120 220 320 420", ""),  # it is not done yet
        ("120 2000 4000", ""),  # the thread does something else meanwhile
        ("120 602 700", "300  0  runtime  cudaLaunchKernel  300000  2000"),  # it works between
    ],
)
def test_calls_that_ask_rarely_or_for_nothing_are_no_wait(asked: str, between: str) -> None:
    assert polls(asked, between=between) == []
