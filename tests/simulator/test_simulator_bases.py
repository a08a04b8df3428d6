"""Healthy jobs are healthy, planted faults cost what they should, and their twins next to nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from faultbench.bench import FAULTS as PLANTED
from workloads.bases import BASES

from tracesim import simulate_job

pytestmark = pytest.mark.check

LOADER, SYNC, PYTHON, TRANSFER = "host.dataloader", "host.sync", "host.python", "dev.comm_transfer"
Removed = Collection[str] | Mapping[int, Collection[str]]
FAULTS = {fault.name: fault for fault in PLANTED if fault.twin is not None}


def jobs(name: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return a fault's job and its twin's."""
    fault = FAULTS[name]
    assert fault.twin is not None
    return fault.scenario, fault.twin


@pytest.mark.parametrize(
    ("name", "compute_percent"),
    [("training", 98), ("data parallel", 98), ("fully sharded", 96), ("pipeline", 90), ("experts", 97)],
)
def test_a_base_computes_nearly_all_the_time(name: str, compute_percent: float) -> None:
    for run in simulate_job(BASES[name]).ranks:
        assert 100 * run.true_ledger["compute"] / run.window_ns > compute_percent


def test_decoding_waits_for_nothing_but_the_gaps_inside_its_graph() -> None:
    run = simulate_job(BASES["decoding"]).ranks[0]
    busy_ns = run.true_ledger["compute"] + run.true_ledger["dev.graph_gap"]
    assert busy_ns / run.window_ns > 0.999


def test_a_pipeline_of_32_batches_has_its_ideal_bubble() -> None:
    # Three of 35 turns are empty; messages add a little.
    run = simulate_job(BASES["pipeline"]).ranks[2]
    assert 100 * run.true_ledger["dev.comm_p2p"] / run.window_ns == pytest.approx(100 * 3 / 35, abs=1.5)


@pytest.mark.parametrize(
    ("name", "removed", "percent"),
    [
        ("starving loader", (LOADER,), 39.6),
        ("item in every step", (SYNC,), 2.0),
        ("loader and item", (LOADER,), 35.6),
        ("garbage every fourth step", ("host.gc",), 59.1),
        ("exposed reduction", (TRANSFER,), 23.6),
        ("many small reductions", (TRANSFER,), 42.3),
        ("weights gathered too late", (TRANSFER,), 11.5),
        ("host between replays", (PYTHON,), 33.3),
    ],
)
def test_a_fault_costs_what_it_should_and_its_twin_next_to_nothing(name: str, removed: Removed, percent: float) -> None:
    fault, twin = (simulate_job(told).true_saving_share(removed) for told in jobs(name))
    assert 100 * fault == pytest.approx(percent, abs=1)
    assert 100 * twin < 2.5


@pytest.mark.parametrize(("scenario", "percent"), [("scenario", 10.6), ("twin", 1)])
def test_a_slow_device_holds_up_all_ranks(scenario: str, percent: float) -> None:
    told: Mapping[str, Any] = getattr(FAULTS["slow device on one rank"], scenario)
    faster = {2: {"compute": 1 / told["faults"]["kernel_scale"]}}
    assert 100 * simulate_job(told).true_saving_share(kernel_scale=faster) == pytest.approx(percent, abs=0.3)


def test_of_two_late_ranks_one_is_worth_little_and_both_much() -> None:
    job = simulate_job(FAULTS["two late ranks"].scenario)
    one, both = job.true_saving_share({3: (LOADER,)}), job.true_saving_share({1: (LOADER,), 3: (LOADER,)})
    assert 100 * one == pytest.approx(7.4, abs=0.3)
    assert 100 * both == pytest.approx(41.5, abs=0.3)


def test_all_ranks_wait_for_the_experts_with_too_many_tokens() -> None:
    fault, twin = (simulate_job(told) for told in jobs("expert imbalance"))
    assert fault.window_ns > 1.15 * twin.window_ns
    assert fault.ranks[5].true_ledger["compute"] > 1.1 * fault.ranks[0].true_ledger["compute"]


def test_few_batches_leave_a_pipeline_empty() -> None:
    # Three of seven turns are empty, and the last stage is slow.
    run = simulate_job(FAULTS["pipeline bubble and a slow stage"].scenario).ranks[1]
    assert run.true_ledger["dev.comm_p2p"] / run.window_ns > 3 / 7
