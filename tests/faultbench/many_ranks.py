"""Faults 13 to 20: jobs of several ranks on clocks that disagree by seconds, all simulated."""

from __future__ import annotations

from typing import Any

from workloads.bases import BASES, DDP, TOKENS, expert_job, pipelined_job
from workloads.step_programs import data_parallel, fully_sharded, kernels

from faultbench.planted import Expected, Fault, Scenario, Without

_WIDE: dict[str, Any] = {**DDP, "program": data_parallel()}
_NARROW: dict[str, Any] = {**DDP, "steps": 7, "program": data_parallel(12, 40, bucket_us=300)}
_CROWDED = [*TOKENS[:5], 2.1, *TOKENS[6:]]
_TWO: dict[str, Any] = {"ranks": 2, "steps": 7, "clock_offset_us": [0, 3e6]}
_BOTH_LATE = {1: ("host.dataloader",), 3: ("host.dataloader",)}
TRANSFER = Without(("dev.comm_transfer",))
# Every rank is late by 15 ms in every fourth step, one after the other.
HICCUPS = [{"rank": rank, "loader_us": [15_000 if step % 4 == rank else 300 for step in range(4)]} for rank in range(4)]


def even(tokens: list[float]) -> list[float]:
    """Return the same tokens, shared out evenly."""
    return [sum(tokens) / len(tokens)] * len(tokens)


def _pipeline(batches: int, scales: tuple[float, ...]) -> Scenario:
    return {**pipelined_job(batches, scales), "steps": 6}


def _late(*late: tuple[int, float]) -> Scenario:
    return {**_WIDE, "faults": [{"rank": rank, "loader_us": us} for rank, us in late]}


def _slow_host(factor: float) -> Scenario:
    # 9 us of host time for each kernel of 12 us: times 1.6 the host is too slow.
    return {**_NARROW, "faults": {"rank": 3, "host_scale": factor, "launch_us": 6 * factor}}


# By which a trace shows that it is of training.
_UPDATE: dict[str, Any] = {"optimizer": {"kernels": 2, "us": 40}}


def _small_reductions(*, hidden: bool) -> Scenario:
    if not hidden:
        return {**_TWO, "program": [kernels(100, 80), {"repeat": 300, "do": [{"comm": {"mb": 0.0625}}]}, _UPDATE]}
    beside = [kernels(1, 80), {"comm": {"mb": 0.0625, "blocking": False}}]
    return {
        **_TWO,
        "program": [{"repeat": 300, "do": beside}, {"stream_wait": {"on": "compute", "of": "comm"}}, _UPDATE],
    }


# The same transfer while the host, just synchronised, is late with what follows.
_COINCIDENT = [kernels(100, 80), {"sync": "device"}, {"comm": {"us": 2_500}}, {"py": 8_000}, kernels(5, 80)]

MANY_RANKS: tuple[Fault, ...] = (
    Fault(
        "13",
        "slow host on one rank",
        _slow_host(1.6),
        {**_NARROW, "faults": HICCUPS},
        (
            Expected(
                "comm-straggler-wait", rank=3, without=Without({3: ("host.python", "host.op", "host.launch_api")})
            ),
            Expected("host-noise-rank", rank=3, first=False, attached_to="comm-straggler-wait"),
        ),
        silent=("rank-compute-imbalance",),
    ),
    Fault(
        "14",
        "slow device on one rank",
        {**_WIDE, "faults": {"rank": 2, "kernel_scale": 1.12}},
        {**_WIDE, "faults": {"rank": 2, "kernel_scale": 1.01}},
        (
            Expected("comm-straggler-wait", rank=2, without=Without(kernel_scale={2: {"compute": 1 / 1.12}})),
            Expected("slow-gpu-rank", rank=2, first=False, attached_to="comm-straggler-wait"),
        ),
        silent=("dataloader-bound",),
    ),
    Fault(
        "15",
        "two late ranks",
        _late((3, 25_000), (1, 23_000)),
        _late((3, 12_000), (1, 11_000)),
        (
            Expected("dataloader-bound", rank=3, without=Without(_BOTH_LATE)),
            Expected("comm-straggler-wait", rank=3, first=False, without=Without({3: ("host.dataloader",)})),
        ),
    ),
    Fault(
        "16",
        "exposed reduction",
        {**DDP, "kernels": 100, "comm_us": 2_500},
        {**DDP, "program": _COINCIDENT},
        (
            Expected("comm-blocking", without=TRANSFER),
            Expected(
                "comm-fp32-gradients",
                first=False,
                without=Without(instead={**DDP, "kernels": 100, "comm_us": 1_250}),
            ),
        ),
        silent=("comm-straggler-wait",),
        twin_tells=("sync-in-step", "host-stalls"),
    ),
    Fault(
        "17",
        "many small reductions",
        _small_reductions(hidden=False),
        _small_reductions(hidden=True),
        # Buckets leave out the launches of the reductions, too.
        (Expected("unbucketed-gradients", without=Without(instead={**_TWO, "program": [kernels(100, 80), _UPDATE]})),),
        silent=("comm-low-bandwidth",),
    ),
    Fault(
        "18",
        "weights gathered too late",
        {**DDP, "program": fully_sharded(prefetch=False)},
        BASES["fully sharded"],
        (Expected("fsdp-prefetch", without=Without(instead=BASES["fully sharded"])),),
        silent=("comm-low-bandwidth",),
    ),
    Fault(
        "19",
        "pipeline bubble and a slow stage",
        _pipeline(4, (1, 1, 1, 1.25)),
        pipelined_job(32, (1, 1.04, 0.96, 1)),
        (
            # Twice as many micro-batches of half the size; the same work, spread evenly.
            Expected("pp-bubble", without=Without(instead=_pipeline(8, (0.5, 0.5, 0.5, 0.625)))),
            Expected("pp-stage-imbalance", rank=3, first=False, without=Without(instead=_pipeline(4, (1.0625,) * 4))),
        ),
        silent=("comm-blocking",),
    ),
    Fault(
        "20",
        "expert imbalance",
        expert_job(_CROWDED),
        BASES["experts"],
        # Balanced, the same tokens are shared out evenly.
        (Expected("moe-expert-imbalance", rank=5, without=Without(instead=expert_job(even(_CROWDED)))),),
        silent=("comm-straggler-wait",),
    ),
)
