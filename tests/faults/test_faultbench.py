"""Every planted fault is found where it is and for what it costs; its twin and healthy jobs raise no alarm.

The jobs are those of `make faultbench`, diagnosed from tables in memory; a few go through trace files.
"""

from __future__ import annotations

from collections.abc import Iterable

import faultbench.__main__ as bench
import pytest
from faultbench.bench import FAULTS, HEALTHY_JOBS, run_fault, run_healthy
from faultbench.degrading import DEGRADED, degrade
from faultbench.doses import DOSES, Dose, respond
from faultbench.mixtures import hold, mixture
from faultbench.planted import Expected, Fault, Healthy
from faultbench.random_checks import false_alarms, hold_promises
from faultbench.random_jobs import healthy_job, sick_job
from faultbench.table import failures

THROUGH_FILES = ("1", "24")
DEGRADED_HERE = ("8", "11")

pytestmark = pytest.mark.check


def named(faults: Iterable[Fault]) -> list[pytest.ParameterSet]:
    """Return faults for tests of their own."""
    return [pytest.param(fault, id=f"{fault.number} {fault.name}") for fault in faults]


@pytest.mark.parametrize("fault", named(FAULTS))
def test_a_planted_fault_is_found_and_its_twin_is_silent(fault: Fault) -> None:
    assert list(failures([run_fault(fault, ("tables",))], [])) == []


@pytest.mark.parametrize("fault", named(f for f in FAULTS if f.number in THROUGH_FILES))
def test_the_trace_files_of_both_profilers_tell_the_same(fault: Fault) -> None:
    assert list(failures([run_fault(fault)], [])) == []


@pytest.mark.parametrize("case", HEALTHY_JOBS, ids=lambda case: f"{case.number} {case.name}")
def test_a_healthy_job_raises_no_alarm(case: Healthy) -> None:
    assert list(failures([], [run_healthy(case, ("tables",))])) == []


@pytest.mark.parametrize("dose", DOSES[:4:2], ids=lambda dose: dose.name)
def test_a_bound_grows_with_its_fault(dose: Dose) -> None:
    assert list(respond(dose, strengths=(0.0, 0.5, 2.0))) == []


@pytest.mark.parametrize("seed", [*range(4), 36])  # 36: limits as strong as each other
def test_the_order_of_fixes_of_a_mixture_holds_what_matters_and_promises_what_is_true(seed: int) -> None:
    assert list(hold(mixture(seed))) == []


@pytest.mark.parametrize("fault", [f for f in DEGRADED if f.number in DEGRADED_HERE], ids=lambda fault: fault.name)
def test_a_poorer_recording_turns_no_verdict_round(fault: Fault) -> None:
    assert list(degrade(fault)) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_random_healthy_job_raises_no_alarm(seed: int) -> None:
    assert list(false_alarms(healthy_job(seed))) == []


# In 21, ranks hold up the others in turn; in 43 it is open what gathers wait for, and the least is true.
@pytest.mark.parametrize("seed", [0, 1, 2, 21, 43])
def test_what_is_promised_of_a_random_sick_job_is_true(seed: int) -> None:
    assert list(hold_promises(sick_job(seed))) == []


def test_a_gate_that_is_not_passed_fails_the_bench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missed = Fault("0", "nothing wrong", {"steps": 5, "kernels": 60}, None, (Expected("dataloader-bound"),))
    monkeypatch.setattr(bench, "FAULTS", (missed,))
    monkeypatch.setattr(bench, "HEALTHY_JOBS", ())
    assert bench.main(["simulated"]) == 1
    assert "dataloader-bound was not found" in capsys.readouterr().err


def test_a_part_that_does_not_exist_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["mixture"]) == 2
    assert "no part is called 'mixture'" in capsys.readouterr().err
