"""Bounds from the roof: what the rules promise is what a rerun of the simulated job without the fault saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from corpus_metrics import run_of

from traceanalyzer.diagnosis import Finding
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.rule_set.loading import load_rules
from traceanalyzer.run import Run
from tracesim import in_memory, simulate

__all__ = ["run_of"]
RULES = load_rules(tests=False)
# Kernels of an A100, which reach 60 % of its 312 TFLOP/s, under the name of a device with 989.
SLOW_MATMULS = {
    "steps": 6,
    "kernels": 60,
    "kernel_us": 800,
    "device": {"like": "A100", "name": "NVIDIA H100 80GB HBM3", "sm_count": 132},
}
_FORWARD = {"forward": 30, "do": [{"kernel": {"us": 200, "py_us": 3}}]}
_GRADIENTS = {
    "annot": {"name": "autograd::engine::evaluate_function: MmBackward0"},
    "do": [{"repeat": 60, "do": [{"kernel": {"us": 200}}]}],
}
_AGAIN = {"repeat": 30, "do": [{"kernel": {"us": 200}}]}
CHECKPOINTED = [_FORWARD, {"annot": {"name": "CheckpointFunctionBackward"}, "do": [_AGAIN, _GRADIENTS]}]


OF_MATMULS = {
    "gemm-below-roofline",
    "tensor-cores-unused",
    "matmul-misaligned",
    "fp32-matmul-no-tensor-core",
    "amp-not-used",
    "tiny-grid",
    "dominant-kernel",
}


def finding(rule_id: str, scenario: dict[str, Any]) -> Finding:
    con = in_memory.connect_tables(simulate(scenario).canonical_tables(), readers=readers(RULES))
    (found,) = (item for item in diagnose(con, RULES).findings if item.rule == rule_id)
    return found


@pytest.mark.check
def test_matmuls_at_the_peak_rate_save_what_the_finding_says_at_most() -> None:
    found = finding("gemm-below-roofline", SLOW_MATMULS)
    at_peak = simulate(SLOW_MATMULS).true_saving_share(kernel_scale={"gemm": 0.6 * 312 / 989})
    assert found.saving_share is not None
    assert found.saving_share == pytest.approx(at_peak, abs=0.01)
    # Good kernels reach 70 % of the peak; what they save is less.
    good = simulate(SLOW_MATMULS).true_saving_share(kernel_scale={"gemm": 0.6 * 312 / 989 / 0.7})
    assert good < found.saving_share


# Additions of two tensors of 8192 x 4096 elements of two bytes, in 400 us.
SLOW_ADDITIONS = {
    "steps": 6,
    "program": [{"repeat": 20, "do": [{"kernel": {"us": 400}}, {"kernel": {"us": 400, "class": "elementwise"}}]}],
}


@pytest.mark.check
def test_additions_at_full_bandwidth_save_what_the_finding_says_at_most() -> None:
    found = finding("memory-bound-low-bandwidth", SLOW_ADDITIONS)
    at_roof = 3 * 8192 * 4096 * 2 / 3350 / 400_000
    assert found.saving_share == pytest.approx(
        simulate(SLOW_ADDITIONS).true_saving_share(kernel_scale={"elementwise": at_roof}), abs=0.01
    )


@pytest.mark.check
def test_steps_without_the_second_forward_pass_save_what_the_finding_says_at_most() -> None:
    scenario: dict[str, Any] = {"steps": 8, "memory": True}
    found = finding("recompute-with-headroom", scenario | {"program": CHECKPOINTED})
    step_ns: list[float] = []
    for program in (CHECKPOINTED, [_FORWARD, _GRADIENTS]):
        con = in_memory.connect_tables(simulate(scenario | {"program": program}).canonical_tables())
        step_ns += con.execute("SELECT window_ns / step_count FROM windows").fetchone() or ()
    assert found.saving_share == pytest.approx(1 - step_ns[1] / step_ns[0], abs=0.01)


@pytest.mark.check
def test_the_evidence_of_slow_attention_counts_its_calls(run_of: Callable[[str], Run]) -> None:
    (rule,) = (rule for rule in RULES if rule.id == "attention-slow-backend")
    values = {"trace_id": 0, "device": 0, "min_us": 0}  # those of a small model are shorter than the rule asks for
    ((_, _, call_count, time_ms),) = run_of("h100_vit").connection.execute(rule.evidence[0].select, values).fetchall()
    assert (call_count, time_ms) == (12, 0.122848)


@pytest.mark.check
def test_slow_matmuls_are_told_once() -> None:
    con = in_memory.connect_tables(simulate(SLOW_MATMULS).canonical_tables(), readers=readers(RULES))
    told = {item.rule for item in diagnose(con, RULES).findings}
    assert told & OF_MATMULS == {"gemm-below-roofline"}
