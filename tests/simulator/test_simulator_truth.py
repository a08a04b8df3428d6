"""The simulator against the published table of true savings, and its ledger against what must hold of any ledger."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.errors import TraceAnalyzerError
from tracesim import SimulatedRun, simulate

# One GPU, compute and copy stream, all kernels from the main thread: the reference's workload.
REFERENCE: dict[str, Any] = {"steps": 12, "mode": "inference", "h2d_us": 100, "loader_us": 200}
LAUNCH_BOUND: dict[str, Any] = {"steps": 5, "kernels": 1500, "kernel_us": 5, "host_us": 8}


@cache
def _simulated(scenario: str) -> SimulatedRun:
    return simulate(json.loads(scenario))


def reference(changes: dict[str, Any]) -> SimulatedRun:
    """Return the reference's workload with changes; several causes are asked of one run."""
    return _simulated(json.dumps({**REFERENCE, **changes}))


@pytest.mark.check
@pytest.mark.parametrize(
    ("changes", "causes", "percent"),
    [
        ({"loader_us": 25_000}, ("host.dataloader",), 39.6),
        ({"loader_us": 12_000}, ("host.dataloader",), 0.0),
        ({"loader_us": 9_000, "item_per_step": 1}, ("host.dataloader",), 35.6),
        ({"loader_us": 9_000, "item_per_step": 1}, ("host.sync",), 36.0),
        ({"loader_us": 9_000, "item_per_step": 1}, ("host.dataloader", "host.sync"), 36.0),
        ({"loader_us": 25_000, "item_per_step": 1}, ("host.dataloader",), 60.5),
        ({"loader_us": 25_000, "item_per_step": 1}, ("host.sync",), 35.1),
        ({"loader_us": 25_000, "item_per_step": 1}, ("host.dataloader", "host.sync"), 60.8),
        (LAUNCH_BOUND, ("host.python",), 56.6),
        ({**LAUNCH_BOUND, "item_per_step": 1}, ("host.sync",), 0.05),
        ({**LAUNCH_BOUND, "loader_us": 6_000}, ("host.dataloader",), 22.2),
        ({**LAUNCH_BOUND, "loader_us": 6_000}, ("host.python",), 44.4),
        ({"steps": 5, "kernels": 1500, "kernel_us": 12, "host_us": 1}, ("host.python",), 0.0),
        ({"gc_us": 150_000, "gc_every": 4}, ("host.gc",), 51.1),
    ],
)
def test_removing_a_host_cause_saves_what_the_reference_says(
    changes: dict[str, Any], causes: tuple[str, ...], percent: float
) -> None:
    assert 100 * reference(changes).true_saving_share(*causes) == pytest.approx(percent, abs=0.2)


@pytest.mark.check
@pytest.mark.parametrize(
    ("changes", "percent"),
    [
        ({}, 49.4),
        ({"loader_us": 12_000}, 14.8),
        ({"loader_us": 20_000}, 0.0),
        ({"kernel_us": 12}, 22.8),
        (LAUNCH_BOUND, 0.0),
    ],
)
def test_kernels_twice_as_fast_save_what_the_reference_says(changes: dict[str, Any], percent: float) -> None:
    run = reference(changes)
    assert 100 * run.true_saving_share(kernel_scale={"compute": 0.5}) == pytest.approx(percent, abs=0.2)


SCENARIOS = st.fixed_dictionaries(
    {
        "steps": st.integers(2, 4),
        "kernels": st.integers(3, 30),
        "kernel_us": st.sampled_from([0, 2, 10, 80]),
        "loader_us": st.sampled_from([0, 100, 3000]),
        "host_us": st.sampled_from([0, 3, 20]),
        "op_us": st.sampled_from([0, 4]),
        "item_per_step": st.integers(0, 2),
        "sync_per_step": st.integers(0, 3),
        "malloc_per_step": st.integers(0, 2),
        "free_per_step": st.integers(0, 1),
        "h2d_pinned": st.booleans(),
        "h2d_stream": st.sampled_from(["copy", "compute"]),
        "comm_us": st.sampled_from([0, 400]),
        "comm_blocking": st.booleans(),
        "gc_us": st.sampled_from([0, 500]),
        "queue_depth": st.sampled_from([2, 1024]),
        "jitter": st.sampled_from([0.0, 0.2]),
        "mode": st.sampled_from(["training", "inference"]),
    }
)


@examples()
@given(SCENARIOS)
def test_the_true_ledger_sums_to_the_window(scenario: dict[str, Any]) -> None:
    run = simulate(scenario)
    assert sum(run.true_ledger.values()) == run.window_ns
    assert all(dur_ns > 0 for dur_ns in run.true_ledger.values())


@examples()
@given(SCENARIOS)
def test_streams_are_first_in_first_out_and_nothing_runs_before_it_is_launched(scenario: dict[str, Any]) -> None:
    run = simulate(scenario)
    ops = run.recording.ops
    for stream in {op.stream for op in ops}:
        queued = [op for op in ops if op.stream == stream]
        assert all(before.end_ns < after.start_ns for before, after in pairwise(queued))
    assert all(op.launch_start_ns < op.start_ns for op in ops)


@examples()
@given(SCENARIOS)
def test_no_more_launches_wait_than_the_queue_holds(scenario: dict[str, Any]) -> None:
    ops = simulate(scenario).recording.ops
    for at, op in enumerate(ops):
        if op.copy is None or op.copy.src_kind != "pageable":
            waiting = sum(1 for earlier in ops[:at] if earlier.end_ns > op.launch_end_ns)
            assert waiting < scenario["queue_depth"]


@examples()
@given(SCENARIOS, st.integers(0, 3))
def test_the_same_scenario_and_seed_give_the_same_run(scenario: dict[str, Any], seed: int) -> None:
    assert simulate(scenario, seed).recording == simulate(scenario, seed).recording


@examples()
@given(SCENARIOS)
def test_slices_of_a_thread_nest(scenario: dict[str, Any]) -> None:
    for thread in (4242, 4310):
        ends: list[int] = []
        for taken in simulate(scenario).recording.slices:
            if taken.thread == thread:
                while ends and ends[-1] <= taken.start_ns and taken.start_ns < taken.end_ns:
                    ends.pop()
                assert not ends or taken.end_ns <= ends[-1] or taken.start_ns == taken.end_ns
                ends.append(taken.end_ns)


def test_another_seed_gives_another_run_only_with_jitter() -> None:
    exact, varied = {"steps": 2, "kernels": 5}, {"steps": 2, "kernels": 5, "jitter": 0.1}
    assert simulate(exact, 1).recording == simulate(exact, 2).recording
    assert simulate(varied, 1).recording != simulate(varied, 2).recording


def test_leaving_a_cause_out_changes_no_other_draw() -> None:
    varied = simulate({"steps": 3, "kernels": 10, "jitter": 0.1, "item_per_step": 1, "gc_us": 100})
    fixed = varied.without("host.sync", "host.gc")
    kernels = [[op.end_ns - op.start_ns for op in run.recording.ops if op.is_compute] for run in (varied, fixed)]
    assert kernels[0] == kernels[1]


def test_an_unknown_cause_cannot_be_removed() -> None:
    with pytest.raises(TraceAnalyzerError, match=r"host\.loader"):
        simulate({"steps": 1}).without("host.loader")


def test_what_another_process_takes_of_the_device_has_no_cause_that_is_recorded() -> None:
    part = [{"repeat": 20, "do": [{"kernel": {"us": 80}}]}, {"occupied": 3_000}]
    run = simulate({"steps": 4, "program": [{"repeat": 2, "do": part}]})
    # Three steps of two pauses each, and the one that the first kernel of the last step waits for.
    assert run.true_ledger["dev.unresolved"] == 6 * 3_000_000
