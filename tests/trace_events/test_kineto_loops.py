"""Loops of PyTorch whose true answer is known: nodes on the CPU, requests, cells, simulators, slow links."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import program_findings
import pytest
from program_findings import lead_of, words
from torch_program import A100, GEMM, RTX_3090, SGEMM, TorchProgram

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import judge

pytestmark = pytest.mark.check

Case = tuple[TorchProgram | list[TorchProgram], str, str, str]
FLASH = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, bfloat16_t>>(Flash_fwd_params)"
SOFTMAX = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float>(float*, float const*)"
NORM = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::NormTwoOps<float>>>(T)"


def diagnosed(folder: Path, program: TorchProgram | list[TorchProgram]) -> Diagnosis:
    """Diagnose one process, or the ranks of a job."""
    ranks = program if isinstance(program, list) else [program]
    for rank in ranks:
        rank.write(folder / "job" / f"rank{rank.rank or 0}.json")
    return program_findings.diagnosed(folder / "job")


def nodes_on_the_host(*, thread: int) -> TorchProgram:
    """Every second node of the backward pass computes on the CPU: the calling thread runs those, as autograd does."""
    program = TorchProgram(A100)
    for step in range(5):
        with program.step(step):
            for _ in range(20):
                program.run("aten::addmm", GEMM, 100, 512)
            for _ in range(20):
                program.backward("AddmmBackward0", "aten::mm", GEMM, 100)
                with (
                    program.on(thread),
                    program.op("autograd::engine::evaluate_function: IndexBackward0"),
                    program.op("aten::index_put_"),
                ):
                    program.host(800)
            program.update(300, "AdamW")
    return program


def over_a_slow_link(*, kind: str) -> list[TorchProgram]:
    """Data parallelism over Ethernet: 18 ms of a backward pass beside 100 ms of sums."""
    ranks = [TorchProgram(A100, rank=rank, world=2) for rank in range(2)]
    for program in ranks:
        for step in range(5):
            with program.step(step):
                with program.inside("user_annotation", "DistributedDataParallel.forward"):
                    for _ in range(10):
                        program.run("aten::mm", GEMM, 900, 512)
                for _ in range(4):
                    for _ in range(5):
                        program.backward("MmBackward0", "aten::mm", GEMM, 900)
                    with program.on(4_500):
                        program.after(20, 7)
                        name = f"ncclDevKernel_AllReduce_Sum_{kind}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                        program.collective("allreduce", name, 25_000, 12_500_000)
                program.after(7, 20)
                program.update(900, "AdamW")
    return ranks


def cells_of(layer: str) -> TorchProgram:
    """A loop over nn.LSTMCell or nn.GRUCell."""
    program = TorchProgram(A100)
    name = f"void at::native::(anonymous namespace)::kernel::{layer}_cell_forward<float, float, int, 1>(at::TensorInfo)"
    for _ in range(600):
        with program.op(f"aten::{layer}_cell"):
            program.run("aten::linear", SGEMM, 6, 16)
            program.run("aten::linear", SGEMM, 6, 16)
            program.run(f"aten::_thnn_fused_{layer}_cell", name, 3, 16)
    return program


def deciding_on_a_value() -> TorchProgram:
    """Inference that reads a score after each batch."""
    program = TorchProgram(A100)
    for _ in range(60):
        for _ in range(30):
            program.run("aten::linear", GEMM, 60, 512)
        program.item()
        program.host(300)
    return program


def reading_each_norm() -> TorchProgram:
    """Training that reads the norm of each gradient."""
    program = TorchProgram(A100)
    for step in range(5):
        with program.step(step):
            for _ in range(30):
                program.run("aten::addmm", GEMM, 300, 512)
            for _ in range(60):
                program.backward("AddmmBackward0", "aten::mm", GEMM, 300)
            for _ in range(200):
                program.run("aten::linalg_vector_norm", NORM, 6, 40)
                program.item()
            program.update(400, "AdamW")
    return program


def serving(*, jitter_us: float, more_us: float, from_queue: bool = False) -> TorchProgram:
    """Requests at a fixed rate: each waits until its time comes."""
    program = TorchProgram(A100)
    begun_us = program.now_us
    for request in range(40):
        due_us = begun_us + 20_000 * request + jitter_us * (request * 37 % 5)
        if from_queue:
            with program.inside("python_function", "queue.py(154): get"):
                program.now_us = max(program.now_us + 5, due_us)
        program.now_us = max(program.now_us, due_us)
        with program.op("aten::to"), program.op("aten::copy_"):
            program.copy("HtoD", 600_000, 60)
        for _ in range(60):
            program.run("aten::linear", GEMM, 90 + more_us * (request % 4), 512)
        with program.op("aten::to"), program.op("aten::copy_"):
            program.copy("DtoH", 4_000, 2)
    return program


def searching_first() -> TorchProgram:
    """Two steps, in the first of which each convolution searches for its algorithm."""
    program = TorchProgram(RTX_3090)
    for step in range(2):
        with program.step(step):
            for _ in range(30):
                with program.op("aten::cudnn_convolution"):
                    for tried in range(5 * (step == 0)):
                        program.call("cudaMalloc", 350)
                        program.launch(f"cudnn_ampere_fp16_conv2d_{tried}", 900)
                        program.call("cudaEventSynchronize", 4, waits=True)
                        program.host(6_000)
                        program.call("cudaFree", 400, waits=True)
                    program.launch("cudnn_ampere_fp16_conv2d_2", 1_500, 512)
            for _ in range(30):
                program.run("aten::addmm", GEMM, 900, 512)
    return program


def warming_up_script() -> TorchProgram:
    """A function of TorchScript that is compiled in its first two calls."""
    program = TorchProgram(RTX_3090)
    for call in range(8):
        with program.op("forward"):
            program.host(700_000 * (call < 2))
            for _ in range(20):
                program.run("aten::linear", GEMM, 200, 512)
    return program


def stepping_environments() -> TorchProgram:
    """Reinforcement learning: environments step in the process that launches, between passes of a small policy."""
    program = TorchProgram(RTX_3090)
    for step in range(6):
        with program.step(step):
            for _ in range(40):
                with program.inside("python_function", "ppo.py(80): act"):
                    for _ in range(8):
                        program.run("aten::addmm", SGEMM, 8, 32)
                    with program.op("aten::to"), program.op("aten::copy_"):
                        program.copy("DtoH", 256, 1.5)
                with program.inside("python_function", "gymnasium/vector/sync_vector_env.py(120): step_wait"):
                    program.host(2_500)
            for _ in range(30):
                program.backward("AddmmBackward0", "aten::mm", SGEMM, 60)
            program.update(60, "AdamW")
    return program


def filtering_boxes() -> TorchProgram:
    """A detector that filters the boxes of each class by itself."""
    program = TorchProgram(A100, op_us=6)
    for step in range(6):
        with program.step(step):
            for _ in range(60):
                program.run("aten::cudnn_convolution", "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32", 150, 800)
            for _ in range(40):
                with program.op("aten::nonzero"):
                    program.launch("void at_cuda_detail::cub::DeviceSelectSweepKernel<T>(int)", 3, 1)
                    program.copy("DtoH", 8, 1.4)
                with program.op("torchvision::nms"):
                    program.launch(
                        "void nms_kernel_impl<float>(int, double, float const*, unsigned long long*)", 12, 64
                    )
                program.host(60)
    return program


def updating_elsewhere() -> TorchProgram:
    """ZeRO-Offload: gradients go to the host, which updates, and parameters come back."""
    program = TorchProgram(A100)
    for step in range(4):
        with program.step(step):
            for _ in range(20):
                program.run("aten::mm", GEMM, 600, 512)
            for _ in range(40):
                program.backward("MmBackward0", "aten::mm", GEMM, 600)
            for _ in range(20):
                with program.op("aten::copy_"):
                    program.copy("DtoH", 100_000_000, 4_500, pinned=True, waits=True)
            with program.inside("user_annotation", "Optimizer.step#DeepSpeedCPUAdam.step"):
                program.host(80_000)
            for _ in range(20):
                with program.op("aten::copy_"):
                    program.copy("HtoD", 100_000_000, 4_400, pinned=True)
    return program


def in_a_ring() -> list[TorchProgram]:
    """Two ranks that share a sequence, and pass keys and values to each other after each part of attention."""
    ranks = [TorchProgram(A100, rank=rank, world=2) for rank in range(2)]
    for program in ranks:
        for step in range(5):
            with program.step(step):
                for _ in range(12):
                    program.run("aten::mm", GEMM, 1_400, 512)
                    for _ in range(2):
                        program.run("aten::_flash_attention_forward", FLASH, 700, 600)
                        program.after(20, 7)
                        name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
                        program.collective("batch_isend_irecv", name, 900, 8_000_000)
                        program.after(7, 20)
                for _ in range(12):
                    program.backward("MmBackward0", "aten::mm", GEMM, 1_800)
                program.update(300, "AdamW")
    return ranks


def over_a_vocabulary() -> TorchProgram:
    """A language model whose logits have 256,000 columns, with a cross-entropy in 32 bits."""
    program = TorchProgram(A100)
    for step in range(5):
        with program.step(step):
            for _ in range(12):
                program.run("aten::mm", GEMM, 700, 512)
            with program.op("aten::log_softmax"):
                program.run("aten::_log_softmax", SOFTMAX, 9_000, 8_000)
            program.backward("LogSoftmaxBackward0", "aten::_log_softmax_backward_data", SOFTMAX, 12_000, 8_000)
            for _ in range(24):
                program.backward("MmBackward0", "aten::mm", GEMM, 700)
            program.update(600, "AdamW")
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
    "gradients over a slow link": lambda: (
        over_a_slow_link(kind="f32"),
        "comm-blocking",
        "bf16_compress_hook",
        "bucket_cap_mb=100",
    ),
    "gradients of 16 bits over a slow link": lambda: (
        over_a_slow_link(kind="bf16"),
        "comm-blocking",
        "PowerSGDState",
        "bf16_compress_hook",
    ),
    "a search for algorithms in the first step": lambda: (searching_first(), "startup-cost", "wait=2", "synchronize()"),
    "a script that compiles": lambda: (warming_up_script(), "startup-cost", "the longest in forward", "with_stack"),
    "environments on the CPU": lambda: (stepping_environments(), "host-stalls", "step_async", "log_metrics"),
    "boxes that are filtered by class": lambda: (
        filtering_boxes(),
        "sync-dynamic-shape",
        "batched_nms",
        "repeat_interleave",
    ),
    "an optimizer on the host": lambda: (updating_elsewhere(), "d2h-large", "AdamW8bit", "checkpoint.checkpoint"),
    "attention in a ring": lambda: (in_a_ring(), "ring-exchange", "batch_isend_irecv", "micro-batch-size"),
    "logits of a large vocabulary": lambda: (
        over_a_vocabulary(),
        "vocabulary-softmax",
        "LigerFusedLinearCrossEntropyLoss",
        "ncu --set",
    ),
    "cells of LSTM": lambda: (cells_of("lstm"), "launch-bound", "torch.nn.LSTM(", "torch.stack(inputs)"),
    "cells of GRU": lambda: (cells_of("gru"), "launch-bound", "cells of GRU", "torch.stack(inputs)"),
    "a value that inference reads": lambda: (
        deciding_on_a_value(),
        "small-sync-copies",
        "torch.where(score",
        "total += value",
    ),
    "norms that training reads": lambda: (
        reading_each_norm(),
        "sync-in-step",
        "clip_grad_norm_",
        "total += value",
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
    if rule == "startup-cost":  # one finding for one time
        assert [finding.rule for finding in diagnosis.findings if not finding.rule.startswith("tq-")] == [rule]


# What must be said of requests: that they set the pace, and no promise.
SERVERS: dict[str, tuple[Callable[[], TorchProgram], str]] = {
    "requests of unlike work at a fixed rate": (lambda: serving(jitter_us=0, more_us=10), "paced-program"),
    "like requests whose times scatter around a fixed rate": (
        lambda: serving(jitter_us=30, more_us=0),
        "paced-program",
    ),
    "requests from a queue": (lambda: serving(jitter_us=900, more_us=10, from_queue=True), "waits-for-requests"),
}


@pytest.mark.parametrize("name", SERVERS)
def test_waiting_for_requests_is_named_and_no_saving_promised(name: str, tmp_path: Path) -> None:
    program, rule = SERVERS[name]
    diagnosis = diagnosed(tmp_path, program())
    assert lead_of(diagnosis).rule == rule
    assert lead_of(diagnosis).explanations == ()
    assert "saves" not in judge(diagnosis).sentence
    assert "host-stalls" not in {finding.rule for finding in diagnosis.findings}


def test_pauses_of_python_that_take_as_long_each_time_are_no_pace(tmp_path: Path) -> None:
    program, chance = TorchProgram(A100), random.Random(7)
    for _ in range(40):
        program.host(14_000 + 100 * chance.random())
        for _ in range(60):
            program.run("aten::linear", GEMM, 90, 512)
        program.item()
    assert lead_of(diagnosed(tmp_path, program)).rule == "host-stalls"


def test_a_device_that_is_nearly_idle_is_named_beside_one_that_works(tmp_path: Path) -> None:
    program = TorchProgram(A100)
    for step in range(6):
        with program.step(step):
            for _ in range(60):
                program.run("aten::mm", GEMM, 400, 512)
            program.device = 1
            program.run("aten::mean", NORM, 30, 64, stream=8)
            program.device = 0
    diagnosis = diagnosed(tmp_path, program)
    assert lead_of(diagnosis).rule == "idle-device"
    assert lead_of(diagnosis).message.startswith("Device 1 is nearly idle: the process runs 180.0 µs of kernels there")
    assert "Too little" not in judge(diagnosis).sentence
    assert "leaves some of them nearly idle" in judge(diagnosis).sentence
