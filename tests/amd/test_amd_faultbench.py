"""A rule that fires on a job recorded by PyTorch's profiler fires on the same job recorded by rocprofv3."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from faultbench.bench import FAULTS, HEALTHY_JOBS
from faultbench.examining import Examined, examine_folder, examine_recorded
from faultbench.planted import Scenario

from tracesim import simulate_job

# What a database of rocprofv3 cannot hold: rules that need it abstain, and say so.
NOT_RECORDED = {
    "mem_events": "rocprofv3 does not see PyTorch's allocator, only what it takes from the driver",
    "failed_allocations": "nor that it ran out of memory",
    "collective_sizes": "a kernel of RCCL does not say how much it moves",
    "collective_types": "a kernel of RCCL does not say of which type its values are",
    "stacks": "no Python frames",
    "shapes": "ROCTX ranges of operators have no shapes in the databases that are written here",
}
# PyTorch's profiler records its own work, rocprofv3 does not.
_ABOUT_THE_PROFILER = {"tq-profiler-overhead"}
# The rules that lack one of these on some job of the bench; every other one fires on both recordings of each job.
_LACKING = {"memory-growth", "comm-fp32-gradients", "comm-low-bandwidth", "comm-small-messages", "oom-event"}


def jobs() -> Iterator[pytest.ParameterSet]:
    """Yield the jobs of the bench; twins and healthy jobs are there to raise no alarm that Kineto does not.

    A fault that only Nsight Systems records, such as pages of managed memory that move, is in neither recording.
    """
    for fault in FAULTS:
        if fault.only_nsys:
            continue
        yield pytest.param(fault.scenario, fault.lost_ranks, id=f"{fault.number} {fault.name}", marks=pytest.mark.check)
        if fault.twin is not None:
            yield pytest.param(fault.twin, (), id=f"twin of {fault.number}", marks=pytest.mark.check)
    for case in HEALTHY_JOBS:
        yield pytest.param(case.scenario, (), id=f"{case.number} {case.name}", marks=pytest.mark.check)


@pytest.mark.check
@pytest.mark.parametrize(("scenario", "lost_ranks"), list(jobs()))
def test_the_database_tells_what_the_profiler_tells(scenario: Scenario, lost_ranks: tuple[int, ...]) -> None:
    job = simulate_job({**scenario, "device": "MI300X"})
    by_kineto = examine_recorded(job, lost_ranks)
    with tempfile.TemporaryDirectory() as folder:
        paths = job.write_rocpd(folder)
        for rank in lost_ranks:
            paths[rank].unlink()
        by_rocpd = examine_folder(job, Path(folder))
    assert fired(by_kineto) - fired(by_rocpd) <= (abstaining(by_rocpd) & _LACKING) | _ABOUT_THE_PROFILER
    assert fired(by_rocpd) <= fired(by_kineto)


def fired(seen: Examined) -> set[str]:
    return {outcome.rule for outcome in seen.diagnosis.outcomes if outcome.state == "fired"}


def abstaining(seen: Examined) -> set[str]:
    """Return the rules that lack what rocprofv3 cannot record."""
    reasons = {f"missing-capability:{name}" for name in NOT_RECORDED}
    return {outcome.rule for outcome in seen.diagnosis.outcomes if outcome.reason in reasons}
