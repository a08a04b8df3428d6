"""Loops of PyTorch whose true answer is known: nodes on the CPU, requests, cells, simulators, slow links."""

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

Case = tuple[TorchProgram, str, str, str]
GEMM = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"
FUSED = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::FusedOptimizerTensorListMetadata<4>>"
)


def diagnosed(folder: Path, program: TorchProgram) -> Diagnosis:
    return program_findings.diagnosed(program.write(folder / "trace.json"))


def backward(program: TorchProgram, node: str, operator: str, kernel: str, us: float, grid: int = 512) -> None:
    """Run one operator of the backward pass."""
    with program.on(4_500), program.op(f"autograd::engine::evaluate_function: {node}"):
        program.run(operator, kernel, us, grid)


def update(program: TorchProgram, us: float) -> None:
    with program.inside("user_annotation", "Optimizer.step#AdamW.step"):
        program.run("aten::_fused_adamw_", FUSED, us, 400)


def nodes_on_the_host(*, thread: int) -> TorchProgram:
    """Every second node of the backward pass computes on the CPU: the calling thread runs those, as autograd does."""
    program = TorchProgram(A100)
    for step in range(5):
        with program.step(step):
            for _ in range(20):
                program.run("aten::addmm", GEMM, 100, 512)
            for _ in range(20):
                backward(program, "AddmmBackward0", "aten::mm", GEMM, 100)
                with (
                    program.on(thread),
                    program.op("autograd::engine::evaluate_function: IndexBackward0"),
                    program.op("aten::index_put_"),
                ):
                    program.host(800)
            update(program, 300)
    return program


# The program, the rule that must lead, what it must say, and what it must not.
CASES: dict[str, Callable[[], Case]] = {
    "nodes on the CPU": lambda: (
        nodes_on_the_host(thread=4_400),
        "preprocess-on-critical-path",
        'model.to("cuda")',
        "transform(batch)",
    ),
    "nodes on the CPU in the thread of the others": lambda: (
        nodes_on_the_host(thread=4_500),
        "preprocess-on-critical-path",
        'model.to("cuda")',
        "transform(batch)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_lead_and_its_fix_are_right_for_the_loop(name: str, tmp_path: Path) -> None:
    program, rule, says, never = CASES[name]()
    diagnosis = diagnosed(tmp_path, program)
    leading = lead_of(diagnosis)
    assert leading.rule == rule
    assert says in words(leading)
    assert never not in words(leading)
    assert "Healthy" not in judge(diagnosis).sentence
