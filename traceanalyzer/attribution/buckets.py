"""The buckets of the ledger: every nanosecond of a device's span belongs to exactly one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Codes = NDArray[np.int8]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

COMPUTE = "compute"

# Host causes that keep their share of launch delay: each can be removed by itself.
HEAVY = (
    "host.dataloader",
    "host.tokenize",
    "host.preprocess",
    "host.memcpy_block",
    "host.gc",
    "host.io",
    "host.comm_cpu",
    "host.lock",
    "host.offcpu",
    "host.compile",
    "host.module_load",
    "host.alloc",
    "host.host_alloc",
    "host.profiler",
)
SYNC = "host.sync"
# After a blocking call the launching thread has lost its lead: launch delay by these belongs to the call, up to its
# wait.
LIGHT = ("host.launch_api", "host.op", "host.python", "host.other")

HOST = (*HEAVY, SYNC, *LIGHT)
HOST_CODE = {name: code for code, name in enumerate(HOST)}
LIGHT_CODES = tuple(HOST_CODE[name] for name in LIGHT)
# The program's own code, outside of operators and of calls into the driver.
OWN_CODE_CODES = (HOST_CODE["host.python"], HOST_CODE["host.other"])
SYNC_CODE = HOST_CODE[SYNC]
LAUNCH_CODE = HOST_CODE["host.launch_api"]
OTHER_CODE = HOST_CODE["host.other"]

# Reasons to wait for an op. A collective with all its ranks in the run is split into transfer and straggler wait.
PRODUCERS = ("dev.comm_transfer", "dev.comm_p2p", "dev.h2d", "dev.d2h", "dev.d2d", "dev.memset")
COPIES = ("dev.h2d", "dev.d2h", "dev.d2d")
TRANSFER, STRAGGLER_WAIT, MESSAGE = "dev.comm_transfer", "dev.straggler_wait", "dev.comm_p2p"
DISPATCH = "dev.dispatch"
GRAPH_GAP = "dev.graph_gap"
UNRESOLVED = "dev.unresolved"
NO_LAUNCH = "edge.no_launch"
HEAD = "edge.head"
QUEUED_BEFORE = "edge.queued_before_trace"
TAIL = "edge.tail"
NOT_RECORDED = "edge.not_recorded"

BUCKETS = (
    COMPUTE,
    *HOST,
    *PRODUCERS,
    STRAGGLER_WAIT,
    DISPATCH,
    GRAPH_GAP,
    UNRESOLVED,
    NO_LAUNCH,
    HEAD,
    QUEUED_BEFORE,
    TAIL,
    NOT_RECORDED,
)
CODE = {name: code for code, name in enumerate(BUCKETS)}
FIRST_HOST = CODE[HOST[0]]

# Buckets that name a cause which a fix can remove.
CAUSES = frozenset((*HOST, *PRODUCERS, STRAGGLER_WAIT, DISPATCH, GRAPH_GAP))
# Buckets that a rule may explain; without the cause in them no op would run earlier.
EXPLAINED = CAUSES | {TAIL}
