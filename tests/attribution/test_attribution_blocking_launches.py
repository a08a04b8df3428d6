"""Launch calls that return only when their kernel is done are a launch and a wait."""

from __future__ import annotations

from drawn_timeline import Drawn

# host   [L |=== waits ===]  py  [L |=== waits ===]       a launch in 5 us, its kernel 2 us later,
# gpu       [== kernel ==]          [== kernel ==]        and the call returns 3 us after that
PERIOD, LAUNCH, LATENCY, KERNEL, RETURN = 60, 5, 2, 30, 3


def drawn(count: int, waiting: int, copy_ends: int | None = None) -> Drawn:
    """Return so many launches of kernels, of which the first ones wait; most kernels may be held up by a copy."""
    slices, ops = ["id thread category name start end"], ["id stream kind start end launch"]
    for at in range(count):
        asked = at * PERIOD
        begins = asked + LAUNCH + LATENCY
        if copy_ends is not None and at % 10:
            ops.append(f"{2 * at + 1} 7 h2d {asked - 5} {asked + copy_ends} -")
            begins = asked + copy_ends + 1
        returns = begins + KERNEL + RETURN if at < waiting else asked + LAUNCH
        slices.append(f"{at + 1} 0 runtime cudaLaunchKernel {asked} {returns}")
        ops.append(f"{2 * at} 7 kernel {begins} {begins + KERNEL} {at + 1}")
    return Drawn.of("\n".join(slices), "\n".join(ops))


def waits(told: Drawn) -> list[tuple[int, int]]:
    """Return how often the host waits, and for how long at most."""
    return told.rows(
        "SELECT count(*), coalesce(max(removable_ns) // 1000, 0) "
        "FROM attribution.replay_events WHERE cause = 'host.sync'"
    )


def test_the_wait_begins_when_the_launch_itself_is_done() -> None:
    assert waits(drawn(count=300, waiting=300)) == [(300, LATENCY + KERNEL + RETURN)]


def test_launching_costs_no_more_than_usual_where_a_copy_holds_the_kernel_up() -> None:
    held = drawn(count=300, waiting=300, copy_ends=15)
    assert waits(held) == [(300, 15 + 1 - LAUNCH + KERNEL + RETURN)]


def test_launches_that_mostly_return_at_once_are_no_waits() -> None:
    assert waits(drawn(count=300, waiting=260)) == [(0, 0)]


def test_few_launches_that_outlast_their_kernels_are_no_mode() -> None:
    assert waits(drawn(count=199, waiting=199)) == [(0, 0)]
