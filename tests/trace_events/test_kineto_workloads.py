"""Kinds of programs with PyTorch whose true answer is known: graphs, tables, devices without a type, waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import program_findings
import pytest
from program_findings import lead_of, words
from torch_program import A100, GEMM, MUL, RTX_3090, SGEMM, T4, TorchProgram
from workloads.workloads import LOCKED

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import judge
from tracesim import simulate_job

pytestmark = pytest.mark.check

Case = tuple[TorchProgram, str, str, str]
GATHER = "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(T)"
SCATTER = (
    "void at::native::_scatter_gather_elementwise_kernel<128, 8, "
    "at::native::_cuda_scatter_gather_internal_kernel<true, float>>(int)"
)
LOOKUP = "void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<float, long>(long*, long*)"
GRADIENT = "void at::native::(anonymous namespace)::compute_grad_weight_bags<float, long>(long*, float*, long*)"


def diagnosed(folder: Path, program: TorchProgram) -> Diagnosis:
    return program_findings.diagnosed(program.write(folder / "trace.json"))


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
                program.backward("ScatterAddBackward0", "aten::gather", SCATTER, 2_600, 4_096)
                program.backward(
                    "IndexSelectBackward0", "aten::index_add_", GATHER.replace("Select", "Func"), 4_100, 4_096
                )
                program.backward("AddmmBackward0", "aten::mm", SGEMM, 900, 4_096)
            program.update(900)
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
                program.backward("AddmmBackward0", "aten::mm", GEMM, 500, 4_096)
            for _ in range(26):
                program.backward("EmbeddingBagBackward0", "aten::_embedding_bag_dense_backward", GRADIENT, 600, 4_096)
            program.update(900)
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


def train(program: TorchProgram, layers: int, us: float) -> None:
    """Run a forward and a backward pass that the launching thread is ahead of."""
    for _ in range(layers):
        program.run("aten::addmm", GEMM, us, 512)
    for _ in range(2 * layers):
        program.backward("AddmmBackward0", "aten::mm", GEMM, us, 512)


def logging_each_loss() -> TorchProgram:
    """The loss is read in every step, and something that is not recorded follows while the queue is empty."""
    program = TorchProgram(A100)
    for step in range(6):
        with program.step(step):
            train(program, 30, 200)
            program.update(300)
            program.move("DtoH", 4, 1.3)
            program.host(3_000)
    return program


def searching_in_every_step() -> TorchProgram:
    """Each batch has sizes of its own, and with cudnn.benchmark each searches for algorithms."""
    program = TorchProgram(RTX_3090)
    for step in range(8):
        with program.step(step):
            for _ in range(20):
                with program.op("aten::cudnn_convolution"):
                    for tried in range(4):
                        program.call("cudaMalloc", 350)
                        program.launch(f"cudnn_ampere_fp16_conv2d_{tried}", 900)
                        program.call("cudaEventSynchronize", 4, waits=True)
                        program.host(3_000)
                        program.call("cudaFree", 400, waits=True)
                    program.launch("cudnn_ampere_fp16_conv2d_2", 1_500, 512)
            for _ in range(20):
                program.run("aten::addmm", GEMM, 400, 512)
    return program


def timing_candidates() -> TorchProgram:
    """Each batch has a length of its own, and Triton's autotuner times all candidates for each."""
    program = TorchProgram(A100)
    fill = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, at::Array<char*, 1> >(int)"
    for step in range(6):
        with program.step(step):
            train(program, 10, 300)
            program.synchronize()
            for _ in range(40):
                program.run("aten::zero_", fill, 160, 4_096)
                program.call("cudaEventRecord", 2)
                program.launch("_fwd_kernel", 140, 512)
                program.call("cudaEventRecord", 2)
            program.synchronize()
            program.launch("_fwd_kernel", 110, 512)
    return program


def recording_graphs() -> TorchProgram:
    """torch.compile with graphs records and instantiates one in each step, as addresses change."""
    program = TorchProgram(A100)
    for step in range(6):
        with program.step(step), program.op("Torch-Compiled Region: 0/0"):
            program.call("cudaStreamBeginCapture", 12)
            for _ in range(100):
                program.call("cuLaunchKernel", 9, category="cuda_driver")
                program.host(40)
            program.call("cudaStreamEndCapture", 900)
            program.call("cudaGraphInstantiateWithFlags", 9_000)
            program.replay([("triton_poi_fused_relu_0", 60, 512, 128), (GEMM, 200, 512, 128)] * 20)
            program.synchronize()
    return program


def tables_on_the_host() -> TorchProgram:
    """Frozen tables of embeddings on the CPU: lookups and copies hold up the GPU."""
    program = TorchProgram(A100)
    for step in range(6):
        with program.step(step):
            for _ in range(26):
                with program.op("aten::embedding_bag"), program.op("aten::_embedding_bag"):
                    program.host(700)
                program.move("HtoD", 2_000_000, 190)
            train(program, 8, 300)
            program.update(300)
    return program


def decoding_videos() -> TorchProgram:
    program = TorchProgram(A100)
    for step in range(6):
        with program.step(step):
            with program.op("torchcodec_ns::get_frames_at_indices"):
                program.host(60_000)
            program.move("HtoD", 40_000_000, 1_800, pinned=True)
            for _ in range(40):
                program.run("aten::addmm", GEMM, 400, 512)
    return program


def growing_a_cache() -> TorchProgram:
    """Each token is joined to the keys and values of all before it."""
    program = TorchProgram(A100, op_us=2)
    join = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int>(T*)"
    flash = "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(Flash_fwd_params)"
    for _ in range(20):
        for _ in range(32):
            program.run("aten::linear", GEMM, 70)
            for _ in range(2):
                program.run("aten::cat", join, 45, 2_000)
            program.run("aten::_flash_attention_forward", flash, 50, 512)
            program.run("aten::linear", GEMM, 140)
        program.item()
    return program


def transposing() -> TorchProgram:
    """Each layer copies its result into another layout."""
    program = TorchProgram(A100)
    copy = (
        "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(T)"
    )
    for step in range(5):
        with program.step(step):
            for _ in range(60):
                program.run("aten::linear", GEMM, 300, 512)
                with program.op("aten::contiguous"), program.op("aten::clone"):
                    program.run("aten::copy_", copy, 170, 4_096)
    return program


def slowed_down() -> TorchProgram:
    """The power limit lowers the clock after a third of the recording."""
    program = TorchProgram(A100)
    for step in range(12):
        us = 500 if step < 5 else 700
        with program.step(step):
            for layer in range(30):
                program.run("aten::addmm", GEMM, us, (512, 640, 768)[layer % 3])
            for layer in range(60):
                program.backward("AddmmBackward0", "aten::mm", GEMM, us, (512, 640, 768)[layer % 3])
            program.update(900)
    return program


def of_many_lengths() -> TorchProgram:
    """Batches of texts whose length varies."""
    program = TorchProgram(A100)
    for step in range(14):
        with program.step(step):
            train(program, 30, (250, 850, 400, 500, 1_050, 650, 300)[step % 7])
            program.update(900)
    return program


def saving() -> TorchProgram:
    """Every fourth step copies all parameters to the host, one by one, and writes each to a file."""
    program = TorchProgram(A100)
    for step in range(12):
        with program.step(step):
            train(program, 30, 700)
            program.update(900)
            for _ in range(60 * (step % 4 == 3)):
                program.move("DtoH", 40_000_000, 3_500)
                program.host(9_000)
    return program


def starting_epochs() -> TorchProgram:
    """Every fifth step begins an epoch, for which the loader starts its workers anew."""
    program = TorchProgram(A100)
    following = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    for step in range(15):
        with program.step(step):
            if step % 5 == 0:
                with program.inside("user_annotation", following):  # finds no batch left
                    program.host(100)
                program.host(300_000)
            with program.inside("user_annotation", following):
                program.host(1_200_000 if step % 5 == 0 else 200)
            program.move("HtoD", 40_000_000, 1_800, pinned=True)
            train(program, 30, 700)
            program.update(900)
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
    "a loss that is read before a pause": lambda: (
        logging_each_loss(),
        "sync-in-step",
        "copied.record()",
        "with_stack",
    ),
    "a search for algorithms in every step": lambda: (
        searching_in_every_step(),
        "algorithm-search-in-steps",
        "(20 calls a step, mostly aten::cudnn_convolution",
        "with_stack",
    ),
    "an autotuner in every step": lambda: (timing_candidates(), "kernel-trials-in-steps", "saves up to 55", "Healthy"),
    "graphs that torch.compile records anew": lambda: (
        recording_graphs(),
        "cudagraph-rerecord",
        "max-autotune-no-cudagraphs",
        "graphs[size].replay()",
    ),
    "tables on the host": lambda: (
        tables_on_the_host(),
        "preprocess-on-critical-path",
        'model.to("cuda")',
        "transform(batch)",
    ),
    "videos decoded in the loop": lambda: (
        decoding_videos(),
        "preprocess-on-critical-path",
        "VideoDecoder",
        "transform(batch)",
    ),
    "a cache that grows by joins": lambda: (
        growing_a_cache(),
        "d2d-copies-excess",
        "cache_implementation",
        "block = torch.compile(block)",
    ),
    "a clock that falls": lambda: (slowed_down(), "gpu-slows-down", "take 1.40 times as long", "Healthy"),
    "batches of many lengths": lambda: (
        of_many_lengths(),
        "step-time-jitter",
        "the kernels themselves take longer",
        "would save",
    ),
    "checkpoints now and then": lambda: (
        saving(),
        "checkpoint-in-window",
        "60 copies to the host without a kernel between them, 2.2 GiB in",
        "with_stack",
    ),
    "epochs whose workers start anew": lambda: (
        starting_epochs(),
        "dataloader-bound",
        "persistent_workers=True, **settings",
        "prefetch_factor",
    ),
    "results that change their layout": lambda: (
        transposing(),
        "d2d-copies-excess",
        "no .contiguous()",
        "torch.cat",
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


def beside_another_thread() -> TorchProgram:
    """Another thread of Python encodes, and holds the interpreter for 5 ms at a time."""
    program = TorchProgram(A100)
    for step in range(5):
        with program.step(step), program.inside("python_function", "train.py(40): step"):
            for layer in range(300):
                program.run("aten::linear", GEMM, 30)
                begun_us = program.now_us
                program.host(5_000 * (layer % 10 == 9))
                with program.on(7_700):
                    for place in range(60 * (layer % 10 == 9)):
                        program.now_us = begun_us + 20 + 80 * place
                        with program.inside("python_function", "metrics.py(31): encode"):
                            program.host(70)
                program.now_us = begun_us + 5_000 * (layer % 10 == 9)
    return program


def test_a_thread_that_holds_the_interpreter_is_named(tmp_path: Path) -> None:
    leading = lead_of(diagnosed(tmp_path, beside_another_thread()))
    (because,) = (item for item in leading.explanations if item.rule == "interpreter-lock")
    assert "another thread runs Python, mostly metrics.py(31): encode." in because.message


def test_waits_for_the_interpreter_are_named_in_an_export_of_nsys(tmp_path: Path) -> None:
    (export,) = simulate_job(LOCKED["interpreter lock"]).write_nsys(tmp_path)
    leading = lead_of(program_findings.diagnosed(export))
    assert "interpreter-lock" in {item.rule for item in leading.explanations}


# Programs with nothing to win.
HEALTHY: dict[str, Callable[[], TorchProgram]] = {
    "bfloat16 on a device that has it": lambda: in_bfloat16(on_turing=False),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_workload_with_nothing_to_win_is_healthy(name: str, tmp_path: Path) -> None:
    assert "Healthy" in judge(diagnosed(tmp_path, HEALTHY[name]())).sentence
