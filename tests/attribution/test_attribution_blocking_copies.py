"""Copies that block the host, and the waits behind them."""

from __future__ import annotations

import pytest
from drawn_timeline import Drawn

from traceanalyzer.attribution.replay.bounds import Bounds
from tracesim import in_memory, simulate

BLOCK = "host.memcpy_block"
# The host could run ahead of the collector's pauses, were it not held by each step's copy and the wait behind it.
PAUSES = {"steps": 11, "kernels": 60, "h2d_mb": 14, "h2d_pinned": False, "gc_us": 13_000, "gc_every": 3}


def test_without_a_blocking_copy_the_wait_behind_it_holds_nothing_up() -> None:
    run = simulate(PAUSES)
    con = in_memory.connect_tables(run.canonical_tables())
    ((window_ns, first, last),) = con.sql(
        "SELECT any_value(window_ns), min(step), max(step) FROM attribution.windows JOIN attribution.steps"
        " USING (trace_id, device) WHERE kept"
    ).fetchall()
    bound_ns = Bounds.load(con).bound(0, 0, frozenset([BLOCK]))
    truth = run.true_saving_share(BLOCK, first_step=first, last_step=last + 1)
    assert truth > 0.1
    assert bound_ns / window_ns == pytest.approx(truth, abs=0.005)


@pytest.mark.check
@pytest.mark.parametrize(("returns", "cause"), [(965, BLOCK), (1_002, BLOCK), (40, "dev.h2d")])
def test_a_copy_call_that_returns_before_the_last_part_arrives_blocks(returns: int, cause: str) -> None:
    # host   [====== cudaMemcpy ======] L
    # gpu    [90] [======= copy ========] [ 91 ]      from pageable memory: staged, the last part is on its way
    drawn = Drawn.of(
        f"""
        id thread category name            start end
        1  0      runtime  cudaLaunchKernel -20  -15
        2  0      runtime  cudaMemcpy       0    {returns}
        3  0      runtime  cudaLaunchKernel {returns + 3} {returns + 8}
        """,
        """
        id stream kind   start end launch
        90 7      kernel -10   8    1
        91 7      h2d    10    1000 2
        92 7      kernel 1015  1100 3
        """,
    )
    longest = drawn.rows(
        "SELECT cause FROM attribution.ledger_rows WHERE cause IS NOT NULL ORDER BY dur_ns DESC LIMIT 1"
    )
    assert longest == [(cause,)]


@pytest.mark.check
@pytest.mark.parametrize(
    ("call", "returns", "blocks"),
    [
        ("cudaMemcpyFromSymbol_v3020", 15, True),
        ("cudaMemcpy2D", 15, True),
        ("hipMemcpyWithStream", 15, True),
        ("cuMemcpyDtoH_v2", 15, True),
        ("cudaMemcpyFromSymbol", 11, False),  # before its copy ends
        ("cudaMemcpyAsync", 15, False),  # a launch like any other: an idle device was faster
        ("cudaMemcpy2DAsync_ptsz", 15, False),
    ],
)
def test_a_short_copy_call_that_outlasts_its_copy_blocks_unless_it_is_asynchronous(
    call: str, returns: int, blocks: bool
) -> None:
    # host   L [== call ==] L
    # gpu      [90] [c]       [92]
    drawn = Drawn.of(
        f"""
        id thread category name            start end
        1  0      runtime  cudaLaunchKernel -20  -15
        2  0      runtime  {call}           0    {returns}
        3  0      runtime  cudaLaunchKernel {returns + 2} {returns + 7}
        """,
        f"""
        id stream kind   start end launch
        90 7      kernel -10   8    1
        91 7      d2h    10    12   2
        92 7      kernel {returns + 9} 100 3
        """,
    )
    waits = drawn.rows("SELECT call_id FROM host_waits")
    assert waits == ([(2,)] if blocks else [])
    causes = {cause for (cause,) in drawn.rows("SELECT cause FROM attribution.ledger_rows")}
    assert bool(causes & {"host.sync", BLOCK}) == blocks
