"""What rules say, in the names of the vendor whose device a trace is of: rules are written with NVIDIA's.

PyTorch calls AMD's devices `cuda`, and RCCL reads the variables of NCCL: code in Python and variables stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from traceanalyzer.diagnosis import Fix

CUDA, HIP, XPU, NPU, MUSA, MLU, XLA = "cuda", "hip", "xpu", "npu", "musa", "mlu", "xla"
# Programs that XLA compiles get its fixes on any device, and speak of AMD's parts on AMD's.
XLA_ON_AMD = "xla on amd"
# Programs in which nobody writes kernels in C++.
JULIA, RAPIDS = "julia", "rapids"
_OF_XLA = re.compile(r"\bjax\b|\bJAX\b|\bjnp\.|\bgrain\b|\btf\.|TensorFlow|torch_xla|XLA|jit_compile")
_OF_OTHERS = re.compile(
    r"(?i:torch|cuda|cudnn|cublas|[nr]ccl|\bhip|miopen|nvtx|roctx|nvidia|\bnsys|\bncu\b|nsight|cupy|numba|triton|trtexec)"
    r"|(?i:tensorrt|vllm|sglang|deepspeed|fsdp)"
    r"|DataLoader|prof_schedule|ProfilerActivity|with profile\(|<<<|#pragma|\bmodel\.|GradScaler|\bDDP\b"
)
_CUDA_NAME = re.compile(r"\bcuda(?=[A-Z])")
_CUDA_OF_PYTORCH = re.compile(r"(?<=\btorch\.)cuda\b|(?<=[\"'])cuda(?=[:\"'])")
_OF_AMD = {
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
# What prose calls the parts and libraries of each vendor's devices; words that are not listed are the same there.
_WORDS: Mapping[str | None, Mapping[str, str]] = {
    HIP: _OF_AMD,
    XLA_ON_AMD: _OF_AMD,
    XPU: {
        "tensor cores": "matrix engines",
        "Tensor cores": "Matrix engines",
        "SMs": "Xe cores",
        "SM": "Xe core",
        "warps": "sub-groups",
        "warp": "sub-group",
        "NVLink": "Xe Link",
        "NCCL": "oneCCL",
        "CUDA graphs": "XPU graphs",
        "CUDA graph": "XPU graph",
        "CUDA": "SYCL",
        "cuDNN": "oneDNN",
    },
    NPU: {
        "tensor cores": "Cube units",
        "Tensor cores": "Cube units",
        "SMs": "AI cores",
        "SM": "AI core",
        "NVLink": "HCCS",
        "NCCL": "HCCL",
        "CUDA graphs": "NPU graphs",
        "CUDA graph": "NPU graph",
        "CUDA": "CANN",
        "cuDNN": "CANN",
    },
    MUSA: {
        "SMs": "MPs",
        "SM": "MP",
        "NVLink": "MTLink",
        "NCCL": "MCCL",
        "CUDA": "MUSA",
        "cuDNN": "muDNN",
        "cuBLAS": "muBLAS",
    },
    MLU: {"SMs": "clusters", "SM": "cluster", "NVLink": "MLU-Link", "NCCL": "CNCL", "CUDA": "MLU", "cuDNN": "CNNL"},
}
_WORD = {
    dialect: re.compile(rf"(?<![\w.])({'|'.join(sorted(words, key=len, reverse=True))})(?![\w.]*\w)")
    for dialect, words in _WORDS.items()
}
# A command of NVIDIA's tools, with that of AMD's behind it.
_INSTEAD = re.compile(r"^.*\bAMD: ")
_ONLY_AMD = re.compile(r"\s+# AMD$")
_FOR_AMD_TOO = re.compile(r"(\s+#|;) AMD: .*$", re.MULTILINE)
_OF_NVIDIA = re.compile(r"^(nvidia-smi|dcgmi|nsys)\b")
_TOOL_OF_NVIDIA = re.compile(r"\b(nsys|nvidia-smi|ncu|compute-sanitizer|CUPTI|Nsight|\w*ProgrammaticStream\w*)\b")
# What PyTorch has on NVIDIA's devices and AMD's alone: variables of NCCL, cuDNN's settings and tunable matmuls.
_OF_CUDA_AND_HIP = re.compile(r"\b(TORCH_)?NCCL_[A-Z]|\bcudnn\b|\.tunable\.")
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
        return XLA_ON_AMD if vendor == "amd" else XLA
    if framework in (JULIA, RAPIDS):
        return framework
    if vendor == "amd" or framework == "hip":
        return HIP
    return _OF_VENDOR.get(vendor or "")


def spoken(text: str, dialect: str | None) -> str:
    """Return prose with the names of the vendor's parts and libraries."""
    words = _WORDS.get(dialect)
    if words is None:
        return text
    named = _WORD[dialect].sub(lambda found: words[found[0]], text)
    return _hip_names(named) if dialect == HIP else named


def is_possible(fix: Fix, dialect: str | None) -> bool:
    """Return whether a fix needs no tool that another vendor's devices lack, and no framework that is not used.

    A program that XLA compiles gets no fix that is written for PyTorch or CUDA; one in Julia or RAPIDS, none in C++.
    """
    if dialect in (XLA, XLA_ON_AMD):
        both = f"{fix.text}\n{fix.code or ''}"
        return _OF_XLA.search(both) is not None or _OF_OTHERS.search(both) is None
    if fix.lang == JULIA:
        return dialect == JULIA
    if dialect in (JULIA, RAPIDS, MLU) and fix.lang == "cpp":
        return False
    if dialect in (JULIA, RAPIDS):
        return True
    if dialect in _OTHER_PYTORCH and _OF_CUDA_AND_HIP.search(fix.code or ""):
        return False
    return dialect in (None, CUDA) or not _TOOL_OF_NVIDIA.search(f"{fix.text} {fix.code}")


def in_dialect(fix: Fix, dialect: str | None, framework: str | None = None) -> Fix:
    text = _OTHER_PYTORCH.get(dialect or "", str)(fix.text)
    code = fix.code and _in_directives(_CODE.get((dialect, fix.lang), str)(fix.code), framework)
    code = code and _of_engine(code, framework)
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
        if (dialect in (None, CUDA, XLA, XLA_ON_AMD, JULIA, RAPIDS) or "nvidia.com" not in address)
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
