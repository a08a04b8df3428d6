"""Steps of jobs of several ranks: data parallel, fully sharded, pipelined and with experts."""

from __future__ import annotations

from typing import Any

Program = list[dict[str, Any]]
_GATHERED_STREAM, _SCATTERED_STREAM = 24, 28


def kernels(count: int, us: float, kernel_class: str = "gemm", py_us: float = 3) -> dict[str, Any]:
    """Return kernels of equal length, launched one after the other."""
    return {"repeat": count, "do": [{"kernel": {"us": us, "py_us": py_us, "class": kernel_class}}]}


def data_parallel(kernel_us: float = 80, per_bucket: int = 14, py_us: float = 3, bucket_us: float = 800) -> Program:
    """Return a step whose gradients are reduced in eight buckets beside the backward pass."""
    part = kernels(per_bucket, kernel_us, py_us=py_us)
    bucket = {"comm": {"us": bucket_us, "blocking": False}}
    return [
        {"next": {"us": 300}},
        {"h2d": {"mb": 2}},
        kernels(per_bucket * 9 // 2, kernel_us, py_us=py_us),
        {"backward": {"repeat": 1}, "do": [*[part, bucket] * 8, part]},
        {"stream_wait": {"on": "compute", "of": "comm"}},
        {"optimizer": {"kernels": 10, "us": 40, "py_us": py_us}},
    ]


def fully_sharded(*, prefetch: bool, blocks: int = 8) -> Program:
    """Return a step that gathers each block's weights, one block ahead or only when they are needed."""

    def gather(block: int) -> dict[str, Any]:
        told = {"op": "all_gather", "us": 120, "stream": _GATHERED_STREAM, "blocking": False, "event": f"w{block}"}
        return {"comm": told}

    def passing(order: list[int], count: int, us: float, after: Program) -> Program:
        found: Program = [gather(order[0])] if prefetch else []
        for place, block in enumerate(order):
            if not prefetch:
                found.append(gather(block))
            elif place + 1 < len(order):
                found.append(gather(order[place + 1]))
            found += [{"stream_wait": {"on": "compute", "event": f"w{block}"}}, kernels(count, us), *after]
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


def pipeline(stage: int, stages: int, batches: int, forward_us: float) -> Program:
    """Return one stage's step of the schedule with one forward and one backward pass in turn."""
    before, after = stage - 1, stage + 1
    first, last = stage == 0, after == stages
    forward: Program = [kernels(1, forward_us)]
    backward: Program = [kernels(1, 2 * forward_us)]

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


def experts(tokens: float, layers: int = 6) -> Program:
    """Return a step of layers whose tokens travel to their experts and back beside a shared expert."""
    travel = {"comm": {"op": "all_to_all", "us": 500, "blocking": False}}
    arrived = {"stream_wait": {"on": "compute", "of": "comm"}}
    shared = kernels(7, 90)
    layer = [kernels(6, 80), travel, shared, arrived, kernels(5, 80 * tokens), travel, shared, arrived]
    return [{"next": {"us": 300}}, {"repeat": layers, "do": layer}, {"optimizer": {"kernels": 4, "us": 40}}]
