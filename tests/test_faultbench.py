"""Every planted fault is found where it is and for what it costs; its twin and healthy jobs raise no alarm.

The jobs are those of `make faultbench`, diagnosed from tables in memory; a few go through trace files.
"""

from __future__ import annotations

import pytest
from faultbench.bench import FAULTS, HEALTHY_JOBS, run_fault, run_healthy
from faultbench.planted import Fault, Healthy
from faultbench.table import failures

THROUGH_FILES = ("1", "5", "16", "24")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.number} {fault.name}")
def test_a_planted_fault_is_found_and_its_twin_is_silent(fault: Fault) -> None:
    assert list(failures([run_fault(fault, ("tables",))], [])) == []


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.number in THROUGH_FILES], ids=lambda fault: fault.name)
def test_the_trace_files_of_both_profilers_tell_the_same(fault: Fault) -> None:
    assert list(failures([run_fault(fault)], [])) == []


@pytest.mark.parametrize("case", HEALTHY_JOBS, ids=lambda case: f"{case.number} {case.name}")
def test_a_healthy_job_raises_no_alarm(case: Healthy) -> None:
    assert list(failures([], [run_healthy(case, ("tables",))])) == []
