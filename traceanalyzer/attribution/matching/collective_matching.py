"""The collectives of a run: which kernels of different ranks are one, and how long each rank waited for the last.

The ranks of a collective finish together, and the last rank to arrive takes the shortest time. So the shortest duration
is the transfer, and what the others take longer is their wait. No clocks of two ranks are compared.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import duckdb

from traceanalyzer.attribution.matching.comm_calls import Call, Place, in_order
from traceanalyzer.attribution.matching.message_matching import ENDS, is_message, load_peers, name_of, pair_messages
from traceanalyzer.metrics import metrics

# All members leave these together; some members of a broadcast or a reduction leave early.
_SYNCHRONISING = re.compile(r"allreduce|allgather|reducescatter|alltoall|barrier|crossdevicereduce")

# Groups of a thousand ranks have long lists, and every kernel repeats its group's: each list is read once.
_LISTS = """
lists AS (
    SELECT group_ranks, row_number() OVER (ORDER BY group_ranks) AS list_id
    FROM (SELECT DISTINCT group_ranks FROM canonical.gpu_ops WHERE is_comm AND kind = 'kernel')
    WHERE group_ranks IS NOT NULL
)
"""
_LISTED_RANKS = f"WITH {_LISTS} SELECT list_id, group_ranks FROM lists ORDER BY list_id"
_QUERY = f"""
WITH {_LISTS}
SELECT o.trace_id, o.device, o.op_id, o.start_ns, o.dur_ns,
       o.name, o.collective, o.group_name, COALESCE(o.group_size, t.world_size) AS group_size, lists.list_id,
       o.comm_dtype, o.in_elements, o.out_elements, o.comm_seq, t.rank,
       CASE WHEN STARTS_WITH(around.name, 'nccl:') THEN around.name ELSE outside.name END AS annotation
FROM canonical.gpu_ops AS o
INNER JOIN canonical.traces AS t ON t.trace_id = o.trace_id
LEFT JOIN lists ON lists.group_ranks = o.group_ranks
LEFT JOIN canonical.host_slices AS around ON around.trace_id = o.trace_id AND around.slice_id = o.annotation_id
LEFT JOIN canonical.host_slices AS outside  -- NCCL's own range, ncclGroupEnd, may lie between
  ON outside.trace_id = o.trace_id AND outside.slice_id = around.annotation_id AND STARTS_WITH(outside.name, 'nccl:')
WHERE o.is_comm
  AND o.kind = 'kernel'
ORDER BY o.trace_id, o.device, o.start_ns, o.op_id
"""

_Group = tuple[str, ...]


@dataclass(frozen=True)
class Member:
    """One rank's part in a matched collective."""

    match_id: int
    place: Place
    op_id: int
    group: str
    present_count: int
    expected_count: int | None
    synchronises: bool
    transfer_ns: int | None  # NULL (None): ranks are missing
    wait_ns: int | None
    last_trace_id: int | None  # trace of the rank that arrived last
    last_rank: int | None


@dataclass(frozen=True)
class CommWaits:
    """By op id of one device: its complete collective, how long the op waited in it, and the rank that arrived last."""

    match_id: Mapping[int, int]
    wait_ns: Mapping[int, int]
    last_rank: Mapping[int, int | None]


def match_collectives(con: duckdb.DuckDBPyConnection) -> list[Member]:
    """Return every communication kernel of a run as a member of its collective, ordered by collective."""
    groups: dict[_Group, dict[Place, list[Call]]] = defaultdict(lambda: defaultdict(list))
    messages: dict[_Group, list[Call]] = defaultdict(list)
    peers = load_peers(con)
    sessions = dict(con.execute(f"SELECT trace_id, session FROM ({metrics()['recordings'].sql})").fetchall())
    listed = _listed_groups(con)
    sizes: dict[_Group, int | None] = {}
    ranks: dict[int, int | None] = {}
    for row in con.execute(_QUERY).fetchall():
        trace_id, device, op_id, start, dur, name, kind, group, size, list_id, dtype, sent, got, seq, rank, around = row
        called = name_of(kind, name, around)
        written = re.sub(r"[_ ]", "", called.lower())
        key, of_group = listed.get(list_id) or (("name", group or "", str(size)), ())
        if sessions[trace_id] > 1:  # ranks that were recorded several times meet in each session by themselves
            key = (*key, f"recording {sessions[trace_id]}")
        sizes[key] = len(of_group) or size
        ranks[trace_id] = rank
        signature = (written, dtype, sent, got)
        if is_message(called):
            directions = peers.directions((trace_id, op_id), rank, called, around, of_group)
            # A send and its receive differ in name and sequence number.
            call = Call((trace_id, device), op_id, start, dur, ("", dtype, None, None), None, True, directions)
            messages[key].append(call)
        else:
            call = Call((trace_id, device), op_id, start, dur, signature, seq)
            groups[key][call.place].append(call)
    matched: list[Member] = []
    match_count = 0
    for key in sorted(groups.keys() | messages.keys()):
        group_key = "/".join(key[1:])
        of_messages = [(match, ENDS) for match in pair_messages(messages.get(key, ()))]
        of_all = [(match, sizes[key]) for match in _matches(groups.get(key, {}), sizes[key])]
        for match, size in (*of_all, *of_messages):
            matched += _members(match_count, group_key, match, size, ranks)
            match_count += 1
    return matched


def _listed_groups(con: duckdb.DuckDBPyConnection) -> dict[int, tuple[_Group, Sequence[int]]]:
    """Return each list of ranks as a group with its ranks, without lists that the recorder shortened."""
    groups: dict[int, tuple[_Group, Sequence[int]]] = {}
    for list_id, text in con.execute(_LISTED_RANKS).fetchall():
        with suppress(ValueError, TypeError):
            groups[list_id] = ("ranks", text), json.loads(text)
    return groups


def waits_of(members: Sequence[Member]) -> dict[Place, CommWaits]:
    """Return the waits of each device in collectives that synchronise and have all their ranks in the run."""
    by_place: dict[Place, list[Member]] = defaultdict(list)
    for member in members:
        if member.synchronises and member.wait_ns is not None:
            by_place[member.place].append(member)
    return {
        place: CommWaits(
            {member.op_id: member.match_id for member in own},
            {member.op_id: member.wait_ns or 0 for member in own},
            {member.op_id: member.last_rank for member in own},
        )
        for place, own in by_place.items()
    }


def _matches(calls: Mapping[Place, list[Call]], size: int | None) -> list[list[Call]]:
    if len(calls) > 1 and (size is None or len(calls) <= size):
        if all(call.sequence is not None for own in calls.values() for call in own):
            return _by_sequence(calls)
        return in_order(calls)
    return [[call] for own in calls.values() for call in own]


def _by_sequence(calls: Mapping[Place, list[Call]]) -> list[list[Call]]:
    """Match calls with equal sequence numbers; repeated numbers of a rank are matched in their order."""
    by_number: dict[tuple[int, int], list[Call]] = defaultdict(list)
    for own in calls.values():
        seen: dict[int, int] = defaultdict(int)
        for call in own:
            number = call.sequence or 0
            by_number[(number, seen[number])].append(call)
            seen[number] += 1
    return [by_number[key] for key in sorted(by_number)]


def _members(
    match_id: int, group: str, match: Sequence[Call], size: int | None, ranks: Mapping[int, int | None]
) -> list[Member]:
    last = min(match, key=lambda call: (call.dur, call.place))
    complete = len(match) > 1 and (size is None or len(match) == size)
    synchronises = last.sends or _SYNCHRONISING.search(last.signature[0]) is not None
    return [
        Member(
            match_id,
            call.place,
            call.op_id,
            group,
            len(match),
            size,
            synchronises,
            last.dur if complete else None,
            call.dur - last.dur if complete else None,
            last.place[0] if complete else None,
            ranks[last.place[0]] if complete else None,
        )
        for call in match
    ]
