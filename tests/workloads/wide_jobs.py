"""Jobs of many ranks: tensor-parallel groups of four, copies of the model trained in parallel, planted culprits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

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


@dataclass(frozen=True)
class Planted:
    """The culprits of `planted_job`, by rank; the ranks of a slow node are all of its devices."""

    late_loader: int
    slow_gpu: int
    slow_host: int
    slow_node: tuple[int, ...]

    @classmethod
    def among(cls, ranks: int) -> Self:
        """Return the culprits of a job over so many ranks: 32, or a multiple."""
        node = 3 * ranks // 4
        return cls(ranks // 4 + 1, ranks // 2 + 3, ranks // 8 + 2, tuple(range(node, node + 8)))

    @property
    def ranks(self) -> set[int]:
        """All culprits."""
        return {self.late_loader, self.slow_gpu, self.slow_host, *self.slow_node}


def planted_job(ranks: int, *, healthy: bool = False, jitter: float = 0.0) -> Mapping[str, Any]:
    """Return a job whose host waits for the device once a step, with a culprit of each kind unless it is `healthy`.

    One rank waits 2.4 ms a step for its loader, the GPU of one is 12 % slower and those of a node 8 %, and the host of
    one launches kernels 9 % more slowly than its GPU runs them.
    """
    planted = Planted.among(ranks)
    job = dict(wide_job(ranks, jitter=jitter, collectives=8))
    program = [*job["programs"][0], {"sync": {"kind": "device"}}]
    late = [{"next": {"us": 2_600}}, *program[1:]]
    faults = [
        {"rank": planted.slow_gpu, "kernel_scale": SLOW_KERNEL_SCALE},
        {"rank": planted.slow_host, "host_scale": 65.0},
        *({"rank": rank, "kernel_scale": 1.08} for rank in planted.slow_node),
    ]
    return {
        **job,
        "steps": 5,
        "programs": [late if rank == planted.late_loader and not healthy else program for rank in range(ranks)],
        "faults": [] if healthy else faults,
    }
