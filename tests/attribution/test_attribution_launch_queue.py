"""Which launch calls waited for room in the device's queue."""

from __future__ import annotations

import pytest

from traceanalyzer.attribution.replay.bounds import Bounds
from tracesim import in_memory, simulate

TRANSFER = "dev.comm_transfer"
# Each step's copy waits for the work before it, always with as many launches outstanding as there ever are.
BLOCKING = {"steps": 12, "kernels": 60, "h2d_mb": 32, "h2d_pinned": False, "comm_us": 1_000}


@pytest.mark.check
@pytest.mark.parametrize("steps", [8, 12])
def test_copies_that_block_until_they_are_done_do_not_fill_the_queue(steps: int) -> None:
    run = simulate({**BLOCKING, "steps": steps})
    con = in_memory.connect_tables(run.canonical_tables())
    ((window_ns,),) = con.sql("SELECT window_ns FROM attribution.windows").fetchall()
    bound_ns = Bounds.load(con).bound(0, 0, frozenset([TRANSFER]))
    truth = run.true_saving_share(TRANSFER, first_step=1, last_step=steps - 1)
    assert bound_ns / window_ns == pytest.approx(truth, abs=0.002)


@pytest.mark.check
def test_a_short_queue_still_shows_itself() -> None:
    run = simulate({"steps": 7, "kernels": 100, "kernel_us": 80, "queue_depth": 16, "loader_us": 3_000})
    con = in_memory.connect_tables(run.canonical_tables())
    ((window_ns,),) = con.sql("SELECT window_ns FROM attribution.windows").fetchall()
    bound_ns = Bounds.load(con).bound(0, 0, frozenset(["host.dataloader"]))
    truth = run.true_saving_share("host.dataloader", first_step=1, last_step=6)
    assert bound_ns / window_ns == pytest.approx(truth, abs=0.002)
