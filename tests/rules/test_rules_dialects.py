"""Rules are written with NVIDIA's names; what they say of other devices has the names of their vendor."""

from __future__ import annotations

import re

import pytest

from traceanalyzer.diagnosis import Fix
from traceanalyzer.rules.dialects import (
    CUDA,
    HIP,
    MLU,
    MUSA,
    NPU,
    XLA,
    XLA_ON_AMD,
    XPU,
    dialect_of,
    in_dialect,
    is_possible,
    read_on,
    spoken,
    uses_torch,
)
from traceanalyzer.rules.rule_set.loading import load_rules

# NVIDIA's parts, tools and functions. PyTorch's own names (torch.cuda, "cuda", ProfilerActivity.CUDA) hold on ROCm.
_OF_NVIDIA = re.compile(
    r"\b(nsys|nvidia-smi|ncu|dcgmi|Nsight|CUPTI|SMs?|warps?|NVLink|NVTX|cuBLAS|cuDNN|[Tt]ensor cores?|cuda[A-Z]\w*)\b"
    r"|(?<![\w.])NCCL\b(?!_)|(?<![\w.])CUDA(?![\w.])"
)
# These read what only NVIDIA's tools write.
_FOR_NVIDIA_ALONE = {"tq-cannot-record", "tq-program-failed"}


@pytest.mark.parametrize(
    ("framework", "vendor", "recorder", "dialect"),
    [
        ("hip", None, "rocprof", "hip"),
        ("pytorch", "amd", "kineto", "hip"),
        (None, "intel", None, "xpu"),
        ("cuda", "nvidia", "nsys", "cuda"),
        ("cuda", None, "nsys", None),
        ("jax", "amd", "jax", "xla on amd"),
        ("jax", "google", "jax", "xla"),
    ],
)
def test_the_device_decides_or_who_compiles(
    framework: str | None, vendor: str | None, recorder: str | None, dialect: str | None
) -> None:
    assert dialect_of(framework, vendor, recorder) == dialect


@pytest.mark.parametrize(
    ("said", "of_amd"),
    [
        ("CUDA graphs run on few SMs.", "HIP graphs run on few compute units."),
        ("It calls cudaMalloc, and NCCL waits.", "It calls hipMalloc, and RCCL waits."),
        ("Set NCCL_DEBUG, or torch.cuda.CUDAGraph.", "Set NCCL_DEBUG, or torch.cuda.CUDAGraph."),
    ],
)
def test_prose_names_the_parts_of_the_device(said: str, of_amd: str) -> None:
    assert spoken(said, HIP) == of_amd
    assert spoken(said, None) == said


def test_commands_are_those_of_the_engine() -> None:
    fix = Fix("x", "vllm serve model --a 1       # b\npython -m sglang.launch_server --c  # d\n", "bash")
    assert in_dialect(fix, None, "vllm").code == "vllm serve model --a 1  # b"
    assert in_dialect(fix, CUDA, "sglang").code == "python -m sglang.launch_server --c  # d"
    assert in_dialect(fix, None, "tensorrt-llm").code is None
    for framework in (None, "pytorch"):
        assert in_dialect(fix, None, framework).code == fix.code


def test_commands_are_those_of_the_device() -> None:
    code = "nvidia-smi -q\namd-smi metric --clock  # AMD"
    assert in_dialect(Fix("x", code, "bash"), HIP).code == "amd-smi metric --clock"
    assert in_dialect(Fix("x", "nvidia-smi topo -m  # NV#; AMD: rocm-smi --showtopo", "bash"), HIP).code == (
        "rocm-smi --showtopo"
    )
    assert in_dialect(Fix("x", "cudaMallocHost(&a, 1);", "cpp"), HIP).code == "hipHostMalloc(&a, 1);"
    assert in_dialect(Fix("x", 'y.to("cuda")', "python"), HIP).code == 'y.to("cuda")'
    assert not is_possible(Fix("x", "nsys profile ./program", "bash"), HIP)
    assert in_dialect(Fix("x", code, "bash"), CUDA).code == "nvidia-smi -q"
    assert in_dialect(Fix("x", "nvidia-smi topo -m  # NV#; AMD: rocm-smi --showtopo", "bash"), CUDA).code == (
        "nvidia-smi topo -m  # NV#"
    )
    assert in_dialect(Fix("x", code, "bash"), None).code == code
    assert read_on(["https://docs.nvidia.com/x", "https://rocm.docs.amd.com"], HIP) == ("https://rocm.docs.amd.com",)


@pytest.mark.parametrize(
    ("framework", "recorder", "linked"),
    [
        ("pytorch", "kineto", True),
        ("vllm", "nsys", True),
        (None, "kineto", True),
        ("pytorch", "torch_xla", True),
        ("jax", "jax", False),
        ("hip", "rocprof", False),
        ("cuda", "nsys", False),
    ],
)
def test_pages_of_pytorch_are_for_its_programs(framework: str | None, recorder: str, *, linked: bool) -> None:
    pages = ["https://docs.jax.dev", "https://docs.pytorch.org/x"]
    read = read_on(pages, None, with_torch=uses_torch(framework, recorder))
    assert read == (tuple(pages) if linked else ("https://docs.jax.dev",))


def test_no_rule_speaks_of_nvidia_about_an_amd_device() -> None:
    wrong = set()
    for rule in load_rules(tests=False):
        fixes = [in_dialect(Fix(fix.text, fix.code, fix.lang), HIP) for fix in rule.fixes]
        texts = [spoken(text, HIP) for text in (rule.title, rule.message, rule.why)]
        texts += [f"{fix.text} {fix.code if fix.lang != 'python' else ''}" for fix in fixes if is_possible(fix, HIP)]
        wrong |= {(rule.id, found[0]) for text in texts for found in _OF_NVIDIA.finditer(text)}
    assert {(rule, word) for rule, word in wrong if rule not in _FOR_NVIDIA_ALONE} == set()


@pytest.mark.parametrize("vendor", ["intel", "ascend"])
def test_devices_of_other_vendors_get_no_tool_of_nvidia_and_their_own_names_in_python(vendor: str) -> None:
    dialect, own = dialect_of("pytorch", vendor, None), {"intel": "xpu", "ascend": "npu"}[vendor]
    assert not is_possible(Fix("Profile the kernel.", "ncu --set full PROGRAM", "bash"), dialect)
    code = in_dialect(Fix("Keep it there.", 'x = torch.randn(shape, device="cuda")'), dialect).code
    assert code == f'x = torch.randn(shape, device="{own}")'


@pytest.mark.parametrize(
    ("dialect", "said"),
    [
        (XPU, "XPU graphs run on few Xe cores, and oneCCL waits for Xe Link."),
        (NPU, "NPU graphs run on few AI cores, and HCCL waits for HCCS."),
        (MUSA, "MUSA graphs run on few MPs, and MCCL waits for MTLink."),
        (MLU, "MLU graphs run on few clusters, and CNCL waits for MLU-Link."),
        (XLA_ON_AMD, "HIP graphs run on few compute units, and RCCL waits for Infinity Fabric."),
        (XLA, "CUDA graphs run on few SMs, and NCCL waits for NVLink."),
    ],
)
def test_prose_names_the_parts_of_every_vendors_device(dialect: str, said: str) -> None:
    assert spoken("CUDA graphs run on few SMs, and NCCL waits for NVLink.", dialect) == said


def test_a_fix_names_the_vendors_module_of_pytorch_whatever_its_code_is_written_in() -> None:
    fix = Fix("Remove torch.cuda.empty_cache() from the loop.", 'grep -rn "empty_cache" .', "bash")
    assert in_dialect(fix, NPU).text == "Remove torch.npu.empty_cache() from the loop."
    assert in_dialect(fix, CUDA).text == fix.text


@pytest.mark.parametrize(
    "code", ["export NCCL_MAX_CTAS=8", "torch.backends.cudnn.benchmark = True", "torch.cuda.tunable.enable()"]
)
def test_what_only_pytorch_on_nvidia_and_amd_has_is_no_fix_for_others(code: str) -> None:
    assert [is_possible(Fix("x", code, "bash"), dialect) for dialect in (HIP, XPU, NPU, MUSA, MLU)] == [True] + [
        False
    ] * 4


def test_a_program_of_xla_on_amd_gets_the_fixes_of_xla() -> None:
    fixes = [
        Fix("Give NCCL fewer SMs.", "export NCCL_MAX_CTAS=8", "bash"),
        Fix("Let XLA do it.", "step = jax.jit(step)"),
    ]
    assert [is_possible(in_dialect(fix, XLA_ON_AMD), XLA_ON_AMD) for fix in fixes] == [False, True]
