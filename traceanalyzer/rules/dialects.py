"""What rules say, in the names of the vendor whose device a trace is of: rules are written with NVIDIA's.

PyTorch calls AMD's devices `cuda`, and RCCL reads the variables of NCCL: code in Python and variables stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from traceanalyzer.diagnosis import Fix

CUDA, HIP, XPU, NPU, MUSA, MLU, XLA = "cuda", "hip", "xpu", "npu", "musa", "mlu", "xla"
# Programs in which nobody writes kernels in C++.
JULIA, RAPIDS = "julia", "rapids"
_OF_XLA = re.compile(r"\bjax\b|\bJAX\b|\bjnp\.|\bgrain\b|\btf\.|TensorFlow|torch_xla|XLA|jit_compile")
_OF_OTHERS = re.compile(
    r"(?i:torch|cuda|cudnn|cublas|nccl|nvtx|nvidia|\bnsys|\bncu\b|nsight|cupy|numba|triton|trtexec|tensorrt|vllm|sglang|deepspeed|fsdp)"
    r"|DataLoader|prof_schedule|ProfilerActivity|with profile\(|<<<|#pragma|\bmodel\.|GradScaler|\bDDP\b"
)
_CUDA_NAME = re.compile(r"\bcuda(?=[A-Z])")
_CUDA_OF_PYTORCH = re.compile(r"(?<=\btorch\.)cuda\b|(?<=[\"'])cuda(?=[:\"'])")
_WORDS = {
    "NVTX": "ROCTX",
    "tensor cores": "matrix cores",
    "Tensor cores": "Matrix cores",
    "tensor core": "matrix core",
    "SMs": "compute units",
    "SM": "compute unit",
    "warps": "wavefronts",
    "warp": "wavefront",
    "NVLink": "Infinity Fabric",
    "NCCL": "RCCL",
    "CUDA": "HIP",
    "cuBLASLt": "hipBLASLt",
    "cuBLAS": "hipBLAS",
    "cuDNN": "MIOpen",
}
_WORD = re.compile(rf"(?<![\w.])({'|'.join(_WORDS)})(?![\w.]*\w)")
# A command of NVIDIA's tools, with that of AMD's behind it.
_INSTEAD = re.compile(r"^.*\bAMD: ")
_ONLY_AMD = re.compile(r"\s+# AMD$")
_FOR_AMD_TOO = re.compile(r"(\s+#|;) AMD: .*$", re.MULTILINE)
_OF_NVIDIA = re.compile(r"^(nvidia-smi|dcgmi|nsys)\b")
_TOOL_OF_NVIDIA = re.compile(r"\b(nsys|nvidia-smi|ncu|compute-sanitizer|CUPTI|Nsight|\w*ProgrammaticStream\w*)\b")
DIRECTIVES = ("openmp", "openacc")
# What starts an engine that serves language models.
_ENGINES = {
    "vllm": re.compile(r"\bvllm serve\b"),
    "sglang": re.compile(r"\bsglang\.launch_server\b"),
    "tensorrt-llm": None,
}
_ALIGNED = re.compile(r" {2,}(?=#)")
# #pragma acc wait(1)  // about it; OpenMP: taskwait
_DIRECTIVE = re.compile(r"(?P<openacc>#pragma acc .*?) *//(?:(?P<about> [^;\n]*);)? OpenMP: (?P<openmp>.*)")
_DRIVER = "nvidia-smi --query-gpu=driver_version --format=csv"
_HIP_CODE = {
    "cudaMallocHost": "hipHostMalloc",
    "cudaDevAttrMultiProcessorCount": "hipDeviceAttributeMultiprocessorCount",
    "cub::": "hipcub::",
    "{cudaMemLocationTypeDevice, device}, 0": "device",
    "{cudaMemLocationTypeHost, 0}, 0": "hipCpuDeviceId",
    "; before CUDA 13: device, stream": "",
    "  // before CUDA 13: device, stream": "",
    "nvcc -arch=native": "hipcc --offload-arch=native",
    "program.cu": "program.hip",
    "CUDA_MODULE_LOADING=EAGER": "HIP_ENABLE_DEFERRED_LOADING=0",
    _DRIVER: "amd-smi version",
}

_OF_VENDOR = {"nvidia": CUDA, "intel": XPU, "ascend": NPU, "moore_threads": MUSA, "cambricon": MLU}
# What PyTorch of other vendors calls things; `torch.cuda` and "cuda" come after them.
_NPU_NAMES = {
    "CUDA graphs": "graphs",
    "CUDAGraph": "NPUGraph",
    'mode="reduce-overhead"': "backend=torchair.get_npu_backend()",
    "with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]": (
        "with torch_npu.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.NPU]"
    ),
    ":nccl": ":hccl",
}
_XPU_NAMES = {"CUDAGraph": "XPUGraph", "ProfilerActivity.CUDA": "ProfilerActivity.XPU", ":nccl": ":xccl"}
_MUSA_NAMES = {"CUDAGraph": "MUSAGraph", "ProfilerActivity.CUDA": "ProfilerActivity.MUSA", ":nccl": ":mccl"}
_MLU_NAMES = {"CUDAGraph": "MLUGraph", "ProfilerActivity.CUDA": "ProfilerActivity.MLU", ":nccl": ":cncl"}


def dialect_of(framework: str | None, vendor: str | None, recorder: str | None) -> str | None:
    """Return the dialect in which a trace is spoken of; None: the one in which rules are written."""
    if recorder in ("jax", "tensorflow", "torch_xla"):
        return XLA
    if framework in (JULIA, RAPIDS):
        return framework
    if vendor == "amd" or framework == "hip":
        return HIP
    return _OF_VENDOR.get(vendor or "")


def spoken(text: str, dialect: str | None) -> str:
    if dialect != HIP:
        return text
    return _hip_names(_WORD.sub(lambda found: _WORDS[found[0]], text))


def is_possible(fix: Fix, dialect: str | None) -> bool:
    """Return whether a fix needs no tool that another vendor's devices lack, and no framework that is not used.

    A program that XLA compiles gets no fix that is written for PyTorch or CUDA; one in Julia or RAPIDS, none in C++.
    """
    if dialect == XLA:
        both = f"{fix.text}\n{fix.code or ''}"
        return _OF_XLA.search(both) is not None or _OF_OTHERS.search(both) is None
    if fix.lang == JULIA:
        return dialect == JULIA
    if dialect in (JULIA, RAPIDS, MLU) and fix.lang == "cpp":
        return False
    if dialect in (JULIA, RAPIDS):
        return True
    return dialect in (None, CUDA) or not _TOOL_OF_NVIDIA.search(f"{fix.text} {fix.code}")


def in_dialect(fix: Fix, dialect: str | None, framework: str | None = None) -> Fix:
    named = _CODE.get((dialect, fix.lang), str)
    text = named(fix.text) if dialect in _OTHER_PYTORCH else fix.text
    code = fix.code and _of_engine(_in_directives(named(fix.code), framework), framework)
    return Fix(spoken(text, dialect), code, fix.lang, fix.effort)


def _in_directives(code: str, framework: str | None) -> str:
    """Return code in the directives of the program's framework; in those of both, where that is none of them."""
    if framework not in DIRECTIVES:
        return code
    kept = "#pragma omp {openmp}{about}" if framework == "openmp" else "{openacc}{about}"
    return _DIRECTIVE.sub(
        lambda found: kept.format(**found.groupdict() | {"about": f"  //{about}" if (about := found["about"]) else ""}),
        code,
    )


def _of_engine(code: str, framework: str | None) -> str | None:
    """Return code without the commands of other engines than the program's; None: nothing is left."""
    if framework not in _ENGINES:
        return code
    others = [command for engine, command in _ENGINES.items() if command and engine != framework]
    lines = code.splitlines()
    kept = [line for line in lines if not any(command.search(line) for command in others)]
    return code if len(kept) == len(lines) else "\n".join(_ALIGNED.sub("  ", line) for line in kept) or None


def read_on(addresses: Sequence[str], dialect: str | None, *, with_torch: bool = True) -> tuple[str, ...]:
    """Return where to read on: pages about another vendor's tools, or a framework that is not used, help nobody."""
    return tuple(
        address
        for address in addresses
        if (dialect in (None, CUDA, XLA, JULIA, RAPIDS) or "nvidia.com" not in address)
        and (with_torch or "pytorch.org" not in address)
    )


def uses_torch(framework: str | None, recorder: str | None) -> bool:
    """Return whether PyTorch's pages may be about a program: what it is written with is PyTorch, or not known."""
    return framework in (None, "pytorch", "sglang", "vllm", "tensorrt-llm") or recorder in ("kineto", "torch_xla")


def _hip_names(text: str) -> str:
    for name, own in _HIP_CODE.items():
        text = text.replace(name, own)
    return _CUDA_NAME.sub("hip", text)


def _hip_commands(code: str) -> str:
    lines = [_ONLY_AMD.sub("", _INSTEAD.sub("", line)) for line in _hip_names(code).splitlines()]
    return "\n".join([line for line in lines if not _OF_NVIDIA.match(line)] or lines)


def _cuda_commands(code: str) -> str:
    lines = code.splitlines()
    return _FOR_AMD_TOO.sub("", "\n".join([line for line in lines if not _ONLY_AMD.search(line)] or lines))


def _names_of_pytorch(device: str, names: Mapping[str, str], text: str) -> str:
    for name, own in names.items():
        text = text.replace(name, own)
    return _CUDA_OF_PYTORCH.sub(device, text)


_OTHER_PYTORCH = {
    XPU: partial(_names_of_pytorch, "xpu", _XPU_NAMES),
    NPU: partial(_names_of_pytorch, "npu", _NPU_NAMES),
    MUSA: partial(_names_of_pytorch, "musa", _MUSA_NAMES),
    MLU: partial(_names_of_pytorch, "mlu", _MLU_NAMES),
}
# By dialect and language of the fix.
_CODE: Mapping[tuple[str | None, str], Callable[[str], str]] = {
    **dict.fromkeys([(CUDA, "bash"), (JULIA, "bash"), (RAPIDS, "bash")], _cuda_commands),
    (HIP, "cpp"): _hip_names,
    (HIP, "bash"): _hip_commands,
    (MUSA, "cpp"): partial(_CUDA_NAME.sub, "musa"),
    **{(dialect, "python"): named for dialect, named in _OTHER_PYTORCH.items()},
}
