"""Codes of science and of devices at the edge as Nsight Systems shows them: what leads, and what must not be said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cuda_program import A100, ORIN, CudaProgram, write_programs
from program_findings import diagnosed, lead_of, words

pytestmark = pytest.mark.check

Case = tuple[tuple[CudaProgram, ...], str, str, str]


def solving() -> CudaProgram:
    """Conjugate gradients: each iteration multiplies, and brings two dot products of cuBLAS to the host."""
    program = CudaProgram(A100)
    for _ in range(200):
        program.launch(
            "void cusparse::csrmv_v3_kernel<int, int, double, double, double, double, void>(T7)", 38, 4_000, 128
        )
        for _ in range(2):
            program.launch("void dot_kernel<double, 128, 0, cublasDotParams<double>>(T4)", 6, 160, 128)
            program.launch("void reduce_1Block_kernel<double, 128, 7, double>(const T1 *, T1)", 2.4, 1, 128)
            program.copy("DtoH", 8, 1.6)
        for _ in range(3):
            program.launch("void axpy_kernel_val<double, double>(cublasAxpyParamsVal<T1, T1, T2>)", 9, 1_000, 256)
    return program


def inferring_with_tensorrt() -> CudaProgram:
    """TensorRT's copies between layouts scale in doubles, which is no double precision."""
    program = CudaProgram(ORIN)
    name = "sm80_xmma_fprop_implicit_gemm_interleaved_i8i8_i8i32_f32_nchw_vect_c_32kcrs_vect_c_32_nchw_kernel_trt"
    reformat = "void genericReformat::copyVectorizedKernel<double, float, __half, true, true, 1>(unsigned int, void *)"
    for _ in range(60):
        program.copy("HtoD", 6_220_800, 900)
        for _ in range(20):
            program.launch(name, 95, 64, 256)
            program.launch(reformat, 30, 64, 256)
        program.copy("DtoH", 400_000, 70)
        program.host(9_000)
    return program


def converting_with_tensorrt() -> CudaProgram:
    """An engine of INT8 whose layers want other types than their neighbours: each convolution is converted for."""
    program = CudaProgram(A100)
    for _ in range(30):
        program.copy("HtoD", 2_400_000, 240)
        for _ in range(50):
            program.launch("void genericReformat::copyPackedKernel<float, signed char, true, true>(int)", 14, 300, 256)
            program.launch("sm80_xmma_fprop_implicit_gemm_interleaved_i8i8_i8i32_f32_kernel_trt", 16, 300, 256)
        program.copy("DtoH", 4_000, 2)
    return program


# The programs of one file, the rule that must lead, what it must say, and what it must not.
CASES: dict[str, Callable[[], Case]] = {
    "conjugate gradients": lambda: (
        (solving(),),
        "small-sync-copies",
        "CUBLAS_POINTER_MODE_DEVICE",
        "cudaStreamWaitEvent",
    ),
    "TensorRT": lambda: ((inferring_with_tensorrt(),), "host-stalls", "std::async", "torch"),
    "types of TensorRT": lambda: ((converting_with_tensorrt(),), "d2d-copies-excess", "trtexec", "std::swap"),
}
# What no finding of a program may be.
NEVER = {"TensorRT": "fp64-kernels"}


@pytest.mark.parametrize("name", CASES)
def test_the_lead_and_its_fix_are_right_for_the_code(name: str, tmp_path: Path) -> None:
    programs, rule, says, never = CASES[name]()
    diagnosis = diagnosed(write_programs(tmp_path / "report1.sqlite", *programs))
    leading = lead_of(diagnosis)
    assert leading.rule == rule
    assert says in words(leading)
    assert never not in words(leading)
    assert NEVER.get(name) not in {finding.rule for finding in diagnosis.findings}
