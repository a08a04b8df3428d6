"""What `info` says of profiles of XLA: steps of the host, and work of a TPU that a call of the host started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from xspace import MS, PlaneMaker, space

from traceanalyzer.cli import cli

pytestmark = pytest.mark.check


def info(content: bytes, folder: Path, *options: str) -> str:
    path = folder / "vm.xplane.pb"
    path.write_bytes(content)
    answer = CliRunner().invoke(cli, ["info", str(path), "--store", str(folder / "store"), *options])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_steps_that_the_host_marks_are_counted_without_a_device(tmp_path: Path) -> None:
    marks = [(at * MS, MS, "train", {"step_num": at}) for at in range(5)]
    said = info(space(PlaneMaker("/host:CPU").line(1, "python", marks)), tmp_path)
    assert "5 (step_num, host only)" in said


@pytest.mark.parametrize("flow_type", [12, 11])
def test_the_call_that_starts_a_run_launches_its_operations(tmp_path: Path, flow_type: int) -> None:
    plane = PlaneMaker("/device:TPU:0")
    plane.line(3, "XLA Ops", [(at * MS, MS, "%add.1", {}) for at in range(4)], 0)
    plane.line(2, "XLA Modules", [(0, 4 * MS, "jit_step(8)", {"_c": 5, "_ct": 12})], 0)
    call = PlaneMaker("/host:CPU").line(1, "python", [(0, 1000, "DoEnqueueProgram", {"_p": 5, "_pt": flow_type})])
    said = json.loads(info(space(plane, call), tmp_path, "--format", "json"))
    assert said["traces"][0]["launch_share"] == (1 if flow_type == 12 else 0)
