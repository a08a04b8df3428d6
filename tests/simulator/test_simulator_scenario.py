"""Scenarios are checked when they are read, and every mistake is told with what would have been right."""

from __future__ import annotations

from typing import Any

import pytest

from traceanalyzer.errors import TraceAnalyzerError
from tracesim import simulate


@pytest.mark.parametrize(
    ("scenario", "what", "hint"),
    [
        ({"loader_ms": 3}, "unknown key in the scenario 'loader_ms'", "did you mean 'loader_us'?"),
        ({"program": [{"kernle": 3}]}, "unknown action in program[0] 'kernle'", "did you mean 'kernel'?"),
        ({"program": [{"kernel": {"ns": 3}}]}, "unknown key in program[0].kernel 'ns'", "did you mean 'us'?"),
        ({"program": [{"kernel": {"prec": "bf17"}}]}, "unknown program[0].kernel.prec 'bf17'", "did you mean 'bf16'?"),
        ({"device": "H1000"}, "unknown device 'H1000'", "did you mean 'H100'?"),
        ({"device": {"sm_cuont": 3}}, "unknown key in device 'sm_cuont'", "did you mean 'sm_count'?"),
        ({"kernel_class": "gem"}, "unknown kernel_class 'gem'", "did you mean 'gemm'?"),
        ({"steps": 0}, "steps: a run has at least one step", None),
        ({"device_count": 0}, "device_count: a process has at least one device", None),
        ({"core_clock": 0}, "core_clock: cores that stand still end no kernel", None),
        ({"steps": 2.5}, "steps: 2.5 is not a whole number", None),
        ({"h2d_pinned": 1}, "h2d_pinned: 1 is not true or false", None),
        ({"truncate": 30}, "truncate: 30 is not a share from 0 to 1", None),
        ({"kernel_us": -1}, "kernel_us: -1 is not a number from 0", "times are in microseconds"),
        ({"program": "kernel"}, "program is not a list of actions", "write each action as `- name: {…}`"),
    ],
)
def test_a_mistake_names_the_nearest_right_word(scenario: dict[str, Any], what: str, hint: str | None) -> None:
    with pytest.raises(TraceAnalyzerError) as raised:
        simulate(scenario)
    assert (raised.value.what, raised.value.hint) == (what, hint)


def test_shorthand_beside_a_program_says_where_it_belongs() -> None:
    with pytest.raises(TraceAnalyzerError, match="'loader_us' cannot be combined with a program"):
        simulate({"loader_us": 3, "program": []})


def test_faults_replace_the_loader_of_a_program_and_end_its_steps() -> None:
    program = [{"next": {"us": 300}}, {"kernel": 10}]
    run = simulate({"steps": 1, "program": program, "faults": {"loader_us": 25_000, "item_every": 1}})
    names = [taken.name for taken in run.recording.slices]
    assert sum(name.startswith("enumerate(DataLoader)") for name in names) == 1
    assert "aten::item" in names
    assert run.recording.ops[0].start_ns > 25_000_000


def test_the_short_and_the_long_form_of_the_base_scenario_agree() -> None:
    kernel = {"class": "gemm", "us": 80, "py_us": 3}
    program = [
        {"next": {"us": 300}},
        {"h2d": {"mb": 2, "pinned": True, "stream": "copy"}},
        {"forward": 64, "do": [{"kernel": kernel}]},
        {"backward": {"thread": "autograd", "repeat": 126, "kernel": kernel}},
        {"optimizer": {"name": "AdamW", "fused": True, "kernels": 10, "us": 80, "py_us": 3}},
    ]
    assert simulate({"steps": 3, "program": program}).window_ns == simulate({"steps": 3}).window_ns


@pytest.mark.parametrize(
    ("device", "precision", "name"),
    [
        ("V100", "fp32", "volta_sgemm_128x64_tn"),
        ("A100", "fp32", "ampere_sgemm_128x64_tn"),
        ("A100", "bf16", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"),
        ("H100", "fp32", "ffma"),
        ("H100", "bf16", "sm90_xmma_gemm_bf16bf16"),
        ("B200", "bf16", "nvjet_sm100"),
        ("MI300X", "bf16", "Cijk_"),
    ],
)
def test_kernels_are_named_as_the_devices_libraries_name_them(device: str, precision: str, name: str) -> None:
    run = simulate({"steps": 1, "kernels": 1, "device": device, "precision": precision})
    assert any(op.kernel is not None and name in op.kernel.name for op in run.recording.ops)


@pytest.mark.parametrize(
    ("device", "precision", "name"),
    [
        ("B200", "bf16", "bf16bf16"),
        ("B200", "tf32", "tf32f32"),
        ("A100", "fp16", "f16f16"),
        ("V100", "bf16", "volta_scudnn"),
    ],
)
def test_convolutions_run_in_the_precision_that_the_device_has(device: str, precision: str, name: str) -> None:
    run = simulate({"steps": 1, "kernels": 1, "kernel_class": "conv", "device": device, "precision": precision})
    assert any(op.kernel is not None and name in op.kernel.name for op in run.recording.ops)


def test_unfused_attention_is_two_products_around_a_softmax() -> None:
    unfused, fused = (
        [
            op.kernel.kernel_class
            for op in simulate({"steps": 1, "kernels": 0, "attention": kind, "attention_layers": 1}).recording.ops
            if op.kernel is not None
        ]
        for kind in ("unfused", "fused")
    )
    assert (unfused, fused) == (["bmm", "softmax", "bmm"], ["attention"])


def test_allocations_can_stop_after_the_first_steps() -> None:
    run = simulate({"steps": 4, "kernels": 10, "malloc_per_step": 2, "malloc_steps": 1})
    assert sum(taken.name == "cudaMalloc" for taken in run.recording.slices) == 2


def test_garbage_is_collected_in_every_nth_step() -> None:
    run = simulate({"steps": 8, "kernels": 3, "gc_us": 500, "gc_every": 4})
    assert sum(taken.name == "Python GC" for taken in run.recording.slices) == 2
