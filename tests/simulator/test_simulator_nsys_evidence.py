"""What only Nsight Systems records of a program, from the simulator to the rule that reads it: samples and output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import NO_SETTINGS
from tracesim import simulate, simulate_job

WORK = [{"repeat": 20, "do": [{"kernel": {"us": 100, "class": "gemm", "prec": "bf16"}}]}]
SAMPLED: dict[str, Any] = {"steps": 6, "steps_marked": False, "stacks": True, "sample_us": 200}
FAILED = "step 1\nTraceback (most recent call last):\nKeyboardInterrupt\n"
WARNED = "a.py:3: DeprecationWarning: old error codes\nstep 2: loss error 0.01\n"
HOT = {**SAMPLED, "output": FAILED, "program": [{"py": {"us": 9_000, "name": "write_report"}}, *WORK]}
# Three functions share the same pauses.
SHARED = {
    **SAMPLED,
    "output": WARNED,
    "program": [*({"py": {"us": 3_000, "name": name}} for name in ("read", "check", "print")), *WORK],
}


def diagnosed(scenario: dict[str, Any], folder: Path) -> Diagnosis:
    simulate_job(scenario, seed=4).write_nsys(folder / "nsys", "node", "2026.2")
    with open_run(folder / "nsys", store=folder / "store", jobs=1) as run:
        return run.diagnose(settings=NO_SETTINGS)


def told(diagnosis: Diagnosis) -> dict[str, str]:
    return {finding.rule: finding.message for finding in diagnosis.findings}


@pytest.mark.check
def test_samples_and_output_name_what_holds_up_the_gpu_and_how_the_program_ended(tmp_path: Path) -> None:
    diagnosis = diagnosed(HOT, tmp_path)
    messages = told(diagnosis)
    assert "computes in write_report" in messages["cpu-hot-function"]
    assert "KeyboardInterrupt" in messages["tq-program-failed"]
    saving_ns = next(item.saving_ns for item in diagnosis.findings if item.rule == "cpu-hot-function")
    gained_ns = simulate(HOT, seed=4).window_ns - simulate({**HOT, "program": WORK}, seed=4).window_ns
    assert gained_ns <= (saving_ns or 0) <= 1.02 * gained_ns


@pytest.mark.check
def test_functions_that_share_the_time_and_warnings_in_the_output_are_not_named(tmp_path: Path) -> None:
    assert told(diagnosed(SHARED, tmp_path)).keys().isdisjoint({"cpu-hot-function", "tq-program-failed"})
