"""Random pairs and triples of faults in a job: the order of fixes holds all that matter and promises what is true."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from faultbench.examining import Examined, Way, examine
from faultbench.planted import Without

COUNT = 100
# What matters: a share of the window that is only won if this fault is fixed, too.
_MATTERS_SHARE = 0.03
_MOST_APART_SHARE = 0.02
_BASE: dict[str, Any] = {"steps": 11, "kernels": 60, "pinned_gb_per_s": 20.0, "device": "H200"}
_TF32_SCALE = 67.0 / (494.0 * 0.75)


@dataclass(frozen=True)
class Ingredient:
    """A fault that can be planted beside others, between its least and greatest strength."""

    rule: str
    key: str  # of the scenario: how strong it is
    least: float
    most: float
    also: Mapping[str, Any] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    kernel_scale: Mapping[str, float] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)  # keys of the scenario once it is fixed
    spoils: tuple[str, ...] = ()  # rules of ingredients that are about the same operations


INGREDIENTS: tuple[Ingredient, ...] = (
    Ingredient("dataloader-bound", "loader_us", 1_000, 12_000, removed=("host.dataloader",)),
    Ingredient("sync-in-step", "host_us", 3, 30, {"item_per_step": 1}, removed=("host.sync",)),
    Ingredient(
        "h2d-pageable",
        "h2d_mb",
        8,
        48,
        {"h2d_pinned": False},
        fixed={"h2d_pinned": True, "h2d_stream": "compute"},
    ),
    Ingredient("alloc-in-steady-state", "malloc_us", 100, 900, {"malloc_per_step": 10}, removed=("host.alloc",)),
    Ingredient("gc-pauses", "gc_us", 5_000, 40_000, {"gc_every": 3}, removed=("host.gc",)),
    Ingredient("recompile-steady-state", "compile_us", 5_000, 40_000, {"compile_every": 3}, removed=("host.compile",)),
    Ingredient(
        "attention-unfused",
        "attention_us",
        200,
        1_000,
        {"attention": "unfused", "attention_layers": 5},
        kernel_scale={"bmm": 0.75, "softmax": 0.0},  # as the fastest fused kernels: see attention-unfused
        spoils=("fp32-matmul-no-tensor-core",),
    ),
    Ingredient(
        "fp32-matmul-no-tensor-core",
        "kernel_us",
        60,
        200,
        {"precision": "fp32"},
        kernel_scale={"gemm": _TF32_SCALE},
        spoils=("attention-unfused",),
    ),
    Ingredient("comm-blocking", "comm_us", 300, 2_500, removed=("dev.comm_transfer",)),
)


@dataclass(frozen=True)
class Mixture:
    """Some ingredients of one job, each of a strength."""

    seed: int
    parts: tuple[tuple[Ingredient, float], ...]

    @property
    def name(self) -> str:
        """Return the mixture in words."""
        return f"{self.seed}: " + " + ".join(
            f"{part.rule} ({part.key} {strength:.0f})" for part, strength in self.parts
        )

    def scenario(self) -> dict[str, Any]:
        """Return the job with all of them."""
        changed = dict(_BASE)
        for part, strength in self.parts:
            changed.update({part.key: strength, **part.also})
        return changed

    def without(self, fixed: Sequence[Ingredient]) -> Without:
        """Return the job with some of them fixed."""
        changed = self.scenario()
        for part in fixed:
            changed.update(part.fixed)
        causes = tuple(cause for part in fixed for cause in part.removed)
        scale = {name: factor for part in fixed for name, factor in part.kernel_scale.items()}
        return Without(causes, scale, changed)


def mixture(seed: int) -> Mixture:
    """Return a random pair or triple of ingredients that are about different things."""
    draw = random.Random(seed)
    while True:
        parts = draw.sample(INGREDIENTS, draw.choice((2, 3)))
        if not any(one.rule in other.spoils for one, other in combinations(parts, 2)):
            return Mixture(seed, tuple((part, draw.uniform(part.least, part.most)) for part in parts))


def hold(mixed: Mixture, way: Way = "tables") -> Iterator[str]:
    """Yield what is wrong with the order of fixes of a mixture.

    A fix that saves less than the spread of the steps begins no order.
    """
    seen = examine(mixed.scenario(), way)
    reported = {found.rule for found in seen.findings}
    alone = {part.rule: _saved(seen, mixed, [part]) for part, _ in mixed.parts}
    parts = [part for part, _ in mixed.parts if part.rule in reported or not 0 < alone[part.rule] < seen.noise_share]
    also = [part for part in INGREDIENTS if part.rule in reported and part not in parts]
    together = _saved(seen, mixed, [*parts, *also])
    for part in parts:
        added = together - _saved(seen, mixed, [other for other in [*parts, *also] if other is not part])
        if added >= _MATTERS_SHARE and part.rule not in reported:
            yield f"{mixed.name}: {part.rule} is not in the order of fixes, and adds {added:.1%}"
    planned = _planned(seen)
    if abs(planned - together) > _MOST_APART_SHARE:
        yield f"{mixed.name}: {', '.join(sorted(reported))} promise {planned:.1%}, the truth is {together:.1%}"


def _planned(seen: Examined) -> float:
    """Return what the order of fixes promises."""
    return sum(found.marginal_ns or 0 for found in seen.findings) / max(
        ledger.window_ns for ledger in seen.diagnosis.ledgers
    )


def _saved(seen: Examined, mixed: Mixture, fixed: Sequence[Ingredient]) -> float:
    return seen.true_share(mixed.without(fixed)) if fixed else 0.0
