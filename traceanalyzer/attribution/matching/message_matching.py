"""Pairs of kernels that are the two ends of a message.

PyTorch names a send `nccl:send 0->1` and its receive `nccl:recv 1<-0`, with ranks counted within the group. Its
arguments name the peer alone: a send has no `Src Rank`, a receive no `Dst Rank`. A kernel that does both at once
(batch_isend_irecv) names its peers only there. Messages of one direction arrive in the order in which they are sent,
and both ends leave a message together.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from traceanalyzer.attribution.matching.comm_calls import Call, Direction, Place, in_order

ENDS = 2
_MESSAGE = re.compile(r"(?i)^_?(send|recv|isend|irecv|batch_isend_irecv|p2p)")
_SEND, _RECV = re.compile(r"(?i)^_?i?send$"), re.compile(r"(?i)^_?i?recv$")
_PEERS = re.compile(r"^nccl:(?P<kind>send|recv) (?P<own>\d+)(->|<-)(?P<peer>\d+)\b")
# Text after the name (`nccl:all_to_all, op_id = 991698`) is still there if ingest could not read it.
_RANGE = re.compile(r"^nccl:(?P<name>[^,]+)")

_PEERS_QUERY = """
SELECT
    a.trace_id,
    a.event_id,
    TRY_CAST(json_extract_string(a.args, '$."Src Rank"') AS INTEGER) AS source,
    TRY_CAST(json_extract_string(a.args, '$."Dst Rank"') AS INTEGER) AS target
FROM canonical.event_args AS a
SEMI JOIN (
    SELECT trace_id, op_id
    FROM canonical.gpu_ops
    WHERE is_comm
      AND REGEXP_MATCHES(collective, $message)
) AS o ON o.trace_id = a.trace_id AND o.op_id = a.event_id
"""


def name_of(collective: str | None, kernel: str | None, annotation: str | None) -> str:
    """Return the operation of a communication kernel: as recorded, else from the range around it, else its own name.

    NCCL names the kernels of all-to-alls and messages SendRecv; old versions name many other kernels so too.
    """
    if collective:
        return collective
    around = _RANGE.match(annotation or "")
    if around is None or "sendrecv" not in (kernel or "").lower():
        return kernel or ""
    return "batch_isend_irecv" if around["name"] == "coalesced" else around["name"]


def is_message(name: str) -> bool:
    """Return whether an operation (see `name_of`) sends or receives and is no collective."""
    return _MESSAGE.search(name) is not None


@dataclass(frozen=True)
class Peers:
    """Source and target ranks of kernels, by trace and op, where the arguments of the kernels name them."""

    recorded: Mapping[tuple[int, int], tuple[int | None, int | None]]

    def directions(
        self, op: tuple[int, int], rank: int | None, name: str, annotation: str | None, ranks: Sequence[int]
    ) -> tuple[Direction, ...]:
        """Return the directions of the messages that a kernel is an end of; empty: not known.

        In a group of two `ranks` the peer is the other one, recorded or not.
        """
        named = _PEERS.match(annotation or "")
        if named is not None:
            own, peer = int(named["own"]), int(named["peer"])
            return ((own, peer),) if named["kind"] == "send" else ((peer, own),)
        source, target = self.recorded.get(op, (None, None))
        if rank is None:
            return ()
        if source is None and target is None and len(ranks) == ENDS and rank in ranks:
            other = ranks[1] if rank == ranks[0] else ranks[0]
            source = None if _SEND.search(name) else other
            target = None if _RECV.search(name) else other
        pairs = (None if target is None else (rank, target), None if source is None else (source, rank))
        return tuple(pair for pair in pairs if pair is not None and pair[0] != pair[1])


def load_peers(con: duckdb.DuckDBPyConnection) -> Peers:
    """Read the peers that the arguments of kernels name."""
    rows = con.execute(_PEERS_QUERY, {"message": _MESSAGE.pattern}).fetchall()
    return Peers({(trace_id, op_id): (source, target) for trace_id, op_id, source, target in rows})


def pair_messages(calls: Sequence[Call]) -> list[list[Call]]:
    """Return the two ends of each message; a kernel with no partner, or with several, is returned alone.

    For several partners, durations alone do not show when each pair finished.
    """
    ends: dict[Direction, dict[Place, list[Call]]] = defaultdict(lambda: defaultdict(list))
    for call in calls:
        for direction in call.directions:
            ends[direction][call.place].append(call)
    tied: dict[Call, set[Call]] = defaultdict(set)
    for of_places in ends.values():
        for pair in in_order(of_places) if len(of_places) == ENDS else ():
            if len(pair) == ENDS:
                tied[pair[0]].add(pair[1])
                tied[pair[1]].add(pair[0])
    pairs = []
    for call in calls:
        others = tied[call]
        other = next(iter(others), None)
        if other is None or len(others) > 1 or tied[other] != {call} or set(other.directions) != set(call.directions):
            pairs.append([call])
        elif (call.place, call.op_id) < (other.place, other.op_id):
            pairs.append([call, other])
    return pairs
