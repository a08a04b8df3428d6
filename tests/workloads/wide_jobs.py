"""Jobs of many ranks: tensor-parallel groups of four, copies of the model trained in parallel, planted culprits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TENSOR_PARALLEL = 4
COLLECTIVES_A_STEP = 24
KERNELS_BETWEEN = 3
# The culprits: one rank waits for its loader in every step, the GPU of another one takes 12 % longer for each kernel.
LATE_US = 17_500
SLOW_KERNEL_SCALE = 1.12


def wide_job(
    ranks: int,
    *,
    late: int | None = None,
    slow: int | None = None,
    jitter: float = 0.0,
    collectives: int = COLLECTIVES_A_STEP,
) -> Mapping[str, Any]:
    """Return a job over a multiple of four ranks: `collectives` a step of each tensor-parallel group, 1 of all copies.

    `late` is a rank with a slow loader, `slow` one with a slow GPU; without them the job is healthy.
    """
    layer = [
        {"repeat": KERNELS_BETWEEN, "do": [{"kernel": {"us": 180, "py_us": 3}}]},
        {"comm": {"op": "all_reduce", "group": "tp", "us": 60, "mb": 8}},
    ]
    program: list[dict[str, Any]] = [
        {"next": {"us": 200}},
        {"repeat": collectives, "do": layer},
        {"comm": {"op": "all_reduce", "group": "dp", "us": 600}},
        {"optimizer": {"kernels": 5, "us": 60}},
    ]
    faults: list[dict[str, Any]] = []
    if late is not None:
        slow_loader = [{"next": {"us": LATE_US}}, *program[1:]]
    if slow is not None:
        faults.append({"rank": slow, "kernel_scale": SLOW_KERNEL_SCALE})
    return {
        "ranks": ranks,
        "steps": 6,
        "jitter": jitter,
        "groups": {
            "tp": [list(range(first, first + TENSOR_PARALLEL)) for first in range(0, ranks, TENSOR_PARALLEL)],
            "dp": [list(range(first, ranks, TENSOR_PARALLEL)) for first in range(TENSOR_PARALLEL)],
        },
        "programs": [slow_loader if rank == late else program for rank in range(ranks)],
        "faults": faults,
    }
