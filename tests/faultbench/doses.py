"""Faults at 0 to 2 times their strength: bounds grow with them, and rules fire from their threshold on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from workloads.bases import DDP, DECODER, TOKENS, expert_job
from workloads.step_programs import data_parallel, kernels

from faultbench.examining import Examined, Way, examine, rules
from faultbench.judging import POINTS, promised_share
from faultbench.many_ranks import even
from faultbench.planted import Scenario, Without

STRENGTHS = (0.0, 0.25, 0.5, 1.0, 2.0)
# Around its threshold a rule may do either.
_NEAR = 0.2
_MOST_POINTS_APART = 1.0
_T: dict[str, Any] = {"steps": 8, "kernels": 100}
_WIDE: dict[str, Any] = {**DDP, "steps": 7, "program": data_parallel(160, 7)}
_TF32_SCALE = 67.0 / (494.0 * 0.75)


@dataclass(frozen=True)
class Dose:
    """A fault of any strength, 1 being that of the planted one, and the finding that it should raise."""

    name: str
    rule: str
    scenario: Callable[[float], Scenario]
    without: Callable[[float], Without]
    fires_from: float = 0.0  # strength from which the rule's other conditions hold, however much could be saved


def _removing(*causes: str) -> Callable[[float], Without]:
    return lambda strength: Without(causes)


def _crowded(strength: float) -> list[float]:
    return [*TOKENS[:5], 1 + 1.1 * strength, *TOKENS[6:]]


def _partly_fp32(strength: float) -> Scenario:
    plain, fast = (
        {"repeat": count, "do": [{"kernel": {"us": 300, "py_us": 3, "prec": prec}}]}
        for count, prec in ((round(40 * strength), "fp32"), (80 - round(40 * strength), "bf16"))
    )
    return {"steps": 7, "device": "H200", "program": [{"next": {"us": 300}}, plain, fast]}


def _reductions(strength: float) -> Scenario:
    small = {"repeat": round(120 * strength), "do": [{"comm": {"mb": 0.0625}}]}
    return {**DDP, "steps": 7, "program": [kernels(100, 80), small]}


DOSES: tuple[Dose, ...] = (
    Dose(
        "starving loader",
        "dataloader-bound",
        lambda s: {**_T, "loader_us": 300 + 12_000 * s},
        _removing("host.dataloader"),
    ),
    Dose(
        "kernels issued one by one",
        "launch-bound",
        lambda s: {**_T, "kernels": 400, "kernel_us": 12, "launch_us": 2, "host_us": 20 * s},
        _removing("host.python", "host.op", "host.launch_api"),
    ),
    Dose(
        "pageable batch",
        "h2d-pageable",
        lambda s: {**_T, "h2d_mb": max(0.01, 32 * s), "h2d_pinned": False, "pinned_gb_per_s": 20.0},
        lambda s: Without(
            instead={**_T, "h2d_mb": max(0.01, 32 * s), "h2d_stream": "compute", "pinned_gb_per_s": 20.0}
        ),
    ),
    Dose(
        "large results",
        "d2h-large",
        lambda s: {"steps": 8, "program": [kernels(100, 80), {"d2h": {"mb": max(0.01, 32 * s), "pinned": False}}]},
        _removing("dev.d2h"),
    ),
    Dose(
        "attention in parts",
        "attention-unfused",
        lambda s: {**_T, "attention": "unfused" if s else "none", "attention_layers": 4, "attention_us": 1_000 * s},
        lambda s: Without(kernel_scale={"bmm": 0.75, "softmax": 0.0}),
    ),
    Dose(
        "FP32 products",
        "fp32-matmul-no-tensor-core",
        _partly_fp32,
        # Only those in FP32: the others are left as they are.
        lambda s: Without(instead=_as_fast_as_tf32(s)),
    ),
    Dose(
        "memory from the driver",
        "alloc-in-steady-state",
        lambda s: {**_T, "malloc_per_step": 20 if s else 0, "malloc_us": 600 * s},
        _removing("host.alloc"),
    ),
    Dose(
        "garbage",
        "gc-pauses",
        lambda s: {**_T, "steps": 11, "gc_us": 60_000 * s, "gc_every": 3},
        _removing("host.gc"),
    ),
    Dose(
        "recompilation",
        "recompile-steady-state",
        lambda s: {**_T, "steps": 11, "compile_us": 40_000 * s, "compile_every": 3},
        _removing("host.compile"),
    ),
    Dose(
        "exposed reduction",
        "comm-blocking",
        lambda s: {**DDP, "steps": 7, "kernels": 60, "comm_us": 1_000 * s},
        _removing("dev.comm_transfer"),
    ),
    Dose("many small reductions", "comm-small-messages", _reductions, _removing("dev.comm_transfer")),
    Dose(
        "host between replays",
        "sampling-sync",
        lambda s: {"steps": 8, "program": [{"py": 1 + 3_000 * s}, DECODER, {"item": 1}]},
        _removing("host.sync"),
    ),
    Dose(
        "slow device on one rank",
        "comm-straggler-wait",
        lambda s: {**_WIDE, "faults": {"rank": 2, "kernel_scale": 1 + 0.12 * s}},
        lambda s: Without(kernel_scale={2: {"compute": 1 / (1 + 0.12 * s)}}),
    ),
    Dose(
        "expert imbalance",
        "moe-expert-imbalance",
        lambda s: expert_job(_crowded(s)),
        lambda s: Without(instead=expert_job(even(_crowded(s)))),
        # The ratio that the rule wants is of all work between exchanges, of which the experts' is less than half here.
        fires_from=1.0,
    ),
)


def _as_fast_as_tf32(strength: float) -> Scenario:
    told = dict(_partly_fp32(strength))
    first, plain, fast = told["program"]
    plain = {**plain, "do": [{"kernel": {"us": 300 * _TF32_SCALE, "py_us": 3, "prec": "tf32"}}]}
    return {**told, "program": [first, plain, fast]}


def respond(dose: Dose, way: Way = "tables", strengths: tuple[float, ...] = STRENGTHS) -> Iterator[str]:
    """Yield what is wrong with how a diagnosis responds to the strength of a fault."""
    rule = next((rule for rule in rules() if rule.id == dose.rule), None)
    if rule is None:
        return
    threshold = rule.params["min_share"].default
    before = 0.0
    for strength in strengths:
        seen = examine(dose.scenario(strength), way)
        truth = seen.true_share(dose.without(strength))
        bound = _bound(seen, dose.rule)
        where = f"{dose.name} × {strength:g}"
        if bound is None and truth > (1 + _NEAR) * float(threshold) and strength >= dose.fires_from:
            yield f"{where}: {dose.rule} does not fire, though {truth:.1%} could be saved"
        if bound is not None and truth < (1 - _NEAR) * float(threshold):
            yield f"{where}: {dose.rule} fires, though only {truth:.1%} could be saved"
        if bound is not None and abs(bound - truth) * POINTS > _MOST_POINTS_APART:
            yield f"{where}: the bound of {dose.rule} is {bound:.1%}, the truth {truth:.1%}"
        if (bound or 0.0) < before:
            yield f"{where}: the bound of {dose.rule} falls from {before:.1%} to {bound or 0:.1%}"
        before = bound or 0.0


def _bound(seen: Examined, rule: str) -> float | None:
    """Return what a rule, or one that refines it and stands for it, promises; None: neither fires."""
    names = {rule, *(finer.id for finer in rules() if rule in finer.refines)}
    return max((promised_share(item) or 0.0 for item in seen.findings if item.rule in names), default=None)
