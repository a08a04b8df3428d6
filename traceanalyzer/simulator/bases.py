"""Healthy jobs of every common kind, and faults planted in them, each with a twin that is just healthy enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Program = list[dict[str, Any]]
_CLOCKS_OF_4 = [0, 3e6, -5e5, 77_777]
_GATHERED_STREAM, _SCATTERED_STREAM = 24, 28


def _kernels(count: int, us: float, kernel_class: str = "gemm", py_us: float = 3) -> dict[str, Any]:
    return {"repeat": count, "do": [{"kernel": {"us": us, "py_us": py_us, "class": kernel_class}}]}


def _data_parallel(kernel_us: float = 80, per_bucket: int = 14, py_us: float = 3) -> Program:
    """Return a step whose gradients are reduced in eight buckets beside the backward pass."""
    part = _kernels(per_bucket, kernel_us, py_us=py_us)
    bucket = {"comm": {"us": 800, "blocking": False}}
    return [
        {"next": {"us": 300}},
        {"h2d": {"mb": 2}},
        _kernels(per_bucket * 9 // 2, kernel_us, py_us=py_us),
        {"backward": {"repeat": 1}, "do": [*[part, bucket] * 8, part]},
        {"stream_wait": {"on": "compute", "of": "comm"}},
        {"optimizer": {"kernels": 10, "us": 40, "py_us": py_us}},
    ]


def _fully_sharded(*, prefetch: bool, blocks: int = 8) -> Program:
    """Return a step that gathers each block's weights, one block ahead or only when they are needed."""

    def gather(block: int) -> dict[str, Any]:
        told = {"op": "all_gather", "us": 120, "stream": _GATHERED_STREAM, "blocking": False, "event": f"w{block}"}
        return {"comm": told}

    def passing(order: list[int], kernels: int, us: float, after: Program) -> Program:
        found: Program = [gather(order[0])] if prefetch else []
        for place, block in enumerate(order):
            if not prefetch:
                found.append(gather(block))
            elif place + 1 < len(order):
                found.append(gather(order[place + 1]))
            found += [{"stream_wait": {"on": "compute", "event": f"w{block}"}}, _kernels(kernels, us), *after]
        return found

    scatter = {"comm": {"op": "reduce_scatter", "us": 120, "stream": _SCATTERED_STREAM, "blocking": False}}
    order = list(range(blocks))
    return [
        {"next": {"us": 300}},
        *passing(order, 8, 80, []),
        {"backward": {"repeat": 1}, "do": passing(order[::-1], 16, 80, [scatter])},
        {"stream_wait": {"on": "compute", "of": _SCATTERED_STREAM}},
        {"optimizer": {"kernels": 4, "us": 40, "py_us": 3}},
    ]


def _pipeline(stage: int, stages: int, batches: int, forward_us: float) -> Program:
    """Return one stage's step of the schedule with one forward and one backward pass in turn."""
    before, after = stage - 1, stage + 1
    first, last = stage == 0, after == stages
    forward: Program = [_kernels(1, forward_us)]
    backward: Program = [_kernels(1, 2 * forward_us)]

    def pass_on(kind: str, **told: int) -> Program:
        """Return a message, or nothing at the ends of the pipeline."""
        return [] if any(peer in (-1, stages) for peer in told.values()) else [{kind: {**told, "us": 60}}]

    warm_up = min(stages - stage - 1, batches)
    steady = batches - warm_up
    step: Program = []
    for _ in range(warm_up):
        step += pass_on("recv", **{"from": before}) + forward + pass_on("send", to=after)
    if steady and not first:
        step += pass_on("recv", **{"from": before})
    for batch in range(steady):
        step += forward
        step += [] if last else pass_on("exchange", to=after, **{"from": after})
        step += backward
        if not first:
            is_last = batch == steady - 1
            step += pass_on("send", to=before) if is_last else pass_on("exchange", to=before, **{"from": before})
    for _ in range(warm_up):
        step += pass_on("recv", **{"from": after}) + backward + pass_on("send", to=before)
    return [*step, {"optimizer": {"kernels": 4, "us": 40, "py_us": 3}}]


def _experts(tokens: float, layers: int = 6) -> Program:
    """Return a step of layers whose tokens travel to their experts and back beside a shared expert."""
    travel = {"comm": {"op": "all_to_all", "us": 500, "blocking": False}}
    arrived = {"stream_wait": {"on": "compute", "of": "comm"}}
    shared = _kernels(7, 90)
    layer = [_kernels(6, 80), travel, shared, arrived, _kernels(5, 80 * tokens), travel, shared, arrived]
    return [{"next": {"us": 300}}, {"repeat": layers, "do": layer}, {"optimizer": {"kernels": 4, "us": 40}}]


_TOKENS = [1.0, 0.98, 1.02, 1.0, 0.97, 1.05, 0.99, 0.99]
_DECODER = {"graph": {"kernels": 450, "us": 12.3, "class": "elementwise"}}
_DDP: dict[str, Any] = {"ranks": 4, "steps": 8, "clock_offset_us": _CLOCKS_OF_4}
_BASE_D4 = {**_DDP, "program": _data_parallel()}
_NARROW_D4 = {**_DDP, "steps": 4, "program": _data_parallel(kernel_us=12, per_bucket=88)}
_LAUNCH_BOUND = {"steps": 5, "kernels": 1500, "kernel_us": 5, "host_us": 8}


def _stages(batches: int, scales: tuple[float, ...] = (1, 1, 1, 1)) -> dict[str, Any]:
    programs = [_pipeline(stage, 4, batches, 4_000 * scale) for stage, scale in enumerate(scales)]
    return {"ranks": 4, "steps": 4, "clock_offset_us": _CLOCKS_OF_4, "programs": programs}


def _expert_job(tokens: list[float]) -> dict[str, Any]:
    return {"ranks": 8, "steps": 5, "programs": [_experts(share) for share in tokens]}


BASES: dict[str, dict[str, Any]] = {
    "training": {"steps": 10},
    "data parallel": _BASE_D4,
    "fully sharded": {**_DDP, "program": _fully_sharded(prefetch=True)},
    "pipeline": _stages(32),
    "experts": _expert_job(_TOKENS),
    "decoding": {
        "steps": 8,
        # Tokens are read one replay late, so that the next one is always queued.
        "program": [{"py": 300}, _DECODER, {"d2h": {"mb": 0.01}}, {"sync": "event"}, {"event_record": {}}],
    },
}


@dataclass(frozen=True)
class Fault:
    """A scenario with one thing wrong in it, and one that looks like it and is healthy."""

    scenario: dict[str, Any]
    twin: dict[str, Any]


def _late(*late: tuple[int, float]) -> dict[str, Any]:
    return {**_BASE_D4, "faults": [{"rank": rank, "loader_us": us} for rank, us in late]}


FAULTS: dict[str, Fault] = {
    "starving loader": Fault({"steps": 10, "loader_us": 25_000}, {"steps": 10, "loader_us": 12_000}),
    "item in every step": Fault(
        {"steps": 10, "item_per_step": 1}, {"steps": 10, "item_per_step": 1, "item_every": 100}
    ),
    "loader and item": Fault(
        {"steps": 10, "loader_us": 9_000, "item_per_step": 1}, {**_LAUNCH_BOUND, "item_per_step": 1}
    ),
    "launch-bound": Fault(_LAUNCH_BOUND, {**_LAUNCH_BOUND, "kernel_us": 12, "host_us": 1}),
    "pageable batch": Fault(
        {"steps": 10, "h2d_mb": 64, "h2d_pinned": False}, {"steps": 10, "h2d_mb": 0.004, "h2d_pinned": False}
    ),
    "garbage every fourth step": Fault(
        {"steps": 12, "gc_us": 150_000, "gc_every": 4}, {"steps": 12, "gc_us": 5_000, "gc_every": 4}
    ),
    # 9 us of host time for each kernel of 12 us: times 1.6 the host is too slow.
    "slow host on one rank": Fault(
        {**_NARROW_D4, "faults": {"rank": 3, "host_scale": 1.6, "launch_us": 9.6}},
        {**_NARROW_D4, "faults": {"rank": 3, "host_scale": 1.2, "launch_us": 7.2}},
    ),
    "slow device on one rank": Fault(
        {**_BASE_D4, "faults": {"rank": 2, "kernel_scale": 1.12}},
        {**_BASE_D4, "faults": {"rank": 2, "kernel_scale": 1.01}},
    ),
    "two late ranks": Fault(_late((3, 25_000), (1, 23_000)), _late((3, 12_000), (1, 11_000))),
    "exposed reduction": Fault(
        {**_DDP, "kernels": 100, "comm_us": 2_500},
        # The same transfer while the host, just synchronised, is late with what follows.
        {
            **_DDP,
            "program": [
                _kernels(100, 80),
                {"sync": "device"},
                {"comm": {"us": 2_500}},
                {"py": 8_000},
                _kernels(5, 80),
            ],
        },
    ),
    "many small reductions": Fault(
        {**_DDP, "steps": 3, "program": [_kernels(100, 80), {"repeat": 300, "do": [{"comm": {"mb": 0.0625}}]}]},
        {
            **_DDP,
            "steps": 3,
            "program": [
                {"repeat": 300, "do": [_kernels(1, 80), {"comm": {"mb": 0.0625, "blocking": False}}]},
                {"stream_wait": {"on": "compute", "of": "comm"}},
            ],
        },
    ),
    "gathered too late": Fault({**_DDP, "program": _fully_sharded(prefetch=False)}, BASES["fully sharded"]),
    "pipeline bubble": Fault(_stages(4, (1, 1, 1, 1.25)), _stages(32, (1, 1.04, 0.96, 1))),
    "expert imbalance": Fault(_expert_job([*_TOKENS[:5], 2.1, *_TOKENS[6:]]), BASES["experts"]),
    "host between replays": Fault({"steps": 8, "program": [{"py": 3_000}, _DECODER, {"item": 1}]}, BASES["decoding"]),
}
