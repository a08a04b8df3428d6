"""H1 to H8: jobs in which nothing is wrong, or not what it seems."""

from __future__ import annotations

from typing import Any

from workloads.bases import BASES, DDP
from workloads.step_programs import data_parallel, kernels

from faultbench.many_ranks import HICCUPS
from faultbench.planted import Healthy, Scenario

_LAUNCH_BOUND: dict[str, Any] = {"steps": 5, "kernels": 1500, "kernel_us": 5, "host_us": 8}
_OF_SYNCS = ("sync-in-step", "sync-dynamic-shape", "sync-per-launch", "sampling-sync")
_OF_KERNELS = ("fp32-matmul-no-tensor-core", "amp-not-used", "attention-unfused", "kernel-hotspot", "low-occupancy")
_OF_GAPS = ("engine-host-gap", "launch-bound", "host-stalls", "sampling-sync", "sync-in-step")


def _gathered_beside(blocks: int = 8) -> Scenario:
    """Return a step in which communication takes a third of the device's busy time, all of it beside compute."""
    gather = {"comm": {"op": "all_gather", "us": 420, "stream": 24, "blocking": False}}
    scatter = {"comm": {"op": "reduce_scatter", "us": 420, "stream": 28, "blocking": False}}
    block = [gather, kernels(12, 80), scatter]
    ends = [{"stream_wait": {"on": "compute", "of": stream}} for stream in (24, 28)]
    program = [{"next": {"us": 300}}, {"repeat": blocks, "do": block}, kernels(12, 80), *ends, kernels(4, 40)]
    return {**DDP, "program": program}


def _mixture_of_small_kernels() -> Scenario:
    """Return a launch-bound step with copies on the device's own memory, FP32 products and kernels of one block."""
    part = [
        {"kernel": {"us": 6, "prec": "fp32", "py_us": 8}},
        {"kernel": {"us": 4, "class": "reduce", "py_us": 8}},
        {"kernel": {"us": 5, "class": "elementwise", "py_us": 8}},
    ]
    step = [{"next": {"us": 300}}, {"h2d": {"mb": 40}}, {"forward": 330, "do": part}]
    return {"steps": 5, "device": "H200", "program": [*step, {"optimizer": {"kernels": 4, "us": 20}}]}


def _waiting_for_requests(*, stacks: bool) -> Scenario:
    """Return a server that answers in 8 ms and then has nothing to do for 12 ms."""
    answer = {
        "annot": {"name": "execute_context_0(0)_generation_4(4)"},
        "do": [{"py": 300}, {"graph": {"kernels": 400, "us": 18}}],
    }
    read = {"annot": {"name": "sample"}, "do": [{"item": 1}]}
    idle = {
        "frame": {"name": "<built-in method poll of select.epoll object>"},
        "do": [{"py": {"us": 12_000, "name": "zmq/poll.py(88): poll"}}],
    }
    return {"steps": 10, "steps_marked": False, "stacks": stacks, "program": [answer, read, idle]}


HEALTHY: tuple[Healthy, ...] = (
    Healthy("H1", "training on one device", BASES["training"]),
    Healthy("H1", "data parallel training", BASES["data parallel"]),
    Healthy("H1", "fully sharded training", BASES["fully sharded"]),
    Healthy("H1", "experts on eight ranks", BASES["experts"]),
    Healthy("H3", "slow loader hidden behind compute", {"steps": 10, "loader_us": 12_000}),
    Healthy("H4", "item in a launch-bound loop", {**_LAUNCH_BOUND, "item_per_step": 1}, ("launch-bound",), _OF_SYNCS),
    Healthy(
        "H5",
        "copies, FP32 and low occupancy, launch-bound",
        _mixture_of_small_kernels(),
        ("launch-bound",),
        _OF_KERNELS,
    ),
    Healthy(
        "H6",
        "each rank late in turn",
        {**DDP, "steps": 9, "program": data_parallel(), "faults": HICCUPS},
        silent=("comm-straggler-wait", "dataloader-bound", "comm-blocking"),
    ),
    Healthy(
        "H7", "much communication beside compute", _gathered_beside(), silent=("comm-blocking", "comm-low-bandwidth")
    ),
    Healthy("H8", "server without requests", _waiting_for_requests(stacks=False), abstains=_OF_GAPS),
    Healthy("H8", "server without requests, seen to poll", _waiting_for_requests(stacks=True), abstains=_OF_GAPS),
    Healthy("B", "decoding one replay ahead", BASES["decoding"]),
    Healthy(
        "B",
        "pipeline of 32 batches",
        BASES["pipeline"],
        silent=("pp-bubble", "pp-stage-imbalance"),
    ),
)
