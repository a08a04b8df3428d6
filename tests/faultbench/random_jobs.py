"""Random jobs that nobody thought up, healthy and sick ones.

A seed draws what a job does, on which devices, in how many ranks and how it was recorded. Only running it again without
a cause decides whether that cause matters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from faultbench.planted import Scenario
from tracesim import SimulatedJob, simulate_job
from tracesim.catalogue.nsys_vocabulary import GraphMode, NsysSchema
from tracesim.writers.kineto import Dialect

HEALTHY_COUNT = SICK_COUNT = 60
# A healthy job is one in which no cause is worth that much.
WORTH_SHARE = 0.02
# What h2d-pageable assumes that a pinned copy reaches.
_PINNED_GB_PER_S = 20.0
ISSUING = ("host.python", "host.op", "host.launch_api")
_CAUSES: tuple[tuple[str, ...], ...] = (
    ("host.dataloader",),
    ("host.sync",),
    ISSUING,
    ("host.gc",),
    ("host.alloc",),
    ("host.compile",),
    ("host.memcpy_block", "dev.h2d"),
    ("dev.d2h",),
    ("dev.comm_transfer",),
)


@dataclass(frozen=True)
class Recorded:
    """How a job was recorded."""

    way: str  # kineto or nsys
    dialect: Dialect = "2025"
    graph_mode: GraphMode = "node"
    schema: NsysSchema = "2026.2"


@dataclass(frozen=True)
class RandomJob:
    """A job as its seed drew it."""

    name: str
    seed: int
    scenario: Scenario
    recorded: Recorded


def healthy_job(seed: int) -> RandomJob:
    """Return a random job in which no cause is worth telling: the first one drawn that is so."""
    draw = random.Random(f"healthy {seed}")
    while True:
        told = _step(draw)
        job = simulate_job(told, seed)
        if not _is_worth_mending(job):
            return RandomJob(f"healthy {seed}", seed, told, _recorded(draw, told))


def sick_job(seed: int) -> RandomJob:
    """Return a random job with one to three causes of random strength."""
    draw = random.Random(f"sick {seed}")
    told = _step(draw)
    # Without marks the steps that are kept cannot be found again in the job.
    told["steps_marked"] = True
    for cause in draw.sample(_AILMENTS, draw.choice((1, 1, 2, 3))):
        cause(draw, told)
    recorded = _recorded(draw, told)
    if recorded.dialect == "2021":
        # In those days garbage collection was not recorded, and is taken for Python.
        recorded = replace(recorded, dialect="2024")
    return RandomJob(f"sick {seed}", seed, told, recorded)


def _is_worth_mending(job: SimulatedJob) -> bool:
    """Tell whether a cause alone wins time; where all of them together do not, none does."""
    together = [cause for causes in _CAUSES for cause in causes]
    if job.true_saving_share(together) < WORTH_SHARE:
        return False
    return any(job.true_saving_share(causes) >= WORTH_SHARE for causes in _CAUSES)


# What is drawn ------------------------------------------------------------------------------------------------------

_DEVICES = (
    ("H100", "bf16"),
    ("H200", "bf16"),
    ("A100", "bf16"),
    ("B200", "bf16"),
    ("V100", "fp16"),
    ("MI300X", "bf16"),
)


def _step(draw: random.Random) -> dict[str, Any]:
    """Return a job whose host is ahead of its device, unless it is drawn otherwise."""
    ranks = draw.choice((1, 1, 2, 4))
    device, precision = draw.choice(_DEVICES)
    told: dict[str, Any] = {
        "device": device,
        "precision": precision,
        "pinned_gb_per_s": _PINNED_GB_PER_S,
        "steps": draw.randint(7, 10),
        "jitter": draw.choice((0.0, 0.02, 0.05, 0.1)),
        "shapes": draw.random() < 0.7,
        "stacks": draw.random() < 0.2,
        "sync_events": draw.random() < 0.3,
        "memory": draw.random() < 0.3,
        "steps_marked": draw.random() < 0.9,
    }
    kinds: list[Callable[[random.Random, dict[str, Any]], list[Any]]] = [_training, _training, _inference]
    if ranks > 1:
        told.update(ranks=ranks, clock_offset_us=[round(draw.uniform(-3e6, 3e6)) for _ in range(ranks)])
        kinds = [_reduced_beside, _gathered_ahead]
    told["program"] = draw.choice(kinds)(draw, told)
    return told


def _layer(draw: random.Random) -> list[Any]:
    """Return the kernels of one layer, each launched well before it is needed."""
    classes = ("gemm", "gemm", "elementwise", "norm", "attention", "conv", "reduce")
    layer: list[Any] = []
    for kind in ("gemm", *draw.choices(classes, k=draw.randint(1, 5))):
        # What could be fused with its neighbours is short, and worth nothing.
        us = round(draw.uniform(10, 14) if kind in ("elementwise", "reduce") else draw.uniform(60, 180))
        host_us = draw.uniform(0.05, 0.6) * us - 6
        split = draw.random()
        kernel = {"class": kind, "us": us}
        layer.append(
            {
                "kernel": {
                    **kernel,
                    "py_us": max(0, round(host_us * split)),
                    "op_us": max(0, round(host_us * (1 - split))),
                }
            }
        )
    return layer


def _layers(draw: random.Random) -> tuple[list[Any], int, float]:
    """Return a layer, how many there are, and how long their kernels run in us."""
    layer = _layer(draw)
    layer_us = sum(action["kernel"]["us"] for action in layer)
    count = max(4, round(draw.uniform(2_000, 5_000) / layer_us))
    return layer, count, count * layer_us


def _input(draw: random.Random, told: dict[str, Any], compute_us: float) -> list[Any]:
    """Return a loader that the device hides, and its copy."""
    us = draw.uniform(0.02, 0.35) * compute_us
    first: list[Any] = [{"next": {"us": round(us)}}]
    if draw.random() < 0.3:
        workers = draw.choice((2, 4, 8))
        worker_us = round(draw.uniform(0.2, 0.6) * workers * compute_us)
        first = [{"next": {"us": 50, "workers": workers, "worker_us": worker_us}}]
        told["steps"] = 12
    if draw.random() < 0.8:
        first.append({"h2d": {"mb": round(draw.uniform(0.1, 8), 1)}})
    return first


def _training(draw: random.Random, told: dict[str, Any]) -> list[Any]:
    layer, count, forward_us = _layers(draw)
    step = [
        *_input(draw, told, 3 * forward_us),
        {"repeat": count, "do": layer},
        {"backward": {"repeat": 2 * count}, "do": layer},
        {"optimizer": {"kernels": draw.randint(1, 20), "us": 40, "py_us": 3}},
    ]
    if draw.random() < 0.3:
        step.append({"every": {"steps": 50}, "do": [{"item": 1}]})
    return step


def _inference(draw: random.Random, told: dict[str, Any]) -> list[Any]:
    layer, count, compute_us = _layers(draw)
    if draw.random() < 0.5:
        replay = {"graph": {"kernels": draw.randint(100, 400), "us": round(draw.uniform(8, 25), 1)}}
        read = [{"d2h": {"mb": 0.01}}, {"sync": "event"}, {"event_record": {}}]
        return [{"py": round(draw.uniform(50, 400))}, replay, *read]
    return [*_input(draw, told, compute_us), {"repeat": count, "do": layer}]


def _reduced_beside(draw: random.Random, told: dict[str, Any]) -> list[Any]:
    layer, count, forward_us = _layers(draw)
    buckets = draw.randint(2, 8)
    bucket = {"comm": {"us": round(draw.uniform(0.1, 0.5) * 2 * forward_us / buckets), "blocking": False}}
    part = {"repeat": max(1, 2 * count // buckets), "do": layer}
    return [
        *_input(draw, told, 3 * forward_us),
        {"repeat": count, "do": layer},
        {"backward": {"repeat": 1}, "do": [*[part, bucket] * (buckets - 1), part, part]},
        {"stream_wait": {"on": "compute", "of": "comm"}},
        {"optimizer": {"kernels": draw.randint(1, 20), "us": 40, "py_us": 3}},
    ]


def _gathered_ahead(draw: random.Random, told: dict[str, Any]) -> list[Any]:
    layer = _layer(draw)
    layer_us = sum(action["kernel"]["us"] for action in layer)
    blocks = max(3, round(draw.uniform(3_000, 6_000) / layer_us / 4))

    def gather(block: int) -> dict[str, Any]:
        us = round(draw.uniform(0.1, 0.5) * 4 * layer_us)
        return {"comm": {"op": "all_gather", "us": us, "stream": 24, "blocking": False, "event": f"w{block}"}}

    step = [*_input(draw, told, blocks * 4 * layer_us), gather(0)]
    for block in range(blocks):
        if block + 1 < blocks:
            step.append(gather(block + 1))
        step += [{"stream_wait": {"on": "compute", "event": f"w{block}"}}, {"repeat": 4, "do": layer}]
    return step


def _recorded(draw: random.Random, told: Mapping[str, Any]) -> Recorded:
    """Return a way to record a job that knows its device."""
    if told["device"] == "MI300X":
        return Recorded("kineto", "rocm")
    if draw.random() < 0.5:
        return Recorded("kineto", draw.choice(("2021", "2024", "2025", "2025")))
    return Recorded("nsys", "2025", draw.choice(("node", "node", "graph")), draw.choice(("2026.2", "2024.5")))


# What ails a job ----------------------------------------------------------------------------------------------------


def _front(told: dict[str, Any], action: dict[str, Any]) -> None:
    told["program"] = [action, *told["program"]]


def _slow_loader(draw: random.Random, told: dict[str, Any]) -> None:
    kept = [action for action in told["program"] if "next" not in action]
    told["program"] = [{"next": {"us": round(draw.uniform(500, 40_000))}}, *kept]


def _items(draw: random.Random, told: dict[str, Any]) -> None:
    told["program"] = [*told["program"], {"item": draw.choice((1, 1, 3))}]


def _garbage(draw: random.Random, told: dict[str, Any]) -> None:
    period = draw.choice((1, 2, 3))
    _front(told, {"every": {"steps": period}, "do": [{"gc": round(draw.uniform(500, 40_000))}]})


def _mallocs(draw: random.Random, told: dict[str, Any]) -> None:
    _front(told, {"malloc": {"us": round(draw.uniform(100, 1_500)), "count": draw.randint(2, 20)}})


def _compiled(draw: random.Random, told: dict[str, Any]) -> None:
    _front(
        told, {"every": {"steps": draw.choice((2, 3))}, "do": [{"compile": {"us": round(draw.uniform(2_000, 60_000))}}]}
    )


def _copied_in_order(draw: random.Random, told: dict[str, Any]) -> None:
    _front(told, {"h2d": {"mb": round(draw.uniform(1, 300)), "stream": "compute"}})


def _pageable(draw: random.Random, told: dict[str, Any]) -> None:
    # In place of the other copies: how those would queue behind it, pinned, is not told.
    told["program"] = [action for action in told["program"] if "h2d" not in action]
    _front(told, {"h2d": {"mb": round(draw.uniform(1, 100)), "pinned": False}})


def _late_rank(draw: random.Random, told: dict[str, Any]) -> None:
    if "ranks" in told:
        late = {"rank": draw.randrange(told["ranks"]), "loader_us": round(draw.uniform(5_000, 60_000))}
        told["faults"] = late


def _slow_host(draw: random.Random, told: dict[str, Any]) -> None:
    told["host_scale"] = round(draw.uniform(1.5, 8), 1)


def _reduced_at_the_end(draw: random.Random, told: dict[str, Any]) -> None:
    if "ranks" in told:
        told["program"] = [*told["program"], {"comm": {"us": round(draw.uniform(200, 6_000))}}]


def _small_reductions(draw: random.Random, told: dict[str, Any]) -> None:
    if "ranks" in told:
        told["program"] = [*told["program"], {"repeat": draw.randint(20, 150), "do": [{"comm": {"mb": 0.0625}}]}]


_AILMENTS = (
    _slow_loader,
    _items,
    _garbage,
    _mallocs,
    _compiled,
    _copied_in_order,
    _slow_host,
    _pageable,
    _late_rank,
    _reduced_at_the_end,
    _small_reductions,
)
