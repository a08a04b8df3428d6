"""What else a program does beside its steps, and answers that depend on it: each has a true answer that is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import program_findings
import pytest
from program_findings import lead_of, words
from torch_program import A100, TorchProgram

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import judge

pytestmark = pytest.mark.check

GEMM = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"
FUSED = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::FusedOptimizerTensorListMetadata<4>>"
)


def diagnosed(folder: Path, program: TorchProgram) -> Diagnosis:
    return program_findings.diagnosed(program.write(folder / "trace.json"))


def train(program: TorchProgram, us: float) -> None:
    """Run a forward and a backward pass and an update that the launching thread is ahead of."""
    for _ in range(20):
        program.run("aten::addmm", GEMM, us, 512)
    for _ in range(40):
        with program.on(4_500), program.op("autograd::engine::evaluate_function: AddmmBackward0"):
            program.run("aten::mm", GEMM, us, 512)
    with program.inside("user_annotation", "Optimizer.step#AdamW.step"):
        program.run("aten::_fused_adamw_", FUSED, 200, 400)


def move(program: TorchProgram, kind: str, size_bytes: int, us: float) -> None:
    """Copy as tensor.to() does."""
    with program.op("aten::to"), program.op("aten::_to_copy"), program.op("aten::copy_"):
        program.copy(kind, size_bytes, us)


@pytest.mark.parametrize("inside", [True, False])
def test_an_evaluation_in_one_step_is_named_and_the_others_are_judged(inside: bool, tmp_path: Path) -> None:
    program = TorchProgram(A100)

    def evaluate() -> None:
        with program.inside("user_annotation", "evaluate"):
            for _ in range(30):
                for _ in range(20):
                    program.run("aten::linear", GEMM, 100, 512)
                move(program, "DtoH", 1 << 20, 60)
                program.host(2_500)

    for step in range(8):
        with program.step(step):
            train(program, 100)
            if step == 4 and inside:
                evaluate()
        if step == 4 and not inside:
            evaluate()
    diagnosis = diagnosed(tmp_path, program)
    lead = lead_of(diagnosis)
    assert lead.rule == "unlike-step" and not lead.saving_ns
    assert "Step 4 takes 144.1 ms, 23.0 times as long as the median step" in lead.message
    assert "“evaluate”" in lead.message and "computes 99.0 %" in lead.message
    assert "--step 1-3" in words(lead)
    assert "no rule explains" not in judge(diagnosis).sentence


def scaling_gradients() -> TorchProgram:
    """GradScaler reads in each step whether a gradient overflowed."""
    program = TorchProgram(A100)
    for step in range(8):
        with program.step(step):
            train(program, 40)
            program.run("aten::_amp_foreach_non_finite_check_and_unscale_", FUSED, 20, 400)
            program.item()
            program.host(200)
            program.run("aten::_fused_adamw_", FUSED, 200, 400)
            program.run("aten::_amp_update_scale_", "at::native::amp_update_scale_cuda_kernel(float*, int*)", 2, 1, 1)
    return program


def test_a_scaler_of_gradients_is_named_where_it_waits(tmp_path: Path) -> None:
    lead = lead_of(diagnosed(tmp_path, scaling_gradients()))
    assert lead.rule == "sync-in-step"
    assert "GradScaler.step reads" in lead.fixes[0].text and "bfloat16" in words(lead)
    assert "total.item()" not in words(lead)


def generating_on_two_devices() -> TorchProgram:
    """The first half of the layers lies on one GPU, the second on the other: device_map="auto"."""
    program = TorchProgram(A100)
    for _ in range(20):
        for _ in range(16):
            program.run("aten::linear", GEMM, 150, 512)
        program.to_device(1, 8 << 20, 20)
        for _ in range(16):
            program.run("aten::linear", GEMM, 150, 512, stream=107)
        program.to_device(0, 8, 2)
        program.item()
        program.host(30)
    return program


def training_on_two_devices() -> TorchProgram:
    """Both halves of a model on a device of their own: forward on one and the other, backward on them in turn."""
    program = TorchProgram(A100)
    for step in range(6):
        with program.step(step):
            for _ in range(16):
                program.run("aten::addmm", GEMM, 150, 512)
            program.to_device(1, 8 << 20, 20)
            for _ in range(16):
                program.run("aten::addmm", GEMM, 150, 512, stream=107)
            for _ in range(32):
                with program.on(4_501), program.op("autograd::engine::evaluate_function: AddmmBackward0"):
                    program.run("aten::mm", GEMM, 150, 512, stream=107)
            with program.on(4_501), program.op("autograd::engine::evaluate_function: ToCopyBackward0"):
                program.to_device(0, 8 << 20, 20)
            for _ in range(32):
                with program.on(4_500), program.op("autograd::engine::evaluate_function: AddmmBackward0"):
                    program.run("aten::mm", GEMM, 150, 512)
            with program.inside("user_annotation", "Optimizer.step#AdamW.step"):
                program.run("aten::_fused_adamw_", FUSED, 100, 400)
    return program


@pytest.mark.parametrize(
    ("program", "fix"), [(generating_on_two_devices, "tp_plan"), (training_on_two_devices, "fully_shard")]
)
def test_devices_of_a_process_that_work_in_turn_are_named(
    program: Callable[[], TorchProgram], fix: str, tmp_path: Path
) -> None:
    diagnosis = diagnosed(tmp_path, program())
    lead = lead_of(diagnosis)
    assert lead.rule == "devices-in-turn" and not lead.saving_ns
    assert fix in words(lead)
    assert not {"queued-but-idle", "small-sync-copies", "sync-in-step"} & {one.rule for one in diagnosis.findings}
    owned = sum(ns for _, ns in diagnosis.not_explained)
    assert owned < 0.05 * sum(ledger.window_ns for ledger in diagnosis.ledgers)


def test_two_pauses_in_one_function_are_named_without_steps(tmp_path: Path) -> None:
    """Three images are drawn, and each is saved before the next one begins."""
    program = TorchProgram(A100)
    for _ in range(3):
        for _ in range(300):
            program.run("aten::conv2d", GEMM, 60, 512)
        move(program, "DtoH", 3 << 20, 400)
        with program.inside("python_function", "PIL/Image.py(2500): save"):
            program.host(20_000)
    lead = lead_of(diagnosed(tmp_path, program))
    assert lead.rule == "host-stalls" and lead.confidence == "low"
    assert "pauses 2 times" in lead.message and "PIL/Image.py(2500): save" in lead.message


def differentiating_in_python() -> TorchProgram:
    """A torch.autograd.Function of the program runs Python between its kernels."""
    program = TorchProgram(A100)
    for step in range(6):
        with program.step(step):
            train(program, 40)
            for _ in range(4):
                node = "autograd::engine::evaluate_function: ScanBackward"
                with program.on(4_500), program.op(node), program.op("ScanBackward"):
                    program.host(5_000)
                    program.run("aten::mm", GEMM, 30, 512)
    return program


def matching_on_the_host() -> TorchProgram:
    """A detector waits for its costs, assigns boxes on the host, and copies the indices back."""
    program = TorchProgram(A100)
    for step in range(6):
        with program.step(step):
            train(program, 100)
            with program.inside("python_function", "matcher.py(53): forward"):
                move(program, "DtoH", 800_000, 70)
                with program.inside("python_function", "scipy/optimize/_lsap.py(12): linear_sum_assignment"):
                    program.host(9_000)
                move(program, "HtoD", 2_400, 2)
    return program


@pytest.mark.parametrize(
    ("program", "fix"),
    [(differentiating_in_python, "def Scan(x, scale)"), (matching_on_the_host, "torch.stack(costs_of_layers)")],
)
def test_a_pause_whose_result_the_gpu_needs_is_left_to_no_other_thread(
    program: Callable[[], TorchProgram], fix: str, tmp_path: Path
) -> None:
    lead = lead_of(diagnosed(tmp_path, program()))
    assert lead.rule == "host-stalls"
    assert fix in words(lead)
    assert "log_metrics" not in words(lead)
