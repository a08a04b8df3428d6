"""Programs with PyTorch as its profiler shows them: what leads, and the fix for the program at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import program_findings
import pytest
from program_findings import lead_of, words
from torch_program import A100, GEMM, MUL, RTX_3090, RTX_4090, T4, V100, TorchProgram

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.run import open_run

pytestmark = pytest.mark.check

Case = tuple[TorchProgram, str, str, str]
SELECT = "void at_cuda_detail::cub::DeviceSelectSweepKernel<at_cuda_detail::cub::DispatchSelectIf>(int)"
INDEX = "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel>(long)"
CONV = "volta_scudnn_128x64_relu_interior_nn_v1"
ZERO = "LinearFunctionForZeroStage3"


def diagnosed(folder: Path, program: TorchProgram) -> Diagnosis:
    return program_findings.diagnosed(program.write(folder / "trace.json"))


def find_sizes(program: TorchProgram) -> None:
    """Ask for the places that are not zero, and wait to learn how many there are."""
    with program.op("aten::nonzero"):
        program.launch(SELECT, 3, 1)
        program.copy("DtoH", 8, 1.4, waits=True)
        program.launch(SELECT, 4, 1)


def in_double_precision() -> TorchProgram:
    program = TorchProgram(RTX_3090)
    for step in range(4):
        with program.step(step):
            for _ in range(8):
                program.run(
                    "aten::addmm", "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x32_16x4_tn_align1>(P)", 1500
                )
                program.run("aten::tanh", MUL.replace("float", "double"), 200, 1_000)
    return program


def detecting() -> TorchProgram:
    """A detector that looks for the boxes of each class: it decodes no tokens."""
    program = TorchProgram(V100, op_us=6)
    for step in range(4):
        with program.step(step):
            for _ in range(60):
                program.run(
                    "aten::cudnn_convolution", "volta_h884cudnn_256x64_ldg8_relu_exp_small_nhwc_tn_v1", 300, 800
                )
                find_sizes(program)
                program.host(100)
    return program


def routing() -> TorchProgram:
    """A loop over experts, without steps: each asks which tokens are its own."""
    program = TorchProgram(A100, op_us=8)
    for _ in range(20):
        program.run("aten::topk", SELECT, 14, 512)
        for _ in range(8):
            find_sizes(program)
            program.run("aten::index", INDEX, 6, 128)
            program.run("aten::linear", GEMM, 25, 128)
            program.run("aten::index_add_", INDEX, 8, 256)
    return program


def updating_on_the_host() -> TorchProgram:
    """DeepSpeed's optimizer in C++, which records no operators."""
    program = TorchProgram(V100)
    for step in range(4):
        with program.step(step):
            for _ in range(24):
                program.run("aten::mm", "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", 1400, 320)
            program.synchronize("Stream")
            with program.inside("user_annotation", "Optimizer.step#DeepSpeedCPUAdam.step"):
                program.host(60_000)
            program.move("HtoD", 1_000, 1)
    return program


def pausing_in_a_range() -> TorchProgram:
    """A range that the program marks, in which it calls nothing that PyTorch records."""
    program = TorchProgram(A100)
    for step in range(5):
        with program.step(step):
            with program.inside("user_annotation", "augment"):
                program.host(9_000)
            for _ in range(10):
                program.run("aten::mm", GEMM, 300)
    return program


def offloading() -> TorchProgram:
    """The weights of each layer come from pageable memory, whenever it is their turn."""
    program = TorchProgram(T4)
    for _ in range(24):
        for _ in range(4):
            program.move("HtoD", 33_554_432, 11_000)
        for _ in range(4):
            program.run("aten::linear", "turing_fp16_s1688gemm_fp16_64x64_sliced1x2_ldg8_f2f_tn", 180, 64)
    return program


def loading_once() -> TorchProgram:
    program = TorchProgram(A100)
    program.move("HtoD", 2_000_000_000, 600_000)
    for _ in range(200):
        program.run("aten::mm", GEMM, 300)
    return program


def with_few_rows() -> TorchProgram:
    program = TorchProgram(V100)
    name = "void at::native::(anonymous namespace)::compute_grad_weight<float, long>(long*, float*, long*, long, long)"
    for step in range(4):
        with program.step(step):
            for _ in range(10):
                program.run("aten::mm", "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", 350)
            with program.on(4_500), program.op("aten::embedding_dense_backward"):
                program.launch(name, 42_000, 16)
    return program


def depthwise() -> TorchProgram:
    program = TorchProgram(A100)
    name = (
        "void at::native::(anonymous namespace)::conv_depthwise2d_grad_weight_kernel<float, int>(at::Accessor<float>)"
    )
    for step in range(4):
        with program.step(step):
            for _ in range(10):
                program.run(
                    "aten::cudnn_convolution", "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc", 500
                )
            with program.on(4_500):
                for _ in range(10):
                    program.run("aten::_conv_depthwise2d_backward", name, 4_800, 576)
    return program


def sharded_by_deepspeed() -> TorchProgram:
    program = TorchProgram(A100, rank=0, world=4)
    for step in range(4):
        with program.step(step):
            for _ in range(12):
                program.after(20, 7)
                name = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                program.collective("_allgather_base", name, 3_300, 50_000_000)
                program.after(7, 20)
                with program.op(ZERO):
                    for _ in range(7):
                        program.run("aten::mm", GEMM, 800)
    return program


def decoding_in_four_bits() -> TorchProgram:
    program = TorchProgram(RTX_4090, op_us=8)
    name = "void kgemm_4bit_inference_naive<__nv_bfloat16, 128, 16>(int, int, int, __nv_bfloat16*, unsigned char*)"
    for _ in range(200):
        for _ in range(4):
            program.run("bitsandbytes::gemv_4bit", name, 9, 1024)
        for _ in range(8):
            program.run("aten::mul", MUL, 1.5, 8)
    return program


def training_compiled() -> TorchProgram:
    """A compiled model: its backward pass shows no operators of autograd's engine."""
    program = TorchProgram(V100)
    for step in range(4):
        with program.step(step):
            for _ in range(10):
                program.run("aten::mm", "volta_sgemm_128x64_tn", 350)
            with program.on(4_500), program.op("CompiledFunctionBackward"):
                for _ in range(20):
                    program.run("aten::mm", "volta_sgemm_128x64_nt", 350)
    return program


def acting_in_a_simulator() -> TorchProgram:
    """A policy of small kernels, whose action a simulator on the host needs: the copies of a few bytes cost nothing."""
    program = TorchProgram(T4)
    for _ in range(150):
        program.move("HtoD", 256, 1.2)
        for _ in range(4):
            program.run("aten::addmm", "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>(int)", 5, 4)
        program.move("DtoH", 24, 1.2)
        program.host(1_500)
    return program


def searching_for_algorithms() -> TorchProgram:
    """cuDNN tries its algorithms in the first call for each shape, each in memory of its own."""
    program = TorchProgram(RTX_3090)
    for iteration in range(3):
        for _ in range(30):
            with program.op("aten::cudnn_convolution"):
                for tried in range(5 * (iteration == 0)):
                    program.call("cudaMalloc", 350)
                    program.launch(f"cudnn_ampere_fp16_conv2d_{tried}", 900)
                    program.call("cudaEventSynchronize", 4, waits=True)
                    program.host(6_000)
                    program.call("cudaFree", 400, waits=True)
                program.launch("cudnn_ampere_fp16_conv2d_2", 1_500, 512)
        for _ in range(30):
            program.run("aten::addmm", GEMM, 900, 512)
    return program


def copying_at_the_speed_of_the_link() -> TorchProgram:
    """Copies follow each other on a stream of their own, and take longer than the kernels beside them."""
    program = TorchProgram(RTX_3090)
    for _ in range(12):
        with program.op("aten::copy_"):
            program.copy("HtoD", 268_435_456, 11_000, pinned=True)
        program.after(13, 7)
        for _ in range(12):
            program.run("aten::mm", GEMM, 500, 512, stream=13)
    return program


def timing_one_operator() -> TorchProgram:
    program = TorchProgram(A100)
    for _ in range(1_000):
        program.run("aten::add", MUL, 2.4, 64)
    program.synchronize()
    return program


def evaluating_with_metrics() -> TorchProgram:
    """Each metric asks for the size of a result, which empties the queue, before it reads values that are there."""
    program = TorchProgram(RTX_3090, op_us=8)
    for _ in range(50):
        for _ in range(20):
            program.run("aten::cudnn_convolution", "ampere_h16816cudnn_256x64_ldg8_relu_exp_small_nhwc_tn_v1", 110, 512)
        for _ in range(3):
            with program.op("aten::_unique2"):
                program.launch(SELECT, 5, 8)
                program.copy("DtoH", 8, 1.3, waits=True)
            program.item()
            program.host(120)
        program.item()
    return program


def decoding_after_an_encoder() -> TorchProgram:
    """The first read of a decoder waits for the whole encoder; what follows waits for the host."""
    program = TorchProgram(T4, op_us=9)
    for _ in range(60):
        program.run("aten::linear", "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", 480, 320)
    for _ in range(80):
        for _ in range(24):
            program.run("aten::linear", "void gemvNSP_kernel<__half, __half, __half, float, 1, 32, 4, 1024>(P)", 6, 24)
            program.run("aten::gelu", MUL, 2, 24)
        program.item()
    return program


# The program, the rule that must lead, what it must say, and what it must not.
CASES: dict[str, Callable[[], Case]] = {
    "a simulator on the host": lambda: (acting_in_a_simulator(), "host-stalls", "with_stack", "total += value"),
    "all in double precision": lambda: (
        in_double_precision(),
        "fp64-kernels",
        "computes doubles at a 64th of the rate of single precision",
        "while the rest of the program does not",
    ),
    "sizes of results in each step": lambda: (detecting(), "sync-dynamic-shape", "60× a step", "token"),
    "sizes of results without steps": lambda: (routing(), "sync-dynamic-shape", "grouped_mm", "total += value"),
    "an optimizer on the host": lambda: (updating_on_the_host(), "optimizer-on-cpu", "AdamW8bit", "with_stack"),
    "a pause in a range": lambda: (pausing_in_a_range(), "host-stalls", "during augment", "not recorded"),
    "weights from the host": lambda: (offloading(), "weight-streaming", "device_map", "pin_memory"),
    "data that is loaded once": lambda: (loading_once(), "h2d-pageable", "pin_memory=True", "DataLoader"),
    "an embedding with few rows": lambda: (with_few_rows(), "tiny-grid", "one_hot", "triton"),
    "a depthwise convolution": lambda: (depthwise(), "dominant-kernel", "channels_last", "torch.compile"),
    "ZeRO stage 3": lambda: (
        sharded_by_deepspeed(),
        "comm-blocking",
        "stage3_prefetch_bucket_size",
        "set_modules_to_forward_prefetch",
    ),
    "a compiled model in training": lambda: (
        training_compiled(),
        "tensor-cores-unused",
        "GradScaler",
        "y = model(x)",
    ),
    "a search for algorithms": lambda: (
        searching_for_algorithms(),
        "startup-cost",
        "the longest in aten::cudnn_convolution",
        "with_stack",
    ),
    "copies that fill the link": lambda: (
        copying_at_the_speed_of_the_link(),
        "h2d-exposed",
        "Copying less saves up to",
        "two batches ahead",
    ),
    "a loop over one operator": lambda: (timing_one_operator(), "launch-bound", "measured_call()", "reduce-overhead"),
    "metrics that ask for sizes": lambda: (
        evaluating_with_metrics(),
        "sync-dynamic-shape",
        "mostly aten::_unique2",
        "total += value",
    ),
    "a decoder after an encoder": lambda: (
        decoding_after_an_encoder(),
        "launch-bound",
        "reduce-overhead",
        "total += value",
    ),
    "weights of four bits": lambda: (decoding_in_four_bits(), "launch-bound", "reduce-overhead", "own kernel"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_lead_and_its_fix_are_right_for_the_program(name: str, tmp_path: Path) -> None:
    program, rule, says, never = CASES[name]()
    diagnosis = diagnosed(tmp_path, program)
    leading = lead_of(diagnosis)
    assert leading.rule == rule
    assert says in words(leading)
    assert never not in words(leading)
    assert "Healthy" not in judge(diagnosis).sentence
    # No bound is made of time that its fix leaves.
    assert "small-sync-copies" not in {finding.rule for finding in diagnosis.findings}


def test_a_call_lies_in_the_operator_that_takes_as_long_whatever_their_order_in_the_file(tmp_path: Path) -> None:
    program = TorchProgram(A100)
    for _ in range(10):
        program.move("HtoD", 33_554_432, 11_000)
        for _ in range(30):
            program.run("aten::mm", GEMM, 180)
    calls = {event["args"].get("External id"): event for event in program.events if event["cat"] == "cuda_runtime"}
    for event in program.events:
        # Recorders in whole microseconds give both the same times, and tools sort calls before operators.
        if event["name"] == "aten::copy_":
            event |= {key: calls[event["args"]["External id"]][key] for key in ("ts", "dur")}
    with open_run(program.write(tmp_path / "trace.json"), store=tmp_path / "store", jobs=1) as run:
        waits = run.sql("SELECT sum(dur_ns) / 1e6 FROM ledger_rows WHERE cause = 'host.memcpy_block'").fetchall()
    assert waits[0][0] > 100
