"""Applications and languages that are not PyTorch: what leads, and a fix that their users can make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cuda_program import A100, CudaProgram, write_programs
from program_findings import diagnosed, lead_of, words

pytestmark = pytest.mark.check

# What a program has, the rule that leads, what it says, and what nothing of it says.
Case = tuple[CudaProgram, str, str, str]
OPERATOR = "_Z27gpu_broadcast_kernel_linear16CompilerMetadataI11DynamicSize12DynamicCheckv"
WEIGHTS = "void mul_mat_vec_q<(ggml_type)12, 1>(const void *, const void *, float *)"


def groups_of_frames() -> CudaProgram:
    """cuDF without a pool asks the driver around each kernel."""
    program = CudaProgram(A100)
    for _ in range(200):
        program.call("cudaMalloc_v3020", 210)
        program.launch("void cudf::hash::compute_groupby<int>(cudf::table_device_view)", 220, 2_000, 256)
        program.launch("void thrust::cuda_cub::core::_kernel_agent<ParallelForAgent>(T2)", 40, 2_000, 256)
        program.synchronize()
        program.call("cudaFree_v3020", 190)
    return program


def small_frames() -> CudaProgram:
    """Python around each call of cuDF takes much longer than its kernel."""
    program = CudaProgram(A100)
    for _ in range(300):
        program.host(260)
        program.launch("void cudf::binops::compiled::for_each_kernel<Add>(int)", 5, 40, 256)
    program.synchronize()
    return program


def broadcasts() -> CudaProgram:
    """Each operator of Julia is a kernel of its own, and the host reads a sum after some."""
    program = CudaProgram(A100, driver_api=True)
    for _ in range(300):
        for _ in range(6):
            program.launch(OPERATOR, 40, 2_048, 256)
        program.launch("_Z22partial_mapreduce_grid8identity7add_sum7Float32", 25, 512, 512)
        program.copy("DtoH", 4, 1.2)
    program.synchronize()
    return program


def small_broadcasts() -> CudaProgram:
    """Each operator of Julia is a kernel of its own, which takes the host longer than the device."""
    program = CudaProgram(A100, driver_api=True)
    for _ in range(3_000):
        program.host(5)
        program.launch(OPERATOR, 3, 40, 256)
    program.synchronize()
    return program


def layers_on_the_host() -> CudaProgram:
    """llama.cpp computes half of the layers of each token on the CPU."""
    program = CudaProgram(A100)
    for _ in range(50):
        program.host(24_000)
        program.copy("HtoD", 16_384, 3)
        for _ in range(16):
            program.launch(WEIGHTS, 120, 11_008, 128, call_us=2.4)
        program.copy("DtoH", 16_384, 3)
    return program


def one_token_at_a_time() -> CudaProgram:
    """llama.cpp samples each token on the host before the next one begins."""
    program = CudaProgram(A100)
    for _ in range(60):
        program.copy("HtoD", 16_384, 3)
        for _ in range(100):
            program.launch(WEIGHTS, 30, 11_008, 128, call_us=2.4)
        program.copy("DtoH", 600_000, 30)
        program.host(700)
    return program


def molecules() -> CudaProgram:
    """Kernels of a small system in GROMACS are over before the next one is launched."""
    program = CudaProgram(A100)
    for _ in range(400):
        program.host(30)
        program.launch("void nbnxn_kernel_ElecEwTwinCut_VdwLJ_F_cuda(NBAtomDataGpu)", 9, 7_000, 64)
        for part in ("SplineAndSpreadKernel", "SolveKernel", "GatherKernel"):
            program.launch(f"void pme{part}<4, 1, 1>(PmeGpuCudaKernelParams)", 3, 400, 64)
    program.synchronize()
    return program


def decoding_frames() -> CudaProgram:
    """A thread that infers waits for the one that decodes, for three quarters of each frame."""
    program = CudaProgram(A100, driver_api=True)
    for _ in range(200):
        program.system("pthread_cond_wait", 4_800)
        program.launch("nv12_to_rgb(unsigned char*, int, unsigned char*)", 60, 3_600, 256)
        for _ in range(30):
            program.launch("trt_volta_h884cudnn_256x64_ldg8_relu_exp_medium_nhwc_tn_v1", 45, 320, 256)
        program.copy("DtoH", 4_096, 2)
    return program


def offloading() -> CudaProgram:
    """Each target region of OpenMP allocates its arrays, copies them in and out, and frees them."""
    program = CudaProgram(A100, driver_api=True)
    for _ in range(300):
        program.call("cuMemAlloc_v2", 120)
        program.copy("HtoD", 8 << 20, 700)
        program.launch("__omp_offloading_10302_3fa2_jacobi_l52", 180, 4_096, 128)
        program.synchronize()
        program.copy("DtoH", 8 << 20, 720)
        program.call("cuMemFree_v2", 90)
    return program


def rows_of_a_matrix() -> CudaProgram:
    """A matrix whose rows lie apart on the host is copied row by row, and the host waits for each."""
    program = CudaProgram(A100)
    for _ in range(6):
        for _ in range(1_500):
            program.copy("HtoD", 4_096, 1.6)
        program.launch("factorize(float *, int)", 1_200, 4_000, 256)
        program.synchronize()
    return program


def half_on_the_host() -> CudaProgram:
    """A simulation computes part of each iteration on the host, between a copy to it and one back."""
    program = CudaProgram(A100)
    for _ in range(50):
        program.launch("gather_forces(double *)", 900, 4_000, 128)
        program.launch("integrate(double *)", 1_100, 4_000, 128)
        program.copy("DtoH", 2 << 20, 190, pinned=True)
        program.host(8_000)
        program.copy("HtoD", 2 << 20, 190, pinned=True)
    return program


def nodes_on_the_host() -> CudaProgram:
    """ONNX Runtime runs nodes on the CPU that its CUDA provider lacks, between a copy to the host and one back."""
    program = CudaProgram(A100)
    for _ in range(60):
        for _ in range(8):
            program.launch(
                "void onnxruntime::cuda::_UnaryElementWise<__half, OP_Gelu<__half>, 256, 4>(T)", 90, 2_000, 256
            )
        program.copy("DtoH", 2 << 20, 200)
        program.host(1_500)
        program.copy("HtoD", 2 << 20, 190)
    return program


def whole_replays() -> CudaProgram:
    """An engine replays one graph a token, which nsys records as one block, and works between two of them."""
    program = CudaProgram(A100)
    for _ in range(60):
        program.host(1_500)
        program.replay(9_000)
        program.launch("argmax_kernel(float const*, int*)", 8, 64, 512)
        program.read_later(2_048, 2)
        program.host(1_000)
    return program


CASES: dict[str, Callable[[], Case]] = {
    "cuDF": lambda: (groups_of_frames(), "alloc-in-steady-state", "rmm.reinitialize", "thrust::"),
    "small frames": lambda: (small_frames(), "host-stalls", "dask_frames.repartition", "std::async"),
    "Julia": lambda: (broadcasts(), "unfused-elementwise", "@. y = a * x", "thrust"),
    "small arrays in Julia": lambda: (small_broadcasts(), "launch-bound", "CUDA.@captured", "cudaStreamBeginCapture"),
    "llama.cpp that leaves layers to the CPU": lambda: (layers_on_the_host(), "host-stalls", "-ngl 99", "read_input"),
    "llama.cpp": lambda: (one_token_at_a_time(), "sync-in-step", "-np 8", "torch"),
    "frames of a decoder": lambda: (decoding_frames(), "host-stalls", "waits for another thread", "nsys profile"),
    "OpenMP": lambda: (offloading(), "d2h-large", "#pragma omp target data", "#pragma acc"),
    "rows of a matrix": lambda: (
        rows_of_a_matrix(),
        "transfers-many-small",
        "saves up to 90.3 %",
        "pinned memory save",
    ),
    "half on the host": lambda: (
        half_on_the_host(),
        "host-stalls",
        "instead of a copy, a loop on the host",
        "probably reads",
    ),
    "replays recorded whole": lambda: (whole_replays(), "host-stalls", "saves up to 21.4 %", "after every launch"),
    "ONNX Runtime": lambda: (nodes_on_the_host(), "host-stalls", "log_severity_level", "std::async"),
    "GROMACS": lambda: (molecules(), "launch-bound", "GMX_CUDA_GRAPH=1", "torch"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_fix_is_one_that_its_users_can_make(name: str, tmp_path: Path) -> None:
    program, rule, says, never = CASES[name]()
    diagnosis = diagnosed(write_programs(tmp_path / "report1.sqlite", program))
    leading = lead_of(diagnosis)
    assert (leading.rule, says in words(leading)) == (rule, True)
    assert never not in " ".join(map(words, diagnosis.findings))


def test_a_server_that_waits_for_requests_is_promised_little(tmp_path: Path) -> None:
    program = CudaProgram(A100)
    for request in range(150):
        program.system("pthread_cond_timedwait", (5_000, 8_000, 12_000, 3_000)[request * 7 % 4])
        program.copy("HtoD", 600_000, 60, pinned=True)
        for _ in range(40):
            program.launch("sm75_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc", 40, 160, 256)
        program.synchronize()
    leading = lead_of(diagnosed(write_programs(tmp_path / "report1.sqlite", program)))
    assert (leading.confidence, leading.confidence_because) == (
        "low",
        "without steps, the thread waits longer for others than for the GPU, and they may set its pace",
    )


def test_a_busy_device_is_left_alone_in_any_language(tmp_path: Path) -> None:
    for number, name in enumerate((OPERATOR, WEIGHTS, "void cudf::detail::gather_kernel<int>(column_device_view)")):
        program = CudaProgram(A100)
        for part in range(900):
            program.launch(name.replace("kernel", f"kernel{part % 6}"), 400, 8_192, 256)
        program.synchronize()
        findings = diagnosed(write_programs(tmp_path / f"report{number}.sqlite", program)).findings
        assert {finding.rule for finding in findings} <= {
            "unfused-elementwise",
            "dominant-kernel",
            "tq-no-step-markers",
        }
