"""Batches from a loader's workers: what a fix saves lies between the least and the most that is told."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from bound_against_truth import Attributed, AttributedJob
from open_bounds import check_many_at_once, check_told, least_most_truth

from traceanalyzer.attribution.replay.scan import LOADER_WORKERS
from traceanalyzer.attribution.replay.what_if import Change, Faster, what_if
from tracesim import simulate, simulate_job

BASE: dict[str, Any] = {"steps": 14, "kernels": 100, "kernel_us": 80, "loader_us": 50, "item_per_step": 1}
UNEVEN = (9_000, 4_000, 31_000, 6_000, 14_000, 3_000, 22_000)
WORKERS: dict[str, dict[str, Any]] = {
    "uneven": {"loader_workers": 2, "worker_us": UNEVEN},
    "uneven, one ahead": {"loader_workers": 2, "worker_us": UNEVEN, "loader_prefetch": 1},
    "uneven, one worker": {"loader_workers": 1, "worker_us": UNEVEN},
    "uneven, one worker, one ahead": {"loader_workers": 1, "worker_us": UNEVEN, "loader_prefetch": 1},
    "uneven, many": {"loader_workers": 4, "worker_us": tuple(2 * us for us in UNEVEN)},
    "hidden": {"loader_workers": 4, "worker_us": 25_000},
    "starving": {"loader_workers": 2, "worker_us": 25_000},
}
IN_LOOP = ("uneven", "hidden")
CASES = [pytest.param(name, marks=() if name in IN_LOOP else pytest.mark.check) for name in sorted(WORKERS)]
QUESTIONS = (Change(("host.sync",)), Change(("host.python",)), Change((), (Faster("compute", 2),)))


@cache
def attributed(workers: str) -> Attributed:
    return Attributed(simulate(BASE | WORKERS[workers], seed=1))


def told(workers: str, change: Change) -> tuple[float, float, float]:
    """Return the least and the most that a change saves, and what it does, as shares of the window."""
    return least_most_truth(attributed(workers), change)


@pytest.mark.check
@pytest.mark.parametrize("change", QUESTIONS, ids=str)
@pytest.mark.parametrize("workers", CASES)
def test_what_is_true_lies_between_the_least_and_the_most(workers: str, change: Change) -> None:
    least, most, truth = told(workers, change)
    assert least - 0.01 <= max(0, truth) <= most + 0.01


@pytest.mark.check
def test_uneven_workers_leave_open_what_a_host_that_comes_earlier_saves() -> None:
    least, most, _ = told("uneven", QUESTIONS[0])
    assert most - least > 0.05


@pytest.mark.check
@pytest.mark.parametrize("change", QUESTIONS, ids=str)
def test_workers_that_cannot_keep_up_leave_nothing_to_win(change: Change) -> None:
    # But for what the batches that were ready at the window's ends make of it.
    _, most, truth = told("starving", change)
    assert most == pytest.approx(truth, abs=0.01)
    assert most < 0.05


@pytest.mark.check
@pytest.mark.parametrize("workers", CASES)
def test_batches_that_cost_nothing_need_no_workers(workers: str) -> None:
    least, most, truth = told(workers, Change(("host.dataloader",)))
    assert least == most == pytest.approx(truth, abs=0.01)


def test_a_loader_without_workers_leaves_nothing_open() -> None:
    made = Attributed(simulate(BASE | {"loader_us": UNEVEN}))
    assert made.bounds.at_worst(LOADER_WORKERS) is made.bounds


@pytest.mark.check
def test_other_ranks_may_have_to_wait_for_their_own_workers() -> None:
    # Rank 2 is late in each step; without it the others come to what their uneven workers can do.
    loader = {"loader_workers": 2, "worker_us": UNEVEN}
    late = {"rank": 2, "loader_us": 12_000, "loader_workers": 0, "worker_us": 0}
    made = AttributedJob(simulate_job(BASE | loader | {"ranks": 3, "comm_us": 500, "faults": late}))
    told = what_if(made.con, Change(("host.dataloader@2",))).run
    assert told is not None
    first, last = made.steps
    truth = made.job.true_saving({2: frozenset({"host.dataloader"})}, None, first_step=first, last_step=last)
    assert told.at_least_ns is not None
    assert told.saved_ns is not None
    assert told.at_least_ns < 0.9 * told.saved_ns
    share = truth / made.job.length_ns(first, last)
    assert told.at_least_ns / told.window_ns - 0.01 <= share <= told.saved_ns / told.window_ns + 0.01


def test_the_page_and_the_json_say_what_is_open() -> None:
    check_told(attributed("uneven"), QUESTIONS[0], LOADER_WORKERS)


def test_many_questions_at_once_are_answered_as_one_by_one() -> None:
    bounds = attributed("uneven").bounds
    for of in (bounds, bounds.at_worst(LOADER_WORKERS)):
        check_many_at_once(of)
