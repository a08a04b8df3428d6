"""Every bound comes true, and every bucket: the list of workloads against re-simulations without the cause.

tests/benchmarks/bench_bounds.py prints the same as a table.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from bound_against_truth import SEED, Attributed, attributed, attributed_job
from workloads.counterfactuals import LOCKED_WHAT_IFS, RUN_WHAT_IFS, WHAT_IFS, Question
from workloads.workloads import JOBS, LOCKED, WORKLOADS

from traceanalyzer.run import open_run
from tracesim import simulate

# The truth of removing a synchronisation leaves all of `.item()` out, its copy's launch and the shortest call included;
# the bound only what was waited. A dependency that was not recorded and never held anything up cannot be known.
ALLOWED_POINTS = 1.0
ALLOWED_MEDIAN_POINTS = 0.1
pytestmark = pytest.mark.check

# Of every kind of trouble one, and those in which bounds are furthest from the truth.
SAMPLE = frozenset(
    {
        "healthy with jitter",
        "uneven loader",
        "starving workers",
        "item every third step",
        "loader and item",
        "device syncs",
        "short queue",
        "pageable and loader",
        "copy beside with events",
        "read-back of results",
        "collective exposed in part",
        "garbage",
        "allocation",
        "many troubles",
        "decode",
        "launch-bound with item",
    }
)


# A host that waits for a collective waits for what the device waits for: the ledger says the collective, and the
# simulator's truth the call. The truth does not know what the next kernel needs.
HOST_WAITS_FOR_RANKS = {"barrier", "barrier of a late host", "ranks: gathering ahead"}
WAITS_FOR_RANKS = ("host.sync", "host.memcpy_block", "dev.comm_transfer")


@pytest.mark.parametrize("workload", WORKLOADS)
def test_bounds_and_ledger_of_a_workload_are_true(workload: str) -> None:
    made = attributed(workload)
    assert made.abstains is None
    answers = [made.answer(question) for question in WHAT_IFS if question.workload == workload]
    wrong = {a.question.name: a.error_points for a in answers if abs(a.error_points) > ALLOWED_POINTS}
    assert not wrong
    told, truth = made.ledger_shares()
    assert sum(told.values()) == pytest.approx(1, abs=1e-12)
    apart = {bucket: 100 * (told.get(bucket, 0) - truth.get(bucket, 0)) for bucket in told.keys() | truth.keys()}
    if workload in HOST_WAITS_FOR_RANKS:
        apart["waits for ranks"] = sum(apart.pop(bucket, 0) for bucket in WAITS_FOR_RANKS)
    assert not {bucket: points for bucket, points in apart.items() if abs(points) > ALLOWED_POINTS}


def test_half_of_the_bounds_are_exact() -> None:
    errors = [abs(attributed(w.workload).answer(w).error_points) for w in WHAT_IFS if w.workload in SAMPLE]
    assert statistics.median(errors) <= ALLOWED_MEDIAN_POINTS


def test_the_list_is_long_and_nothing_in_it_is_asked_twice() -> None:
    everything = [*WHAT_IFS, *LOCKED_WHAT_IFS, *RUN_WHAT_IFS]
    assert len(everything) >= 80
    assert len({question.name for question in everything}) == len(everything)
    assert {question.workload for question in everything} == WORKLOADS.keys() | LOCKED.keys() | JOBS.keys()


@pytest.mark.parametrize("workload", LOCKED)
def test_waiting_for_locks_is_true_where_calls_of_the_system_are_recorded(workload: str, tmp_path: Path) -> None:
    simulated = simulate(LOCKED[workload], SEED)
    simulated.write_nsys(tmp_path / "run" / "rank0.sqlite")
    questions = [question for question in LOCKED_WHAT_IFS if question.workload == workload]
    with open_run(tmp_path / "run", jobs=1) as recorded:
        made = Attributed(simulated, recorded.connection)
        assert made.abstains is None
        errors = {question.name: abs(made.answer(question).error_points) for question in questions}
        told, truth = made.ledger_shares()
    assert max(errors.values()) <= ALLOWED_POINTS
    assert statistics.median(errors.values()) <= ALLOWED_MEDIAN_POINTS
    assert (truth.get("host.lock", 0) > 0) == ("hidden" not in workload)
    assert all(abs(told.get(bucket, 0) - truth.get(bucket, 0)) <= 0.01 for bucket in told.keys() | truth.keys())


def test_what_waits_for_a_lock_is_python_to_pytorchs_profiler() -> None:
    made = Attributed(simulate(LOCKED["interpreter lock"], SEED))
    both = made.answer(Question("interpreter lock", ("host.lock", "host.python")))
    assert abs(both.error_points) <= ALLOWED_POINTS
    told, truth = made.ledger_shares()
    assert "host.lock" not in told
    assert told["host.python"] == pytest.approx(truth["host.python"] + truth["host.lock"], abs=0.01)


@pytest.mark.parametrize("workload", JOBS)
def test_bounds_and_ledgers_of_several_ranks_are_true(workload: str) -> None:
    made = attributed_job(workload)
    assert made.abstains is None
    answers = [made.answer(question) for question in RUN_WHAT_IFS if question.workload == workload]
    wrong = {a.question.name: a.error_points for a in answers if abs(a.error_points) > ALLOWED_POINTS}
    assert not wrong
    apart = made.ledger_apart()
    if workload in HOST_WAITS_FOR_RANKS:
        for rank in {rank for rank, _ in apart}:
            apart[rank, "waits for ranks"] = sum(apart.pop((rank, bucket), 0) for bucket in WAITS_FOR_RANKS)
    assert not {device_key: points for device_key, points in apart.items() if abs(points) > ALLOWED_POINTS}


def test_making_the_slowest_rank_faster_helps_until_the_next_one_is_last() -> None:
    late = attributed_job("ranks: two late")
    one, both = (late.answer(question) for question in RUN_WHAT_IFS if question.workload == "ranks: two late")
    assert 100 * one.bound == pytest.approx(12.4, abs=0.5)
    assert 100 * both.bound == pytest.approx(37.2, abs=0.5)
