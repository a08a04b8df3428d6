"""Jobs of JAX and TensorFlow whose answer is known: what leads, and a fix in the terms of the framework."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from program_findings import lead_of, words
from xla_profiles import diagnose
from xla_program import XlaProgram
from xspace import MS, PlaneMaker, Ref, space

pytestmark = pytest.mark.check
GEMM = ("gemm_fusion_dot_1", "gemm_fusion_dot.1")


def without_donation() -> XlaProgram:
    """XLA copies 40 arrays of the state in each step, since it was not given their memory."""
    program = XlaProgram()
    for _ in range(20):
        with program.step():
            for _ in range(40):
                program.copy("DtoD", 64 << 20, 100)
            for _ in range(10):
                program.launch(GEMM[0], 1_000, GEMM[1])
    return program


def in_full_precision() -> XlaProgram:
    """Matmuls leave the tensor cores alone, as a precision of highest makes them."""
    program = XlaProgram()
    for _ in range(20):
        with program.step():
            for _ in range(10):
                program.launch("ampere_sgemm_128x128_nn", 1_000, "cublas-gemm.1")
                program.launch("loop_add_fusion", 200, "loop_add_fusion")
    return program


def calling_back() -> XlaProgram:
    """Each step copies an array to the host, and waits for a function of Python."""
    program = XlaProgram()
    for _ in range(20):
        with program.step():
            for _ in range(4):
                program.launch("loop_multiply_fusion", 500, "loop_multiply_fusion")
            program.copy("DtoH", 4 << 20, 400)
            program.wait()
            program.host(6_000, "xla_ffi_python_gpu_callback", "py_xla_callback/11")
            program.copy("HtoD", 4 << 20, 400)
            for _ in range(4):
                program.launch("loop_multiply_fusion", 500, "loop_multiply_fusion")
    return program


def reading_each_loss() -> XlaProgram:
    """A loop of TensorFlow that reads its loss, and then works in Python for as long in each step."""
    program = XlaProgram("EagerLocalExecute: __inference_train_step_9")
    for _ in range(20):
        with program.step():
            program.host(1_000)
            for _ in range(20):
                program.launch("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_nn", 200, "dot.1")
            program.copy("DtoH", 4, 2)
            program.wait()
            program.host(1_500)
    return program


@pytest.mark.parametrize(
    ("make", "rule", "fix"),
    [
        (without_donation, "d2d-exposed", "donate_argnums=(0,)"),
        (in_full_precision, "fp32-matmul-no-tensor-core", "jax_default_matmul_precision"),
        (calling_back, "host-stalls", "without jax.debug.print"),
    ],
)
def test_the_lead_and_its_fix_are_right_for_the_job(
    make: Callable[[], XlaProgram], rule: str, fix: str, tmp_path: Path
) -> None:
    leading = lead_of(diagnose(make().content(), tmp_path))
    assert (leading.rule, fix in words(leading)) == (rule, True)


def test_a_kernel_that_xla_compiled_leads_to_its_line_of_the_program(tmp_path: Path) -> None:
    findings = {finding.rule: words(finding) for finding in diagnose(without_donation().content(), tmp_path).findings}
    assert 'grep -rn "gemm_fusion_dot.1" programs' in findings["dominant-kernel"]


def test_a_loop_whose_pauses_are_all_as_long_keeps_no_pace(tmp_path: Path) -> None:
    diagnosis = diagnose(reading_each_loss().content(), tmp_path)
    assert "paced-program" not in {finding.rule for finding in diagnosis.findings}
    assert lead_of(diagnosis).rule == "sync-in-step"


def test_a_tpu_waits_for_the_iterator_of_keras(tmp_path: Path) -> None:
    """
    host  [IteratorGetNext 30 ms]                [IteratorGetNext 30 ms]
    TPU                          [fusion 10 ms]
    """
    plane, host = PlaneMaker("/device:TPU:0"), PlaneMaker("/host:CPU")
    plane.stats = {"device_type_string": "TPU v4"}
    plane.name_stats = {"%fusion.1": {"hlo_category": Ref("convolution fusion")}}
    starts = [40 * run for run in range(12)]
    device_times = [{"device_offset_ps": (at + 30) * MS, "device_duration_ps": 10 * MS} for at in starts]
    ops = [((at + 30) * MS, 10 * MS, "%fusion.1", own) for at, own in zip(starts, device_times, strict=True)]
    plane.line(3, "XLA Ops", ops, 0)
    plane.line(2, "XLA Modules", [((at + 30) * MS, 10 * MS, "cluster_step(7)", {"run_id": at}) for at in starts], 0)
    marks = [(at * MS, 40 * MS, "Profiled batch", {"step_num": at}) for at in starts]
    host.line(9, "python", [*marks, *((at * MS, 30 * MS - 1_000_000, "IteratorGetNext", {}) for at in starts)], 0)
    host.line(10, "tf_xla", [(0, MS, "EagerExecute", {})], 0)
    leading = lead_of(diagnose(space(plane, host), tmp_path))
    assert (leading.rule, "tf.data.AUTOTUNE" in words(leading)) == ("program-waits-for-host", True)
    assert leading.saving_share == pytest.approx(0.73, abs=0.03)
