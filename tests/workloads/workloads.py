"""Workloads on one device and on several ranks that bounds are measured on: healthy ones, and ones with faults."""

from __future__ import annotations

from typing import Any

from workloads.bases import pipelined_job

_BASE: dict[str, Any] = {"steps": 7, "kernels": 100, "kernel_us": 80, "loader_us": 200}
_STARVING = {**_BASE, "steps": 14, "loader_us": 50, "loader_workers": 2, "worker_us": 25_000}
_LAUNCH_BOUND = {**_BASE, "kernels": 400, "kernel_us": 5, "host_us": 8}
_GRAPHS_AMONG_KERNELS = [
    {"capture": {}, "do": [{"repeat": 20, "do": [{"kernel": 16}]}]},
    {"next": 300},
    {"repeat": 6, "do": [{"graph": {}}, {"repeat": 30, "do": [{"py": 2}, {"kernel": 16}]}]},
]
_WAITED_SHORT_KERNELS = [{"repeat": 120, "do": [{"py": 1}, {"kernel": 3}, {"sync": {"kind": "device"}}]}]
_DECODE = {**_BASE, "graph": True, "kernels": 300, "kernel_us": 5, "host_us": 2000, "item_per_step": 1}
_PAGEABLE = {**_BASE, "h2d_mb": 64, "h2d_pinned": False}
_KERNEL = {"kernel": {"us": 80, "py_us": 3}}
_KERNELS = [{"repeat": 90, "do": [_KERNEL]}, {"optimizer": {"kernels": 10, "us": 80, "py_us": 3}}]
_TAKEN = {"lock": {"us": 4, "name": "pthread_cond_timedwait"}}
# Collected in the steps before the window's first kernel and before the one that ends it, so that whole periods count.
_GARBAGE = [
    {"next": {"us": 200}},
    {"forward": 32, "do": [_KERNEL]},
    {"backward": {"repeat": 63}, "do": [_KERNEL]},
    {"optimizer": {"kernels": 5, "us": 80}},
    {"every": {"steps": 4, "phase": 0}, "do": [{"gc": 60_000}]},
]


# What a kernel waits for at once, each on a stream of its own, and takes nearly as long as the others.
_SIDE_STREAMS: dict[str, dict[str, Any]] = {
    "h2d": {"mb": 150, "stream": 31, "wait": False},
    "memset": {"us": 2_900, "mb": 64, "stream": 32},
    "d2h": {"mb": 140, "pinned": True, "stream": 33},
    "comm": {"us": 2_700, "blocking": False, "stream": 34},
}
_FAN_IN: list[dict[str, Any]] = [
    {"next": {"us": 200}},
    *({name: told} for name, told in _SIDE_STREAMS.items()),
    *({"event_record": {"stream": told["stream"], "event": name}} for name, told in _SIDE_STREAMS.items()),
    {"repeat": 5, "do": [_KERNEL]},
    *({"stream_wait": {"on": "compute", "event": name}} for name in _SIDE_STREAMS),
    {"repeat": 40, "do": [_KERNEL]},
    {"event_record": {"stream": "compute", "event": "done"}},
    *({"stream_wait": {"on": told["stream"], "event": "done"}} for told in _SIDE_STREAMS.values()),
]
# The host is so late that two streams never meet; one of them leaves the device to the other. The first waits for none.
_BY_TURNS: list[dict[str, Any]] = [
    {"repeat": 55, "do": [{"kernel": {"class": "reduce", "us": 100, "py_us": 3, "stream": 31}}]},
    {"event_record": {"stream": 31, "event": "half"}},
    {"py": 6_000},
    {"stream_wait": {"on": "compute", "event": "half"}},
    {"repeat": 20, "do": [{"kernel": {"class": "gemm", "us": 80, "py_us": 3}}]},
]
# The stream waits for the collective, and the host for the stream: torch.distributed.barrier does the same.
_BARRIER: list[dict[str, Any]] = [
    {"comm": {"us": 3_000}},
    {"sync": {"kind": "stream"}},
    {"py": 2_000},
]


def _late_first_stage(job: dict[str, Any]) -> dict[str, Any]:
    """Return a pipelined job whose first stage waits for its batches."""
    first, *others = job["programs"]
    return {**job, "programs": [[{"next": {"us": 30_000}}, *first], *others]}


# One rank each.
WORKLOADS: dict[str, dict[str, Any]] = {
    "healthy": _BASE,
    "healthy with jitter": {**_BASE, "jitter": 0.1, "op_us": 2},
    "hidden loader": {**_BASE, "loader_us": 6_000},
    "exposed loader": {**_BASE, "loader_us": 15_000},
    "uneven loader": {**_BASE, "steps": 9, "loader_us": [200, 200, 25_000, 9_000]},
    "starving workers": _STARVING,
    "starving workers and item": {**_STARVING, "item_per_step": 1},
    "starving workers of a launch-bound job": {**_STARVING, "kernels": 400, "kernel_us": 5, "host_us": 8},
    "slow pinning and item": {
        **_STARVING,
        "loader_workers": 8,
        "worker_us": 9_000,
        "pin_us": 12_000,
        "item_per_step": 1,
    },
    "busy workers": {**_BASE, "steps": 14, "loader_us": 50, "loader_workers": 4, "worker_us": 25_000, "pin_us": 900},
    "slow pinning": {**_BASE, "steps": 14, "loader_us": 50, "loader_workers": 8, "worker_us": 9_000, "pin_us": 12_000},
    "item": {**_BASE, "item_per_step": 1},
    "item every third step": {**_BASE, "steps": 10, "item_per_step": 1, "item_every": 3, "host_us": 20},
    "item with jitter": {**_BASE, "item_per_step": 1, "host_us": 25, "op_us": 5, "jitter": 0.1},
    "loader and item": {**_BASE, "loader_us": 5_000, "item_per_step": 1},
    "long loader and item": {**_BASE, "loader_us": 15_000, "item_per_step": 1},
    "device syncs": {**_BASE, "sync_per_step": 10},
    "stream syncs": {**_BASE, "sync_per_step": 20, "sync_kind": "stream", "op_us": 4},
    # Waits that cost more than what they wait for, where a call with nothing to wait for takes less than is usual here.
    "waits for short kernels": {"steps": 6, "api_min_us": 2, "program": _WAITED_SHORT_KERNELS},
    "launch-bound": _LAUNCH_BOUND,
    "launch-bound with item": {**_LAUNCH_BOUND, "item_per_step": 1},
    "launch-bound with loader": {**_LAUNCH_BOUND, "loader_us": 3_000},
    "launch-bound operators": {**_LAUNCH_BOUND, "op_us": 4},
    "launch-bound inference": {**_LAUNCH_BOUND, "mode": "inference", "jitter": 0.1},
    "short queue": {**_BASE, "queue_depth": 16, "loader_us": 3_000},
    # Nothing ever waits for the device but the launches, each for about as long as a kernel takes.
    "far ahead": {"steps": 10, "kernels": 400, "kernel_us": 22, "host_us": 2, "loader_us": 300, "jitter": 0.1},
    # Launches wait here for less than they take themselves.
    "a little ahead": {"steps": 10, "kernels": 300, "kernel_us": 13, "host_us": 4, "queue_depth": 256, "jitter": 0.1},
    "graphs ahead": {"steps": 10, "queue_depth": 64, "jitter": 0.1, "program": _GRAPHS_AMONG_KERNELS},
    "decode": _DECODE,
    "decode ahead": {**_DECODE, "item_per_step": 0},
    "pageable": _PAGEABLE,
    "pageable and loader": {**_PAGEABLE, "loader_us": 5_000},
    "pinned but waited for": {**_BASE, "h2d_mb": 64, "h2d_blocking": True},
    "copy in order": {**_BASE, "h2d_mb": 100, "h2d_stream": "compute"},
    "copy beside": {**_BASE, "h2d_mb": 500},
    "short copy beside": {**_BASE, "h2d_mb": 100},
    "copy beside with events": {**_BASE, "h2d_mb": 500, "sync_events": True},
    "waiting for four streams": {"steps": 8, "sync_events": True, "program": _FAN_IN},
    "read-back of results": {
        "steps": 7,
        "program": [
            {"next": {"us": 500}},
            {"repeat": 60, "do": [{"kernel": {"us": 60, "py_us": 4}}]},
            {"d2h": {"mb": 200, "pinned": True, "stream": "compute"}},
        ],
    },
    "collective after": {**_BASE, "comm_us": 3_000},
    "collective beside": {**_BASE, "comm_us": 3_000, "comm_blocking": False, "comm_count": 8},
    "collective exposed in part": {**_BASE, "comm_us": 9_000, "comm_blocking": False, "comm_count": 3},
    "barrier": {"steps": 8, "sync_events": True, "program": [{"next": 200}, *_KERNELS, *_BARRIER]},
    "barrier of a late host": {
        "steps": 8,
        "sync_events": True,
        "program": [{"next": 200}, *_KERNELS, {"next": 6_000}, {"py": 5_000}, *_BARRIER],
    },
    "streams by turns": {"steps": 10, "sync_events": True, "program": _BY_TURNS},
    "garbage": {"steps": 10, "program": _GARBAGE},
    "garbage every third step": {**_BASE, "gc_us": 60_000, "gc_every": 3},
    "allocation": {**_BASE, "malloc_per_step": 10, "malloc_us": 1_500},
    "freeing": {**_BASE, "free_per_step": 4},
    "profiler": {**_BASE, "overhead_us": 10_000},
    "recompilation": {**_BASE, "steps": 9, "compile_us": 30_000, "compile_every": 2},
    "recompilation in few steps": {**_BASE, "compile_us": 30_000, "compile_every": 2},
    "inference with loader": {**_BASE, "mode": "inference", "loader_us": 12_000},
    "unfused attention": {**_BASE, "attention": "unfused", "attention_layers": 6, "op_us": 2},
    "many troubles": {
        **_BASE,
        "steps": 9,
        "loader_us": 4_000,
        "item_per_step": 1,
        "malloc_per_step": 3,
        "malloc_us": 400,
        "gc_us": 9_000,
        "gc_every": 3,
        "op_us": 3,
        "jitter": 0.05,
    },
}

# The issuing thread waits for locks that another one holds: only Nsight Systems records that.
LOCKED: dict[str, dict[str, Any]] = {
    "lock once a step": {"steps": 7, "program": [{"next": {"us": 200}}, {"lock": 9_000}, *_KERNELS]},
    "lock every third step": {
        "steps": 10,
        "jitter": 0.1,
        "program": [{"next": {"us": 200}}, {"every": {"steps": 3}, "do": [{"lock": 30_000}]}, *_KERNELS],
    },
    "interpreter lock": {
        "steps": 7,
        "jitter": 0.1,
        "program": [
            {"next": {"us": 200}},
            {"repeat": 300, "do": [_TAKEN, {"kernel": {"us": 5, "py_us": 8}}]},
        ],
    },
    "lock and item": {
        "steps": 7,
        "program": [{"next": {"us": 200}}, {"lock": 3_000}, *_KERNELS, {"item": 1}],
    },
    "lock hidden by queued work": {"steps": 7, "program": [{"next": {"us": 200}}, *_KERNELS, {"lock": 5_000}]},
}

# Four ranks each, on clocks that disagree by seconds.
_BUCKETS = {"comm_us": 1_600, "comm_count": 4, "comm_blocking": False}
_DDP: dict[str, Any] = {
    "ranks": 4,
    "steps": 8,
    "kernels": 120,
    "kernel_us": 80,
    "loader_us": 200,
    **_BUCKETS,
    "clock_offset_us": [0, 3e6, -5e5, 77_777],
}
_FOUR_LAYERS: list[dict[str, Any]] = [
    {
        "repeat": 4,
        "do": [
            {"comm": {"op": "all_reduce", "group": "tp", "us": 120}},
            {"repeat": 12, "do": [{"kernel": {"us": 70, "py_us": 3}}]},
        ],
    },
]
_HIDDEN_COLLECTIVE: dict[str, Any] = {"ranks": 2, "steps": 8}


def _late_after_collective(loader_us: int, h2d_mb: float = 0, py_us: int = 30) -> list[dict[str, Any]]:
    """Return a step that ends with a collective, and a host that is later than that."""
    copy = [{"h2d": {"mb": h2d_mb}}] if h2d_mb else []
    kernels = {"repeat": 60, "do": [{"kernel": {"us": 110, "py_us": py_us}}]}
    return [{"next": loader_us}, *copy, kernels, {"comm": {"us": 3_500}}]


def _gathering_ahead(layers: int) -> list[dict[str, Any]]:
    """Return a step of a sharded model: each layer's parameters are gathered while the one before it computes.

    The gathers are asked for on a stream of their own, on which nothing else runs, and do not wait for the batch.
    """
    gathers = [
        {"comm": {"op": "all_gather", "us": 1_500, "after": 40, "blocking": False, "event": f"gathered {layer}"}}
        for layer in range(layers)
    ]
    program: list[dict[str, Any]] = [
        {"event_record": {"stream": "compute", "event": "begun"}},
        {"stream_wait": {"on": 40, "event": "begun"}},
        {"next": {"us": 6_000}},
        {"h2d": {"us": 4_000, "pinned": False, "stream": "compute"}},
        gathers[0],
    ]
    for layer in range(layers):
        program += [*gathers[layer + 1 : layer + 2], {"stream_wait": {"on": "compute", "event": f"gathered {layer}"}}]
        program.append({"repeat": 15, "do": [{"kernel": {"us": 90, "py_us": 3}}]})
    return [*program, {"comm": {"us": 2_500}}]


JOBS: dict[str, dict[str, Any]] = {
    "ranks: healthy": _DDP,
    "ranks: one late": {**_DDP, "faults": {"rank": 3, "loader_us": 15_000}},
    "ranks: two late": {
        **_DDP,
        "faults": [{"rank": 3, "loader_us": 15_000}, {"rank": 1, "loader_us": 13_000}],
    },
    "ranks: all late": {**_DDP, "faults": {"loader_us": 15_000}},
    "ranks: late in turn": {
        **_DDP,
        "faults": [{"rank": r, "loader_us": [15_000 if s % 4 == r else 200 for s in range(4)]} for r in range(4)],
    },
    "ranks: late at random": {
        **_DDP,
        "faults": [
            {"rank": 0, "loader_us": [3_100, 17_400, 9_800, 200, 14_300, 12_200, 800, 15_900]},
            {"rank": 1, "loader_us": [11_700, 2_500, 19_600, 7_300, 5_400, 16_800, 13_100, 4_200]},
            {"rank": 2, "loader_us": [200, 18_800, 6_600, 10_900, 1_700, 8_500, 19_100, 12_600]},
            {"rank": 3, "loader_us": [7_900, 400, 14_700, 16_200, 18_300, 2_900, 5_700, 9_300]},
        ],
    },
    "ranks: late with items": {**_DDP, "item_per_step": 1, "faults": {"rank": 3, "loader_us": 15_000}},
    "ranks: starving workers on one": {
        **_DDP,
        "steps": 14,
        "item_per_step": 1,
        "faults": {"rank": 3, "loader_us": 50, "loader_workers": 2, "worker_us": 30_000},
    },
    "ranks: slow host": {
        **_DDP,
        "kernels": 600,
        "kernel_us": 12,
        "host_us": 4,
        "faults": {"rank": 3, "host_scale": 2.5},
    },
    "ranks: slow device": {**_DDP, "faults": {"rank": 2, "kernel_scale": 1.12}},
    "ranks: exposed transfer": {**_DDP, "comm_us": 4_000, "comm_count": 1, "comm_blocking": True},
    "ranks: garbage on one": {**_DDP, "faults": {"rank": 1, "gc_us": 60_000, "gc_every": 4}},
    # The host comes so late that nothing is seen to wait for the collective, which holds it all the same.
    "ranks: late after a collective": {**_HIDDEN_COLLECTIVE, "program": _late_after_collective(18_000, h2d_mb=1.5)},
    "ranks: late after a recorded wait": {
        **_HIDDEN_COLLECTIVE,
        "sync_events": True,
        "program": _late_after_collective(18_000, h2d_mb=1.5),
    },
    "ranks: launching after a collective": {
        **_HIDDEN_COLLECTIVE,
        "program": _late_after_collective(5_600, py_us=210),
    },
    "ranks: gathering ahead": {"ranks": 2, "steps": 8, "sync_events": True, "program": _gathering_ahead(6)},
    "ranks: groups": {
        "ranks": 4,
        "steps": 8,
        "groups": {"tp": [[0, 1], [2, 3]], "dp": [[0, 2], [1, 3]]},
        "clock_offset_us": [0, 3e6, -5e5, 77_777],
        "program": [
            {"next": {"us": 200}},
            *_FOUR_LAYERS,
            {"comm": {"op": "all_reduce", "group": "dp", "us": 600}},
            {"optimizer": {"kernels": 5, "us": 60}},
        ],
        "faults": {"rank": 2, "loader_us": 9_000},
    },
    "ranks: pipeline": pipelined_job(8),
    "ranks: pipeline with a slow stage": pipelined_job(16, (1, 1, 1.5, 1)),
    "ranks: pipeline with a late first stage": _late_first_stage(pipelined_job(8)),
    "ranks: ring of messages": {
        "ranks": 2,
        "steps": 8,
        "clock_offset_us": [0, 3e6],
        "programs": [
            [
                {"next": {"us": 200 if rank else 9_000}},
                {"repeat": 20, "do": [{"kernel": {"us": 80}}]},
                {"exchange": {"to": 1 - rank, "from": 1 - rank, "us": 900}},
                {"repeat": 20, "do": [{"kernel": {"us": 100 if rank else 60}}]},
            ]
            for rank in range(2)
        ],
    },
}
