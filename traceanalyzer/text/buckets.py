"""The buckets of the time ledger, a row each: every nanosecond of a device's span belongs to exactly one.

A new bucket is a row here; `attribution.host.host_states` or the ledger finds its time, and the header of the metric
time_ledger explains it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Role = Literal["compute", "heavy", "sync", "light", "producer", "wait", "rest"]
COMPUTE: Role = "compute"
# Host causes that keep their share of launch delay: each can be removed by itself.
HEAVY: Role = "heavy"
SYNC: Role = "sync"
# After a blocking call the launching thread has lost its lead: launch delay by these belongs to the call, up to its
# wait.
LIGHT: Role = "light"
# Reasons to wait for an op. A collective with all its ranks in the run is split into transfer and straggler wait.
PRODUCER: Role = "producer"
# Other causes on the device.
WAIT: Role = "wait"
# What no fix can remove.
REST: Role = "rest"


class Bucket(NamedTuple):
    """A bucket, the fill that charts give it, and what it means, in the words of someone who watches the device."""

    name: str
    role: Role
    fill: str
    words: str
    tpu_words: str = ""  # the same for a TPU, which runs whole programs; empty: the same words


# Stored tables hold the numbers of rows that are in this order.
BUCKETS = (
    Bucket("compute", COMPUTE, "compute", "GPU busy with compute", "TPU busy with compute"),
    Bucket("host.dataloader", HEAVY, "host-loader", "waiting for the data loader"),
    Bucket("host.tokenize", HEAVY, "host-loader", "waiting for the tokenizer"),
    Bucket("host.preprocess", HEAVY, "host-loader", "waiting for CPU preprocessing"),
    Bucket("host.memcpy_block", HEAVY, "host-copy", "synchronous memcpy"),
    Bucket("host.gc", HEAVY, "host-other", "Python garbage collection"),
    Bucket("host.io", HEAVY, "host-other", "file I/O"),
    Bucket("host.comm_cpu", HEAVY, "host-other", "waiting for CPU communication"),
    Bucket("host.lock", HEAVY, "host-other", "waiting for a host lock"),
    Bucket("host.offcpu", HEAVY, "host-other", "launching thread off the CPU"),
    Bucket("host.compile", HEAVY, "host-other", "compilation or graph capture"),
    Bucket("host.module_load", HEAVY, "host-other", "loading GPU modules"),
    Bucket("host.alloc", HEAVY, "host-other", "cudaMalloc or cudaFree"),
    Bucket("host.host_alloc", HEAVY, "host-other", "allocating pinned memory"),
    Bucket("host.profiler", HEAVY, "host-other", "profiler overhead"),
    Bucket("host.sync", SYNC, "host-sync", "idle after a host synchronization"),
    Bucket("host.launch_api", LIGHT, "host-launch", "kernel launch overhead"),
    Bucket("host.op", LIGHT, "host-op", "CPU-bound: framework operators"),
    Bucket("host.python", LIGHT, "host-python", "CPU-bound: Python"),
    Bucket("host.other", LIGHT, "host-other", "CPU-bound: work not recorded"),
    Bucket("dev.comm_transfer", PRODUCER, "dev-comm", "waiting for a collective"),
    Bucket("dev.comm_p2p", PRODUCER, "dev-comm", "waiting for send or receive"),
    Bucket("dev.h2d", PRODUCER, "dev-h2d", "waiting for a host-to-device copy"),
    Bucket("dev.d2h", PRODUCER, "dev-d2h", "waiting for a device-to-host copy"),
    Bucket("dev.d2d", PRODUCER, "dev-d2d", "waiting for a copy on the device"),
    Bucket("dev.memset", PRODUCER, "dev-d2d", "waiting for a memset"),
    Bucket("dev.straggler_wait", WAIT, "dev-late", "waiting for a straggler"),
    Bucket("dev.dispatch", WAIT, "dev-dispatch", "launch latency between kernels", "gap between operations"),
    Bucket("dev.graph_gap", WAIT, "dev-dispatch", "gap inside a graph replay"),
    Bucket("dev.unresolved", REST, "dev-unknown", "unattributed idle"),
    Bucket("edge.no_launch", REST, "edge", "launch not in the trace", "idle between programs"),
    Bucket("edge.head", REST, "edge", "before the first compute kernel", "before the first operation"),
    Bucket("edge.queued_before_trace", REST, "edge", "work queued before the trace"),
    Bucket("edge.tail", REST, "edge", "after the last kernel"),
    Bucket("edge.not_recorded", REST, "edge", "graph work not recorded"),
)
BY_NAME = {bucket.name: bucket for bucket in BUCKETS}
