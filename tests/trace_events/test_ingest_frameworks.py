"""Which profiler recorded a trace, and what its program is written with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import corpus_runs
from nsys_export import STRINGS, ingest, launched
from text_tables import rows
from trace_event_tables import events, read, slice_text

from traceanalyzer.ingest.sink import TraceSink, recognise_framework
from traceanalyzer.report.json import document
from traceanalyzer.run import open_run

NAMES = """
place  framework     name
host   sglang        /sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py(2101): run_batch
host   sglang        step[DECODE bs=32]
host   vllm          vllm/v1/worker/gpu_model_runner.py(3380): execute_model
host   vllm          execute_32_context_0(sq0sk0)_generation_32(sq32sk55086)
host   vllm          execute_context_4(512)_generation_28(28)
host   vllm          gpu_model_runner: forward
gpu    vllm          void vllm::rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16 const*)
host   tensorrt-llm  [Executor] _forward_step 12: 0 ctx reqs, 4 gen reqs
host   tensorrt-llm  tensorrt_llm/_torch/pyexecutor/py_executor.py(901): _executor_loop
gpu    tensorrt-llm  void tensorrt_llm::kernels::mmha::masked_multihead_attention_kernel<unsigned short>(int)
host   tensorrt      ExecutionContext::enqueue
gpu    tensorrt      trt_ampere_h16816gemm_128x64_ldg8_stages_64x5_nn_v1
gpu    tensorrt      void genericReformat::copyPackedKernel<float, signed char, true, true>(unsigned int)
host   jax           PjitFunction(train_step)
host   jax           XlaModule:#hlo_module=jit_train_step,program_id=7#
host   jax           jit_train_step(13285912365)
gpu    jax           input_reduce_fusion_62
host   tensorflow    tensorflow/python/eager/def_function.py(889): __call__
gpu    tensorflow    void tensorflow::functor::FillPhiloxRandomKernelLaunch<float>(unsigned long)
host   pytorch       aten::mm
host   pytorch       torch/nn/modules/module.py(1784): _call_impl
gpu    pytorch       void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float> >(int)
gpu    pytorch       triton_poi_fused_add_cos_sin_0
host   onnxruntime   SequentialExecutor::Execute
gpu    onnxruntime   void onnxruntime::cuda::_UnaryElementWise<float, float>(float const*, float*, int)
gpu    cupy          cupy_copy__float32_float32
gpu    numba         cudapy::__main__::add(Array<float, 1, C, mutable, aligned>)
gpu    numba         _ZN6cudapy8__main__3addB2v1E5ArrayIfLi1E1C7mutable7alignedE
gpu    rapids        void cudf::hash::compute_groupby<int>(cudf::table_device_view)
gpu    rapids        void ML::Solver::cd_fit<float>(float*, int)
gpu    julia         _Z27gpu_broadcast_kernel_linear16CompilerMetadataI11DynamicSize12DynamicCheckv
gpu    julia         _Z3add13CuDeviceArrayI7Float32Li1ELi1EES_
gpu    llama.cpp     void mul_mat_vec_q<(ggml_type)12, 1>(const void *, const void *, float *)
gpu    llama.cpp     void k_bin_bcast<&op_add, float, float, float>(const float *)
gpu    gromacs       void nbnxn_kernel_ElecEwTwinCut_VdwLJ_F_cuda(NBAtomDataGpu, NBParamGpu)
gpu    gromacs       void pmeSplineAndSpreadKernel<4, 1, 1>(PmeGpuCudaKernelParams)
gpu    openmp        nvkernel_add2s2_omp__F1L1959_25_
gpu    openmp        __omp_offloading_fd02_2a0b1c_main_l32
gpu    openmp        main$_omp_fn$0
gpu    openacc       jacobi_47_gpu
gpu    openacc       __pgi_uacc_cuda_fill_32_gpu
host   openacc       Compute Construct@jacobi.c:47
host   sycl          zeCommandListAppendLaunchKernel
host   sycl          urEnqueueKernelLaunch
host   hip           hipLaunchKernel
host   cuda          cudaLaunchKernel_v7000
host   cuda          cuInit
gpu    cuda          Fan1(float *, float *, int, int)
host   -             transformers/utils/generic.py(236): is_jax_tensor
host   -             trl/extras/vllm_client.py(12): generate
host   -             customer_order
host   -             piKernel
host   -             jit_compiler.py(3): run
"""


def recognised(folder: Path, host: list[str], gpu: list[str], processes: list[str], *, by_pytorch: bool) -> str | None:
    sink = TraceSink(folder)
    for table, names in (("host_slices", host), ("gpu_ops", gpu)):
        pq.write_table(pa.table({"name": pa.array(names, pa.string())}), sink.path(table))
    with duckdb.connect() as connection:
        return recognise_framework(connection, sink, processes, by_pytorch=by_pytorch)


@pytest.mark.parametrize("row", rows(NAMES), ids=lambda row: row["name"][:60])
def test_a_name_shows_the_framework(row: dict[str, Any], tmp_path: Path) -> None:
    host, gpu = ([row["name"]] if row["place"] == place else [] for place in ("host", "gpu"))
    assert recognised(tmp_path, host, gpu, [], by_pytorch=False) == row["framework"]


@pytest.mark.parametrize(
    ("host", "gpu", "framework"),
    [
        (["aten::mm", "vllm/v1/engine/core.py(12): step", "cudaLaunchKernel"], ["at::native::fill"], "vllm"),
        (["sglang/srt/managers/io.py(1): f", "vllm::unified_attention"], ["void vllm::rms_norm(int)"], "sglang"),
        (["flashinfer/fused_moe/core.py(2106): trtllm_fp4"], ["tensorrt_llm::kernels::f", "at::native::f"], "pytorch"),
        (["ExecutionContext::enqueue", "aten::mm"], [], "tensorrt"),
        (["cudaLaunchKernel"], ["jacobi_47_gpu", "Memcpy HtoD (Pageable -> Device)"], "openacc"),
        (["PjitFunction(f)", "cuLaunchKernel"], ["loop_add_fusion"], "jax"),
        ([], [], None),
    ],
)
def test_the_most_specific_framework_is_the_programs(
    host: list[str], gpu: list[str], framework: str | None, tmp_path: Path
) -> None:
    assert recognised(tmp_path, host, gpu, [], by_pytorch=False) == framework


def test_what_pytorchs_profiler_recorded_runs_pytorch(tmp_path: Path) -> None:
    assert recognised(tmp_path / "a", ["cudaLaunchKernel"], ["gemm"], [], by_pytorch=True) == "pytorch"
    assert recognised(tmp_path / "b", ["step[DECODE bs=4]"], [], [], by_pytorch=True) == "sglang"


def named(process: str, *names: str) -> str:
    """Return trace events of one process, as any tool may write them."""
    naming = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": process}}
    slices = [{"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": 10, "dur": 5} for name in names]
    return json.dumps({"traceEvents": [naming, *slices]})


def onnxruntime() -> str:
    """Return a profile of ONNX Runtime: a list of events, with kernels of no process."""
    host = {"cat": "Session", "ph": "X", "pid": 9, "tid": 9, "ts": 10, "dur": 90, "args": {}}
    node = {"args": {"op_name": "Conv", "provider": "CUDAExecutionProvider"}, "dur": 50}
    kernel = {"cat": "Kernel", "pid": -1, "tid": -1, "ts": 40, "dur": 9, "args": {"stream": "7", "grid_x": "8"}}
    return json.dumps(
        [
            host | {"name": "model_run"},
            host | {"name": "SequentialExecutor::Execute"},
            host | node | {"cat": "Node", "name": "Conv_0_kernel_time"},
            host
            | kernel
            | {"name": "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(float const*)"},
        ]
    )


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("document", "recorder", "framework"),
    [
        (events(slice_text("aten::mm")), "kineto", "pytorch"),
        ("[" + slice_text("forward") + "]", "kineto", "pytorch"),
        (events(slice_text("vllm/v1/engine/core.py(12): step")), "kineto", "vllm"),
        (named("CPU functions", "addmm"), "chrome", "pytorch"),
        (named("/host:CPU", "PjitFunction(f)"), "jax", "jax"),
        (named("/device:GPU:0", "jit_train_step(13285912365)"), "jax", "jax"),
        (named("/host:CPU", "EagerLocalExecute: MatMul"), "tensorflow", "tensorflow"),
        (named("/job:localhost/replica:0/task:0/device:GPU:0 Compute", "MatMul"), "tensorflow", "tensorflow"),
        (named("CPU HIP API", "hipLaunchKernel"), "rocprof", "hip"),
        (named("browser", "paint"), "chrome", None),
        (onnxruntime(), "chrome", "onnxruntime"),
    ],
    ids=[
        "Kineto",
        "no head",
        "engine",
        "autograd",
        "JAX",
        "JAX device",
        "TF",
        "TF timeline",
        "rocprof",
        "other",
        "ONNX Runtime",
    ],
)
def test_a_json_trace_says_what_recorded_it(document: str, recorder: str, framework: str | None) -> None:
    (trace,) = read(document)["traces"]
    assert (trace["recorder"], trace["framework"]) == (recorder, framework)
    assert (trace["format"] == "kineto") <= (recorder == "kineto")


@pytest.mark.parametrize(("kernel", "framework"), [("gemm_kernel", "cuda"), ("jacobi_47_gpu", "openacc")])
def test_an_export_says_what_the_program_is_written_with(kernel: str, framework: str, tmp_path: Path) -> None:
    strings = [{**row, "value": str(row["value"]).replace("gemm_kernel", kernel)} for row in STRINGS]
    found = ingest(tmp_path, {**launched(1), "StringIds": strings})
    assert (found.column("traces", "recorder"), found.column("traces", "framework")) == (["nsys"], [framework])


# What every trace of the corpus is, as its names read: all that is not listed is PyTorch's.
OF_CORPUS = """
trace                                  recorder  framework
kineto/mi300_sglang_prefill_decode     kineto    sglang
kineto/mi300_vllm_full_graph           kineto    vllm
kineto/mi300_vllm_piecewise_graph      kineto    vllm
more/b200_vllm_moe_eager               kineto    vllm
more/mi300_sglang_decode               kineto    sglang
more/mi300_sglang_graph_capture        kineto    sglang
more/mi300_vllm_graph_capture          kineto    vllm
more/cupy_transit_search_3060          nsys      cupy
more/simplex_3090                      nsys      cuda
more/mfu_2gpu_after                    nsys      pytorch
more/mfu_2gpu_before                   nsys      pytorch
nsys/a100_cloverleaf_mpi_2024.5        nsys      cuda
nsys/a100_saxpy_backtrace_2022.2       nsys      cuda
nsys/cuda_2025.1                       nsys      cuda
nsys/cuda_2026.1                       nsys      cuda
nsys/cuda_graph_2025.5                 nsys      cuda
nsys/h100x2_2026.2                     nsys      pytorch
nsys/h100x2_training_2026.2            nsys      pytorch
nsys/healthy_1pct_minimal_columns      nsys      pytorch
nsys/no_kernels_2025.1                 nsys      cuda
nsys/no_metadata_pre2022               nsys      cuda
nsys/rtx3080_tiny_2026.1               nsys      pytorch
nsys/sync_per_launch_2022.4            nsys      cuda
nsys/tensorrt_nvtx_only_2022.4         nsys      tensorrt
"""


def test_every_real_trace_is_told_for_what_it_is(corpus: Path, store_of: Callable[[Path], Path]) -> None:
    known = {row["trace"]: (row["recorder"], row["framework"]) for row in rows(OF_CORPUS)}
    found: dict[str, set[tuple[str, str | None]]] = {}
    for path in corpus_runs():
        with open_run(path, store=store_of(path), attribution=False) as run:
            for file, recorder, framework in run.sql("SELECT path, recorder, framework FROM traces").fetchall():
                found.setdefault(_name(Path(file), corpus), set()).add((recorder, framework))
    files = (path for run in corpus_runs() for path in [run, *run.rglob("*.*")])
    names = {_name(path, corpus) for path in files if path.name.endswith((".json.gz", ".sqlite"))}
    assert found == {name: {known.get(name, ("kineto", "pytorch"))} for name in names}
    assert known.keys() <= names


def _name(path: Path, corpus: Path) -> str:
    return str(path.relative_to(corpus)).removesuffix(".json.gz").removesuffix(".sqlite")


@pytest.mark.check
def test_kernels_of_onnx_runtime_run_on_the_first_device() -> None:
    tables = read(onnxruntime())
    assert [row["device"] for row in tables["gpu_ops"]] == [0]
    # Earlier versions of ONNX Runtime wrote the number of the kernel's process there, which is no device.
    tables = read(onnxruntime().replace('"pid": -1', '"pid": 4242'))
    assert [row["device"] for row in tables["gpu_ops"]] == [0]


@pytest.mark.check
def test_onnx_runtime_gets_no_advice_that_only_pytorch_can_follow(tmp_path: Path) -> None:
    path = tmp_path / "onnxruntime_profile.json"
    path.write_text(onnxruntime())
    with open_run(path, store=tmp_path / "store", jobs=1) as run:
        diagnosis = run.diagnose()
    said = json.dumps(document(diagnosis))
    assert "no operators with input shapes were recorded" in said
    assert "record_shapes" not in said
    assert "torch.profiler" not in said
