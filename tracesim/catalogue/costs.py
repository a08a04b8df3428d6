"""The costs of calls, copies and transfers on the simulated computer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Costs in ns and bytes per second; `jitter` is the sigma of a log-normal factor, 0 for exact costs."""

    launch_ns: int = 6_000
    graph_launch_ns: int = 12_000
    event_ns: int = 1_000
    launch_latency_ns: int = 2_000
    kernel_gap_ns: int = 1_000
    sync_return_ns: int = 4_000
    api_min_ns: int = 8_000
    pinned_bytes_per_s: float = 50e9
    pageable_bytes_per_s: float = 12e9
    device_bytes_per_s: float = 1.5e12
    queue_depth: int = 1024
    comm_latency_ns: int = 20_000
    comm_bytes_per_s: float = 200e9
    host_scale: float = 1.0  # factor on Python and dispatch
    kernel_scale: float = 1.0  # factor on compute kernels: a slow device
    core_clock: float = 1.0  # of the usual one
    comm_slows: float = 1.0  # factor on compute kernels while a collective runs beside them
    blocking_launches: bool = False
    jitter: float = 0.0
