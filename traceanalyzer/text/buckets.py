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


class LedgerBucket(NamedTuple):
    """A bucket, the fill that charts give it, and what it means, in the words of someone who watches the device."""

    name: str
    role: Role
    fill: str
    words: str
    tpu_words: str = ""  # the same for a TPU, which runs whole programs; empty: the same words


# Stored tables hold the numbers of rows that are in this order.
BUCKETS = (
    LedgerBucket("compute", COMPUTE, "compute", "GPU busy with compute", "TPU busy with compute"),
    LedgerBucket("host.dataloader", HEAVY, "host-loader", "waiting for the data loader"),
    LedgerBucket("host.tokenize", HEAVY, "host-loader", "waiting for the tokenizer"),
    LedgerBucket("host.preprocess", HEAVY, "host-loader", "waiting for CPU preprocessing"),
    LedgerBucket("host.memcpy_block", HEAVY, "host-copy", "synchronous memcpy"),
    LedgerBucket("host.gc", HEAVY, "host-other", "Python garbage collection"),
    LedgerBucket("host.io", HEAVY, "host-other", "file I/O"),
    LedgerBucket("host.comm_cpu", HEAVY, "host-other", "waiting for CPU communication"),
    LedgerBucket("host.lock", HEAVY, "host-other", "waiting for a host lock"),
    LedgerBucket("host.offcpu", HEAVY, "host-other", "launching thread off the CPU"),
    LedgerBucket("host.compile", HEAVY, "host-other", "compilation or graph capture"),
    LedgerBucket("host.module_load", HEAVY, "host-other", "loading GPU modules"),
    LedgerBucket("host.alloc", HEAVY, "host-other", "allocating or freeing GPU memory"),
    LedgerBucket("host.host_alloc", HEAVY, "host-other", "allocating pinned memory"),
    LedgerBucket("host.profiler", HEAVY, "host-other", "profiler overhead"),
    LedgerBucket("host.sync", SYNC, "host-sync", "idle after a host synchronization"),
    LedgerBucket("host.launch_api", LIGHT, "host-launch", "kernel launch overhead"),
    LedgerBucket("host.op", LIGHT, "host-op", "CPU-bound: framework operators"),
    LedgerBucket("host.python", LIGHT, "host-python", "CPU-bound: Python"),
    LedgerBucket("host.other", LIGHT, "host-other", "CPU-bound: work not recorded"),
    LedgerBucket("dev.comm_transfer", PRODUCER, "dev-comm", "waiting for a collective"),
    LedgerBucket("dev.comm_p2p", PRODUCER, "dev-comm", "waiting for send or receive"),
    LedgerBucket("dev.h2d", PRODUCER, "dev-h2d", "waiting for a host-to-device copy", "waiting for data from the host"),
    LedgerBucket(
        "dev.d2h", PRODUCER, "dev-d2h", "waiting for a device-to-host copy", "waiting for the host to take data"
    ),
    LedgerBucket("dev.d2d", PRODUCER, "dev-d2d", "waiting for a copy on the device"),
    LedgerBucket("dev.memset", PRODUCER, "dev-d2d", "waiting for a memset"),
    LedgerBucket("dev.straggler_wait", WAIT, "dev-late", "waiting for a straggler"),
    LedgerBucket("dev.dispatch", WAIT, "dev-dispatch", "launch latency between kernels", "gap between operations"),
    LedgerBucket("dev.graph_gap", WAIT, "dev-dispatch", "gap inside a graph replay"),
    LedgerBucket("dev.unresolved", REST, "dev-unknown", "unattributed idle"),
    LedgerBucket("edge.no_launch", REST, "edge", "launch not in the trace", "idle between programs"),
    LedgerBucket("edge.head", REST, "edge", "before the first compute kernel", "before the first operation"),
    LedgerBucket("edge.queued_before_trace", REST, "edge", "work queued before the trace"),
    LedgerBucket("edge.tail", REST, "edge", "after the last kernel"),
    LedgerBucket("edge.not_recorded", REST, "edge", "graph work not recorded"),
)
BY_NAME = {bucket.name: bucket for bucket in BUCKETS}
