"""The numbers of the ledger's buckets (`text.words` has their table), and the types of arrays that hold them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.text import words as table

Ints = NDArray[np.int64]
Codes = NDArray[np.int8]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

BUCKETS = tuple(bucket.name for bucket in table.BUCKETS)
CODE = {name: code for code, name in enumerate(BUCKETS)}


def _of(*roles: table.Role) -> tuple[str, ...]:
    return tuple(bucket.name for bucket in table.BUCKETS if bucket.role in roles)


LIGHT = _of(table.LIGHT)
HOST = _of(table.HEAVY, table.SYNC, table.LIGHT)
PRODUCERS = _of(table.PRODUCER)
# Buckets that name a cause which a fix can remove.
CAUSES = frozenset((*HOST, *PRODUCERS, *_of(table.WAIT)))

HOST_CODE = {name: code for code, name in enumerate(HOST)}
FIRST_HOST = CODE[HOST[0]]
LIGHT_CODES = tuple(HOST_CODE[name] for name in LIGHT)
# The program's own code, outside of operators and of calls into the driver.
OWN_CODE_CODES = (HOST_CODE["host.python"], HOST_CODE["host.other"])
SYNC_CODE = HOST_CODE["host.sync"]
LAUNCH_CODE = HOST_CODE["host.launch_api"]
OTHER_CODE = HOST_CODE["host.other"]

COMPUTE = "compute"
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

# Buckets that a rule may explain; without the cause in them no op would run earlier.
EXPLAINED = CAUSES | {TAIL}
