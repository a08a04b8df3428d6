"""Faults 1 to 12 and 21 to 23: one process and one device, all simulated."""

from __future__ import annotations

from typing import Any

from workloads.bases import BASES, DECODER

from faultbench.planted import Expected, Fault, Scenario, Without

_T: dict[str, Any] = {"steps": 10}
_LAUNCH_BOUND: dict[str, Any] = {"steps": 5, "kernels": 1500, "kernel_us": 5, "host_us": 8}
LOADER, SYNC, ALLOC = Without(("host.dataloader",)), Without(("host.sync",)), Without(("host.alloc",))
ISSUING = Without(("host.python", "host.op", "host.launch_api"))

# FP32 on the tensor cores of an H200, at the three quarters of their peak that large products reach.
_TF32_SCALE = 67.0 / (494.0 * 0.75)
_FP32: dict[str, Any] = {"steps": 8, "device": "H200", "precision": "fp32", "kernel_us": 400, "kernels": 120}
# The simulator's products run at 0.6 of the peak rate, and fused ones at 0.8 at best; they are 0.6 of the block.
_PRODUCTS_SHARE = 0.6 / 0.8
_FUSED_SHARE = 0.6 * _PRODUCTS_SHARE
_ATTENTION: dict[str, Any] = {"steps": 8, "kernels": 100, "attention_layers": 8, "attention_us": 1_000}


def _streamed(layers: int = 12) -> Scenario:
    """Return a forward pass that fetches the weights of each layer before it runs: 9 GB over PCIe."""
    layer = [{"h2d": {"mb": 768, "stream": "compute"}}, {"kernel": {"us": 1_500, "prec": "fp32"}}]
    return {"steps": 5, "pinned_gb_per_s": 27.7, "program": [{"py": 200}, {"repeat": layers, "do": layer}]}


def _loaded_once(layers: int = 12) -> Scenario:
    load = {"first": {"steps": 1}, "do": [{"repeat": layers, "do": [{"h2d": {"mb": 768, "stream": "compute"}}]}]}
    passes = {"repeat": layers, "do": [{"kernel": {"us": 1_500}}]}
    return {"steps": 7, "pinned_gb_per_s": 27.7, "program": [load, {"py": 200}, passes]}


def _step(*more: dict[str, Any], kernels: int = 190) -> list[dict[str, Any]]:
    """Return a healthy training step and what is done after it."""
    return [
        {"next": {"us": 300}},
        {"forward": kernels // 3, "do": [{"kernel": {"us": 80, "py_us": 3}}]},
        {"backward": {"repeat": kernels - kernels // 3}, "do": [{"kernel": {"us": 80, "py_us": 3}}]},
        {"optimizer": {"kernels": 10, "us": 80, "py_us": 3}},
        *more,
    ]


def _retries(*, at_the_ceiling: bool) -> Scenario:
    retry = {"retry": {"us": 400, "frees": 18, "free_us": 150}}
    emptied = {"every": {"steps": 10}, "do": [{"free": {"us": 150, "count": 18}}]}
    program = [retry, *_step()] if at_the_ceiling else _step(emptied)
    # Nearly all of the device's 80 GB is reserved, two thirds of it in use.
    return {**_T, "memory": True, "cached_mb": 26_000, "program": [_all_in_use(50_000), *program]}


def _all_in_use(mb: float) -> dict[str, Any]:
    return {"first": {"steps": 1}, "do": [{"hold": {"mb": mb}}]}


def _optimizer(**how: Any) -> Scenario:
    """Return a model of 400 parameters in layers of two, and its optimizer."""
    update = {"optimizer": {"us": 3, "py_us": 4, "op_us": 2, **how}}
    return {"steps": 6, "program": [*_step(kernels=200)[:-1], update]}


def _leaking(*, every: int) -> Scenario:
    """Return a job that keeps 24 MiB a step, and lets go of all of it every so many steps."""
    kept: list[dict[str, Any]] = [
        {"hold": {"mb": 24}},
        {"every": {"steps": every}, "do": [{"release": {"mb": 24 * every}}]},
    ]
    return {"steps": 17, "memory": True, "program": [_all_in_use(4_000), *_step(*kept, kernels=30)]}


ONE_DEVICE: tuple[Fault, ...] = (
    Fault(
        "1",
        "starving loader",
        {**_T, "loader_us": 25_000},
        {**_T, "loader_us": 12_000},
        (Expected("dataloader-bound", without=LOADER),),
        silent=("launch-bound", "python-bound", "host-stalls"),
    ),
    Fault(
        "2",
        "item in every step",
        {**_T, "item_per_step": 1},
        {**_T, "item_per_step": 1, "item_every": 100},
        (Expected("sync-in-step", without=SYNC),),
        silent=("python-bound", "launch-bound"),
    ),
    Fault(
        "3",
        "loader and item",
        {**_T, "loader_us": 9_000, "item_per_step": 1},
        {**_LAUNCH_BOUND, "item_per_step": 1},
        (Expected("dataloader-bound", without=LOADER), Expected("sync-in-step", first=False, without=SYNC)),
        twin_tells=("launch-bound",),
    ),
    Fault(
        "4",
        "launch-bound",
        _LAUNCH_BOUND,
        {**_LAUNCH_BOUND, "kernel_us": 12, "host_us": 1},
        (Expected("launch-bound", without=ISSUING),),
        silent=("tiny-grid", "fp32-matmul-no-tensor-core", "amp-not-used", "attention-unfused", "kernel-hotspot"),
    ),
    Fault(
        "5",
        "pageable batch",
        # Pinned, this machine copies as fast as the rule assumes.
        {**_T, "h2d_mb": 64, "h2d_pinned": False, "pinned_gb_per_s": 20.0},
        {**_T, "h2d_mb": 0.004, "h2d_pinned": False},
        (
            Expected(
                "h2d-pageable",
                without=Without(instead={**_T, "h2d_mb": 64, "h2d_stream": "compute", "pinned_gb_per_s": 20.0}),
            ),
        ),
        silent=("dataloader-bound",),
    ),
    Fault(
        "6",
        "weights streamed per layer",
        _streamed(),
        _loaded_once(),
        (Expected("weight-streaming", without=Without(("dev.h2d",))),),
        silent=("launch-bound",),
        twin_silent=("h2d-exposed",),
    ),
    Fault(
        "7",
        "FP32 products without tensor cores",
        _FP32,
        {**_FP32, "loader_us": 120_000},
        (Expected("fp32-matmul-no-tensor-core", without=Without(kernel_scale={"gemm": _TF32_SCALE})),),
        silent=("sync-in-step", "sync-dynamic-shape", "sampling-sync", "sync-per-launch"),
        twin_tells=("dataloader-bound",),
    ),
    Fault(
        "8",
        "attention in parts",
        {**_ATTENTION, "attention": "unfused"},
        {**_ATTENTION, "attention": "fused", "attention_us": 1_000 * _FUSED_SHARE},
        (
            Expected(
                "attention-unfused",
                without=Without(kernel_scale={"bmm": _PRODUCTS_SHARE, "softmax": 0.0}),
            ),
        ),
        silent=("unfused-elementwise",),
        twin_tells=("attention-slow-backend",),  # the fused kernel is FlashAttention-2, and the device an H100
    ),
    Fault(
        "9",
        "memory from the driver in every step",
        {**_T, "malloc_per_step": 30, "malloc_us": 800},
        {**_T, "malloc_per_step": 30, "malloc_us": 800, "malloc_steps": 1},
        (Expected("alloc-in-steady-state", without=ALLOC),),
        silent=("memory-growth",),
    ),
    Fault(
        "10",
        "allocator at its ceiling",
        _retries(at_the_ceiling=True),
        _retries(at_the_ceiling=False),
        (
            Expected("alloc-retry", without=ALLOC),
            Expected("fragmentation", first=False, attached_to="alloc-retry"),
        ),
        silent=("oom-event",),
    ),
    Fault(
        "11",
        "24 MiB more in every step",
        _leaking(every=100),
        _leaking(every=8),
        (Expected("memory-growth", first=False, says=r"24\.0 MiB more"),),
        silent=("fragmentation",),
    ),
    Fault(
        "12",
        "garbage every fourth step",
        {"steps": 13, "program": [{"every": {"steps": 4, "phase": 0}, "do": [{"gc": 150_000}]}, *_step()]},
        # Collected as long while five steps of 40 ms are queued.
        {"steps": 10, "kernel_us": 200, "gc_us": 150_000, "gc_every": 8},
        (
            Expected("gc-pauses", without=Without(("host.gc",))),
            Expected("step-outliers-periodic", first=False, attached_to="gc-pauses"),
        ),
        silent=("step-time-jitter",),
    ),
    Fault(
        "21",
        "recompilation every third step",
        {"steps": 11, "compile_us": 60_000, "compile_every": 3},
        {"steps": 11, "compile_first_us": 900_000},
        (Expected("recompile-steady-state", without=Without(("host.compile",))),),
        silent=("tq-warmup-in-window",),
    ),
    Fault(
        "22",
        "AdamW one tensor at a time",
        _optimizer(parameters=400),
        _optimizer(parameters=400, foreach=True),
        (Expected("optimizer-single-tensor", without=Without(instead=_optimizer(parameters=400, foreach=True))),),
    ),
    Fault(
        "23",
        "host between replays",
        {"steps": 8, "program": [{"py": 3_000}, DECODER, {"item": 1}]},
        BASES["decoding"],
        (
            Expected("engine-host-gap", first=False, without=Without(("host.python",))),
            Expected("sampling-sync", first=False, without=SYNC),
        ),
        silent=("launch-bound",),
    ),
)
