"""Faults U9 to U19, which few jobs have: modes left on, graphs recorded for nothing, memory in pieces, a low clock."""

from __future__ import annotations

from typing import Any

from workloads.bases import DDP
from workloads.step_programs import kernels

from faultbench.planted import Expected, Fault, Scenario, Without

_ALLOC = Without(("host.alloc",))
_NEXT = {"next": {"us": 300}}
_STEP = kernels(60, 80)
_BLOCKED: dict[str, Any] = {"steps": 8, "kernels": 120, "kernel_us": 60}
# Without the mode the host is what this waits for.
_BLOCKED_SHORT: dict[str, Any] = {"steps": 8, "kernels": 120, "kernel_us": 10, "host_us": 12}
# Kernels of a transformer: two kinds that compute and two that move data.
_LAYER = [
    {"kernel": {"us": us, "py_us": 3, "class": name}}
    for name, us in (("gemm", 80), ("elementwise", 30), ("attention", 60), ("norm", 25))
]


def _recorded(*, once: bool) -> Scenario:
    """Return steps that replay a graph, recorded as torch.compile does it: in the first step, or in each."""
    launches = {"repeat": 300, "do": [{"kernel": {"us": 12, "py_us": 3, "op_us": 4}}]}
    record = {
        "annot": {"name": "CUDAGraphNode.record (dynamo_timed)"},
        "do": [{"capture": {"instantiate_us": 8_000}, "do": [launches]}],
    }
    return {"steps": 11, "program": [_NEXT, {"first": {"steps": 1}, "do": [record]} if once else record, {"graph": {}}]}


def _captured(*, once: bool) -> Scenario:
    """Return steps that replay a graph, captured by the program itself: in the first step, or in each."""
    launches = {"repeat": 300, "do": [{"kernel": {"us": 12, "py_us": 3, "op_us": 4}}]}
    capture = {"capture": {"instantiate_us": 3_000}, "do": [launches]}
    recorded = {"first": {"steps": 1}, "do": [capture]} if once else capture
    return {"steps": 10, "program": [{"py": 100}, recorded, {"graph": {}}, {"item": 1}]}


def _full(*, fails: bool) -> Scenario:
    """Return steps that find no room at first: after all cached blocks are given back there is some, or none.

    Where there is none, the program catches the error, empties the cache and goes on.
    """
    given_back = {"us": 400, "frees": 8, "free_us": 150}
    caught = [{"oom": {"mb": 6_000, **given_back}}, {"py": 200}, {"free": {"us": 150, "count": 6}}]
    in_use = {"first": {"steps": 1}, "do": [{"hold": {"mb": 70_000}}]}
    retried = [{"retry": given_back}]
    return {"steps": 10, "memory": True, "program": [in_use, _NEXT, *(caught if fails else retried), _STEP]}


def _in_pieces(used_mb: float, holes_mb: float) -> Scenario:
    """Return steps that come and go with 6 GB, on a device that is full of tensors and of holes between them."""
    start = {"first": {"steps": 1}, "do": [{"hold": {"mb": used_mb}}, {"cache": {"mb": holes_mb}}]}
    retry = {"retry": {"us": 400, "frees": 4, "free_us": 150}}
    step = [start, retry, {"hold": {"mb": 6_000}}, _STEP, {"release": {"mb": 6_000}}]
    return {"steps": 10, "memory": True, "program": step}


def _third_rank(**how: float) -> Scenario:
    step = [_NEXT, {"repeat": 14, "do": _LAYER}, {"backward": {"repeat": 28}, "do": _LAYER}, {"comm": {"us": 300}}]
    return {
        **DDP,
        "program": [*step, {"optimizer": {"kernels": 4, "us": 40, "py_us": 3}}],
        "faults": {"rank": 2, **how},
    }


def _replicated(device_count: int) -> Scenario:
    """Return steps of a model whose 200 MB of weights go to all devices of one process, and its gradients back."""

    def on_all(count: int) -> dict[str, Any]:
        kernel = {"kernel": {"us": 60, "py_us": 3, "op_us": 3}}
        return {"replicas": {"mb": 200}, "do": [{"repeat": count, "do": [kernel]}]}

    update = {"optimizer": {"kernels": 10, "us": 80, "py_us": 3}}
    step = [_NEXT, {"h2d": {"mb": 4}}, on_all(40), kernels(1, 30), {"backward": {"repeat": 1}, "do": [on_all(80)]}]
    return {"steps": 8, "device_count": device_count, "program": [*step, update]}


def _shared(us: float, times: int) -> Scenario:
    """Return steps during which the device works for another process so many times, each as long."""
    part = [kernels(60, 80), {"occupied": us}]
    return {"steps": 8, "program": [_NEXT, {"repeat": times, "do": part}]}


def _managed(*, ahead: bool) -> Scenario:
    """Return steps whose 24 MB of new data in managed memory move ahead, beside kernels, or when they are touched."""
    touching = {"kernel": {"us": 300, "class": "elementwise", **({} if ahead else {"on_host_mb": 24})}}
    moved = [{"prefetch": {"mb": 24}}] if ahead else []
    return {"steps": 8, "page_faults": True, "program": [*moved, touching, kernels(60, 80)]}


def _crowded(*, larger: bool, slows: float = 1.0) -> Scenario:
    """Return steps whose gathers run beside half of the products, which are larger there, or take longer."""
    gather = {"comm": {"op": "all_gather", "us": 900, "blocking": False}}
    beside = {"repeat": 8, "do": [{"kernel": {"us": 112 if larger else 80, "py_us": 3}}]}
    block = [gather, beside, {"repeat": 12, "do": [{"kernel": {"us": 80, "py_us": 3}}]}]
    end = {"stream_wait": {"on": "compute", "of": "comm"}}
    return {**DDP, "comm_slows": slows, "program": [_NEXT, {"repeat": 6, "do": block}, end, kernels(4, 40)]}


UNCOMMON: tuple[Fault, ...] = (
    Fault(
        "U9",
        "CUDA_LAUNCH_BLOCKING left on",
        {**_BLOCKED, "blocking_launches": True},
        _BLOCKED,
        (Expected("launch-blocking-mode", without=Without(instead=_BLOCKED)),),
        silent=("launch-bound", "sync-per-launch"),
    ),
    Fault(
        "U10",
        "CUDA graph recorded in every step",
        _recorded(once=False),
        _recorded(once=True),
        (Expected("cudagraph-rerecord", without=Without(instead=_recorded(once=True))),),
        silent=("launch-bound", "tq-lost-records", "tq-low-launch-link"),
    ),
    Fault(
        "U11",
        "out of memory, caught in every step",
        _full(fails=True),
        _full(fails=False),
        (
            Expected("oom-event", first=False, severity="high", says="goes on"),
            Expected("alloc-retry", first=False, without=_ALLOC),
        ),
        twin_tells=("alloc-retry",),
    ),
    Fault(
        "U12",
        "a device full of holes",
        _in_pieces(44_000, 26_000),
        _in_pieces(66_000, 1_000),
        (
            Expected("alloc-retry", without=_ALLOC),
            Expected("fragmentation", first=False, attached_to="alloc-retry", says="holds 74"),
        ),
        silent=("memory-growth", "oom-event"),
        twin_tells=("alloc-retry",),
    ),
    Fault(
        "U13",
        "cores at a low clock on one rank",
        _third_rank(core_clock=0.8),
        # All kernels slower by as much: more than the clock of the cores.
        _third_rank(kernel_scale=1.25),
        (
            Expected("comm-straggler-wait", rank=2, without=Without(instead=_third_rank())),
            Expected("gpu-clock-low", rank=2, first=False, attached_to="comm-straggler-wait"),
        ),
        silent=("rank-compute-imbalance",),
        twin_tells=("comm-straggler-wait",),
    ),
    Fault(
        "U14",
        "DataParallel on four devices",
        _replicated(4),
        _replicated(1),
        (
            Expected("dataparallel-used", first=False, severity="medium", says="on 4 devices"),
            Expected("comm-blocking", first=False, without=Without(("dev.comm_transfer",))),
        ),
        silent=("launch-bound", "host-stalls"),
    ),
    Fault(
        "U15",
        "CUDA_LAUNCH_BLOCKING left on, and short kernels",
        {**_BLOCKED_SHORT, "blocking_launches": True},
        _BLOCKED_SHORT,
        (Expected("launch-blocking-mode", without=Without(instead=_BLOCKED_SHORT)),),
        silent=("sync-per-launch", "sync-in-step"),
        twin_tells=("launch-bound", "dataloader-bound"),
    ),
    Fault(
        "U16",
        "CUDA graph captured in every step by the program itself",
        _captured(once=False),
        _captured(once=True),
        (Expected("cudagraph-rerecord", without=Without(instead=_captured(once=True))),),
        silent=("launch-bound", "engine-host-gap"),
        twin_tells=("sampling-sync",),
    ),
    Fault(
        "U19",
        "a device that another process uses",
        _shared(3_000, 4),
        # A kernel that starts late by less than a device may need.
        _shared(80, 4),
        (Expected("queued-but-idle", severity="high", says=r"pauses, the longest 3\.\d+ ms"),),
        silent=("launch-bound", "host-stalls", "sync-in-step"),
    ),
    Fault(
        "U20",
        "pages of managed memory moved on demand",
        _managed(ahead=False),
        _managed(ahead=True),
        (Expected("uvm-migration", severity="high", says=r"8 kernels wait for pages"),),
        silent=("launch-bound", "host-stalls", "h2d-exposed", "transfers-many-small"),
        only_nsys=True,
    ),
    Fault(
        "U21",
        "products slowed down by gathers beside them",
        _crowded(larger=False, slows=1.4),
        _crowded(larger=True),
        (Expected("comm-compute-contention", without=Without(instead=_crowded(larger=False))),),
        silent=("comm-blocking", "comm-low-bandwidth", "fp32-matmul-no-tensor-core"),
    ),
)
