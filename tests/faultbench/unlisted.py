"""Scenarios that no list named: seven faults with twins, and three healthy jobs that look ill."""

from __future__ import annotations

from typing import Any

from workloads.bases import DDP
from workloads.step_programs import data_parallel

from faultbench.planted import Expected, Fault, Healthy, Scenario, Without

_WORKERS: dict[str, Any] = {"steps": 16, "loader_us": 50, "loader_workers": 8, "worker_us": 9_000}
_FORWARD = {"forward": 66, "do": [{"kernel": {"us": 80, "py_us": 3}}]}
_BACKWARD = {"backward": {"repeat": 124}, "do": [{"kernel": {"us": 80, "py_us": 3}}]}
_UPDATE = {"optimizer": {"kernels": 10, "us": 80, "py_us": 3}}
_NEXT = {"next": {"us": 300}}


def _training(*, first: list[Any] | None = None, last: list[Any] | None = None, steps: int = 11) -> Scenario:
    return {"steps": steps, "program": [_NEXT, *(first or []), _FORWARD, _BACKWARD, _UPDATE, *(last or [])]}


def _saving(us: float, every: int = 3) -> Scenario:
    saved = {"annot": {"name": "save_checkpoint"}, "do": [{"d2h": {"mb": 400}}, {"sync": "stream"}, {"py": us}]}
    return _training(first=[{"every": {"steps": every, "phase": 0}, "do": [saved]}])


def _masked(count: int) -> Scenario:
    """Return steps that index with a mask, whose result has a size that the host must wait for."""
    kernel = {"kernel": {"us": 10, "class": "reduce", "op": "aten::sum"}}
    size = [kernel, {"d2h": {"mb": 0.001}}, {"sync": "stream"}]
    picked = {"op": {"name": "aten::index"}, "do": [{"op": {"name": "aten::nonzero"}, "do": size}]}
    part = [{"kernel": {"us": 40, "py_us": 12}}] * 30
    return {"steps": 9, "program": [_NEXT, {"repeat": count, "do": [*part, picked]}, *part * 3, _UPDATE]}


def _synchronised(kind: str) -> Scenario:
    wait = [{"sync": "device"}] if kind == "each launch" else []
    step = {"repeat": 120, "do": [{"kernel": {"us": 60, "py_us": 3}}, *wait]}
    return {"steps": 8, "program": [_NEXT, step, *([] if wait else [{"sync": "device"}])]}


def _augmented(us: float) -> Scenario:
    crops = {"op": {"name": "aten::upsample_bilinear2d", "op_us": us}}
    return _training(first=[{"repeat": 4, "do": [crops]}])


def _read_back(*, at_once: bool) -> Scenario:
    """Return steps whose 200 MB of results are read at once, or copied beside the next step and read after it."""
    if at_once:
        return _training(last=[{"d2h": {"mb": 200, "pinned": False}}])
    read = {"sync": {"kind": "event", "stream": 21}}
    copied = [{"event_record": {}}, {"stream_wait": {"on": 21, "of": 7}}, {"d2h": {"mb": 200, "stream": 21}}]
    return _training(last=[read, *copied, {"event_record": {"stream": 21}}])


def _brought_back(gradients: int, kernel_us: float = 20) -> Scenario:
    """Return steps whose gradients are copied out of the buckets that they were reduced in, one by one."""
    copy = {"kernel": {"us": 3, "op": "aten::copy_"}}
    copied = {"op": {"name": "torch.distributed.ddp.reducer::copy_bucket_to_grad", "op_us": 20, "do": [copy]}}
    kernels = {"repeat": 400, "do": [{"kernel": {"us": kernel_us, "py_us": 3}}]}
    return {"steps": 8, "program": [_NEXT, kernels, *([{"repeat": gradients, "do": [copied]}] if gradients else [])]}


UNLISTED: tuple[Fault, ...] = (
    Fault(
        "U1",
        "one thread pins every batch",
        {**_WORKERS, "pin_us": 24_000},
        {**_WORKERS, "pin_us": 9_000},
        (Expected("dataloader-bound", without=Without(("host.dataloader",))),),
    ),
    Fault(
        "U2",
        "checkpoint in the training thread",
        _saving(120_000),
        _saving(200),
        (Expected("checkpoint-in-window", without=Without(instead=_saving(0))),),
        silent=("launch-bound",),
    ),
    Fault(
        "U3",
        "masks of unknown size",
        _masked(12),
        _masked(0),
        (Expected("sync-dynamic-shape", without=Without(("host.sync",))),),
    ),
    Fault(
        "U4",
        "a wait after each launch",
        _synchronised("each launch"),
        {"steps": 8, "kernels": 120, "kernel_us": 60},
        (Expected("sync-per-launch", without=Without(("host.sync",))),),
        silent=("launch-bound",),
    ),
    Fault(
        "U5",
        "images scaled in the training thread",
        _augmented(8_000),
        _augmented(3_000),
        (Expected("preprocess-on-critical-path", without=Without(instead=_augmented(0))),),
        silent=("dataloader-bound", "launch-bound"),
    ),
    Fault(
        "U17",
        "large results read in every step",
        _read_back(at_once=True),
        _read_back(at_once=False),
        (Expected("d2h-large", without=Without(("dev.d2h",))),),
        silent=("h2d-pageable", "sync-in-step", "launch-bound"),
        twin_silent=("sync-in-step",),
    ),
    Fault(
        "U18",
        "gradients copied out of their buckets",
        _brought_back(200),
        _brought_back(100, kernel_us=80),
        (Expected("ddp-bucket-copies", without=Without(instead=_brought_back(0))),),
    ),
)

LOOK_ILL: tuple[Healthy, ...] = (
    Healthy(
        "U6",
        "optimizer in every fourth step",
        {
            "steps": 13,
            "program": [
                _NEXT,
                _FORWARD,
                _BACKWARD,
                {"every": {"steps": 4}, "do": [{"optimizer": {"kernels": 60, "us": 80, "py_us": 3}}]},
            ],
        },
        silent=("step-outliers-periodic", "step-time-jitter"),
    ),
    Healthy(
        "U7",
        "clocks that drift apart",
        {**DDP, "program": data_parallel(), "clock_offset_us": 0, "clock_drift_ppm": [0, 200, 50, 400]},
        silent=("comm-straggler-wait", "comm-blocking"),
    ),
    Healthy(
        "U8",
        "two streams that compute at once",
        {
            "steps": 9,
            "program": [
                _NEXT,
                {
                    "repeat": 90,
                    "do": [{"kernel": {"us": 160, "py_us": 3}}, {"kernel": {"us": 150, "py_us": 3, "stream": 31}}],
                },
            ],
        },
    ),
)
