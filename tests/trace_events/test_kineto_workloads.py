"""Kinds of programs with PyTorch whose true answer is known: graphs, tables, devices without a type, waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import program_findings
import pytest
from program_findings import lead_of, words
from torch_program import A100, T4, TorchProgram

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import judge

pytestmark = pytest.mark.check

Case = tuple[TorchProgram, str, str, str]
GEMM = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"
SGEMM = "ampere_sgemm_128x128_tn"
MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>, at::Array<char*, 3> >(int)"
GATHER = "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(T)"
SCATTER = (
    "void at::native::_scatter_gather_elementwise_kernel<128, 8, "
    "at::native::_cuda_scatter_gather_internal_kernel<true, float>>(int)"
)
LOOKUP = "void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<float, long>(long*, long*)"
GRADIENT = "void at::native::(anonymous namespace)::compute_grad_weight_bags<float, long>(long*, float*, long*)"
FUSED = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::FusedOptimizerTensorListMetadata<4>>"
)


def diagnosed(folder: Path, program: TorchProgram) -> Diagnosis:
    return program_findings.diagnosed(program.write(folder / "trace.json"))


def backward(program: TorchProgram, node: str, operator: str, kernel: str, us: float, grid: int = 4_096) -> None:
    """Run one operator of the backward pass."""
    with program.on(4_500), program.op(f"autograd::engine::evaluate_function: {node}"):
        program.run(operator, kernel, us, grid)


def update(program: TorchProgram, us: float) -> None:
    with program.inside("user_annotation", "Optimizer.step#Adam.step"):
        program.run("aten::_fused_adam_", FUSED, us, 400)


def passing_messages() -> TorchProgram:
    """A graph network on the whole graph: a row for each edge, gathered from its source and added to its target."""
    program = TorchProgram(A100)
    for step in range(5):
        with program.step(step):
            for _ in range(4):
                program.run("aten::index_select", GATHER, 2_700, 4_096)
                program.run("aten::scatter_add_", SCATTER, 3_900, 4_096)
                program.run("aten::addmm", SGEMM, 500)
            for _ in range(4):
                backward(program, "ScatterAddBackward0", "aten::gather", SCATTER, 2_600)
                backward(program, "IndexSelectBackward0", "aten::index_add_", GATHER.replace("Select", "Func"), 4_100)
                backward(program, "AddmmBackward0", "aten::mm", SGEMM, 900)
            update(program, 900)
    return program


def looking_up() -> TorchProgram:
    """A recommender: 26 tables, each with a kernel of its own and a dense gradient."""
    program = TorchProgram(A100)
    for step in range(5):
        with program.step(step):
            for _ in range(26):
                program.run("aten::_embedding_bag", LOOKUP, 350, 2_048)
            for _ in range(8):
                program.run("aten::addmm", GEMM, 250)
            for _ in range(8):
                backward(program, "AddmmBackward0", "aten::mm", GEMM, 500)
            for _ in range(26):
                backward(program, "EmbeddingBagBackward0", "aten::_embedding_bag_dense_backward", GRADIENT, 600)
            update(program, 900)
    return program


def in_bfloat16(*, on_turing: bool) -> TorchProgram:
    program = TorchProgram(T4 if on_turing else A100)
    magma = "void magma_sgemmEx_kernel<float, __nv_bfloat16, __nv_bfloat16, true, false, 6, 4, 6, 3, 4>(int, int, int)"
    for _ in range(20):
        for _ in range(40):
            program.run("aten::linear", magma if on_turing else GEMM, 900)
        for _ in range(10):
            program.run("aten::mul", MUL, 60, 4_096)
    return program


# The program, the rule that must lead, what it must say, and what it must not.
CASES: dict[str, Callable[[], Case]] = {
    "a graph network": lambda: (passing_messages(), "gather-scatter", "adjacency @ x", "TF32"),
    "tables of embeddings": lambda: (looking_up(), "embedding-tables", "(52 calls a step)", "saves up to"),
    "bfloat16 on a device without it": lambda: (
        in_bfloat16(on_turing=True),
        "tensor-cores-unused",
        "which the tensor cores of the Tesla T4 do not compute",
        "dtype=torch.bfloat16",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_lead_and_its_fix_are_right_for_the_workload(name: str, tmp_path: Path) -> None:
    program, rule, says, never = CASES[name]()
    diagnosis = diagnosed(tmp_path, program)
    leading = lead_of(diagnosis)
    assert leading.rule == rule
    assert says in words(leading)
    assert never not in words(leading)
    assert "Healthy" not in judge(diagnosis).sentence


# Programs with nothing to win.
HEALTHY: dict[str, Callable[[], TorchProgram]] = {
    "bfloat16 on a device that has it": lambda: in_bfloat16(on_turing=False),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_workload_with_nothing_to_win_is_healthy(name: str, tmp_path: Path) -> None:
    assert "Healthy" in judge(diagnosed(tmp_path, HEALTHY[name]())).sentence
