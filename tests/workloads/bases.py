"""Healthy jobs of every common kind: nothing is wrong in them, and faults are planted in them."""

from __future__ import annotations

from typing import Any

from workloads.step_programs import data_parallel, experts, fully_sharded, pipeline

CLOCKS_OF_4 = [0, 3e6, -5e5, 77_777]
DDP: dict[str, Any] = {"ranks": 4, "steps": 8, "clock_offset_us": CLOCKS_OF_4}
# One iteration of a decoder, as one graph.
DECODER = {"graph": {"kernels": 450, "us": 12.3, "class": "gemm"}}
# Tokens that the experts of each rank get, relative to an even share.
TOKENS = [1.0, 0.98, 1.02, 1.0, 0.97, 1.05, 0.99, 0.99]


def pipelined_job(batches: int, scales: tuple[float, ...] = (1, 1, 1, 1)) -> dict[str, Any]:
    """Return four stages, each as slow as its scale says, that pass batches on to each other."""
    programs = [pipeline(stage, 4, batches, 4_000 * scale) for stage, scale in enumerate(scales)]
    return {"ranks": 4, "steps": 4, "clock_offset_us": CLOCKS_OF_4, "programs": programs}


def expert_job(tokens: list[float]) -> dict[str, Any]:
    """Return as many ranks as there are shares of tokens."""
    return {"ranks": len(tokens), "steps": 5, "programs": [experts(share) for share in tokens]}


BASES: dict[str, dict[str, Any]] = {
    "training": {"steps": 10},
    "data parallel": {**DDP, "program": data_parallel()},
    "fully sharded": {**DDP, "program": fully_sharded(prefetch=True)},
    "pipeline": pipelined_job(32),
    "experts": expert_job(TOKENS),
    "decoding": {
        "steps": 8,
        # Tokens are read one replay late, so that the next one is always queued.
        "program": [{"py": 300}, DECODER, {"d2h": {"mb": 0.01}}, {"sync": "event"}, {"event_record": {}}],
    },
}
