"""What is said of public and recorded profiles of XLA: the verdict of an expert, and nothing of what misleads."""

from __future__ import annotations

from pathlib import Path

import pytest
from xla_profiles import diagnose, rules_of

from traceanalyzer.diagnosis.verdict import judge

pytestmark = pytest.mark.check

# File: rules that must have found something, words of the verdict, and rules that must not.
LOADER, COMPILE, PYTHON = "cpu-loader-bound", "cpu-compile-in-steps", "cpu-python-bound"
EXPECTED = {
    "jax_train_default": ({LOADER}, "waits for its data loader", {PYTHON, COMPILE}),
    "jax_train_py0": ({LOADER}, "waits for its data loader", {PYTHON, COMPILE}),
    "torch_xla": ({LOADER}, "waits for its data loader", {PYTHON, COMPILE}),
    "jax_recompile": ({COMPILE}, "compiles during its steps", {PYTHON, LOADER}),
    "jax_nostep": (set(), "work of the framework's operators", {LOADER, COMPILE}),
    "jax_train_h0": ({"tq-empty-profile"}, "the recording holds no work of the program", {LOADER, COMPILE}),
    "tf_v100x8_2020": ({"tq-part-of-step"}, "too short", {"launch-bound", "host-stalls"}),
    "jax08_mi300x8_conv": (
        {"program-gaps", "data-movement-fusions"},
        "GPUs busy with compute",
        {"rank-compute-imbalance"},
    ),
    "jax07_mi300x8_conv_roctracer": (
        {"program-gaps", "data-movement-fusions"},
        "GPU busy with compute 22.8 % of the time.",
        {"tq-host-after-gpu"},
    ),
    "jax08_mi300_gemm": ({"program-gaps"}, "GPU busy with compute 35.8 %", {"launch-bound"}),
    "jax08_mi300_attention": (
        {"program-gaps", "data-movement-fusions"},
        "The GPU waits for the host between short runs",
        {"launch-bound", "outlier-pause"},
    ),
    "jax_gfx950_te_attention": (set(), "GPU busy with compute 92.4 %", {"launch-bound", "program-gaps"}),
}
_OF_OTHER_PROGRAMS = ("torch.profiler", "torch.cuda", "nsys profile", "pin_memory", "cudaMalloc", "trtexec")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_profile_has_the_verdict_of_an_expert(corpus: Path, tmp_path: Path, name: str) -> None:
    path = corpus / "xla" / f"{name}.xplane.pb"
    if not path.is_file():
        pytest.skip(f"no {path}")
    found, words, never = EXPECTED[name]
    diagnosis = diagnose(path, tmp_path)
    assert found <= set(rules_of(diagnosis))
    assert words in judge(diagnosis).sentence
    assert not never & set(rules_of(diagnosis))
    code = "\n".join(fix.code or "" for finding in diagnosis.findings for fix in finding.fixes)
    # What the host does between launches is known, so removing it is worth what the ledger says.
    for finding in diagnosis.findings:
        assert finding.rule != "program-gaps" or (finding.saving_share or 0) > 0.6
    assert not [text for text in _OF_OTHER_PROGRAMS if text in code]
