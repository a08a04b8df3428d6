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
from pathlib import Path
from sys import intern

import duckdb
import numpy as np
from msgspec import Struct, structs

from traceanalyzer.attribution.columns import DeviceKey, Ints

# Ranks may have begun to record this many collectives after each other.
MOST_SHIFT = 64
# Two ranks' collectives are not the same if more than this share of them differ in kind or size.
MOST_MISMATCH_SHARE = 0.05
# Distances between clocks that differ by less are equal.
CLOCK_ERROR_NS = 5_000
# Of so many distances and more, one in so many may be far from the others.
LEAST_TRIMMED = 4
TRIMMED_PART = 10

Direction = tuple[int, int]  # rank that sends, rank that receives
Signature = tuple[str, str | None, int | None, int | None]  # what it is, element type, elements in and out


class Call(Struct, frozen=True):
    """One rank's part in a collective or a message."""

    device_key: DeviceKey
    op_id: int
    start: int
    dur: int
    signature: Signature
    sequence: int | None
    sends: bool = False  # an end of messages, and no collective
    directions: tuple[Direction, ...] = ()  # of these messages; empty: not known
    kernel: str = ""


def in_order(calls: Mapping[DeviceKey, list[Call]]) -> list[list[Call]]:
    """Match the n-th calls of ranks, after shifting each rank to fit the rank with the most calls."""
    device_keys = sorted(calls, key=lambda device_key: (-len(calls[device_key]), device_key))
    first = calls[device_keys[0]]
    by_position: dict[int, list[Call]] = {at: [call] for at, call in enumerate(first)}
    alone: list[list[Call]] = []
    for device_key in device_keys[1:]:
        own = calls[device_key]
        shift = _best_shift(first, own)
        for at, call in enumerate(own):
            if shift is not None and at + shift in by_position:
                by_position[at + shift].append(call)
            else:
                alone.append([call])
    return [by_position[at] for at in sorted(by_position)] + alone


def _best_shift(first: Sequence[Call], own: Sequence[Call]) -> int | None:
    """Return by how many calls the first rank is ahead; None: no shift fits.

    Among the shifts at which kinds and sizes fit, the best is the one with the most constant distance between the ends
    of matched calls. One call that ends late, as while a profiler starts, is no reason for another shift. Among shifts
    that are as constant, it is the one with the least time for transfers: the rank that comes last does not wait.
    """
    shorter = min(len(first), len(own))
    ends, durs = (_ends(first), _ends(own)), (_durs(first), _durs(own))
    fits: list[tuple[float, int, int, int]] = []
    for shift in range(-MOST_SHIFT, MOST_SHIFT + 1):
        low, high = max(0, shift), min(len(first), len(own) + shift)
        # A single pair always has a constant distance.
        if high - low < max(min(2, shorter), shorter / 2):
            continue
        pairs = zip(first[low:high], own[low - shift : high - shift], strict=True)
        mismatch = sum(a.signature != b.signature for a, b in pairs) / (high - low)
        if mismatch > MOST_MISMATCH_SHARE:
            continue
        apart = ends[1][low - shift : high - shift] - ends[0][low:high]
        spread = _usual_distance(apart) // CLOCK_ERROR_NS
        longer = np.maximum(durs[0][low:high], durs[1][low - shift : high - shift])
        # Of a call without a partner, all of its time could be its transfer.
        transfer = int(durs[0].sum() + durs[1].sum() - longer.sum())
        fits.append((mismatch, spread, transfer, shift))
    return min(fits, key=lambda fit: (*fit[:3], abs(fit[3])))[3] if fits else None


def _usual_distance(apart: Ints) -> int:
    """Return by how much distances differ from their median on average, without those few that differ most."""
    distances = np.sort(np.abs(apart - np.median(apart)))
    if len(distances) >= LEAST_TRIMMED:
        distances = distances[: -max(1, len(distances) // TRIMMED_PART)]
    return int(distances.mean())


def _durs(calls: Sequence[Call]) -> Ints:
    return np.asarray([call.dur for call in calls], dtype=np.int64)


def _ends(calls: Sequence[Call]) -> Ints:
    return np.asarray([call.start + call.dur for call in calls], dtype=np.int64)


ENDS = 2
# Of metrics, attribution reads this one: stored tables are made again where it changes, as `store.inputs` lists it.
_RECORDINGS = Path(__file__).parents[1] / "metrics" / "recording" / "recordings.sql"
_MESSAGE = re.compile(r"(?i)^_?(send|recv|isend|irecv|batch_isend_irecv|p2p)")
_SEND, _RECV = re.compile(r"(?i)^_?i?send$"), re.compile(r"(?i)^_?i?recv$")
_PEERS = re.compile(r"^nccl:(?P<kind>send|recv) (?P<own>\d+)(->|<-)(?P<peer>\d+)\b")
# Text after the name (`nccl:all_to_all, op_id = 991698`) is still there if ingest could not read it.
_RANGE = re.compile(r"^nccl:(?P<name>[^,]+)")

_PEERS_QUERY = """
SELECT
    a.trace_id, a.event_id,
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


class Peers(Struct, frozen=True):
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
    ends: dict[Direction, dict[DeviceKey, list[Call]]] = defaultdict(lambda: defaultdict(list))
    for call in calls:
        for direction in call.directions:
            ends[direction][call.device_key].append(call)
    tied: dict[Call, set[Call]] = defaultdict(set)
    for of_devices in ends.values():
        for pair in in_order(of_devices) if len(of_devices) == ENDS else ():
            if len(pair) == ENDS:
                tied[pair[0]].add(pair[1])
                tied[pair[1]].add(pair[0])
    pairs = []
    for call in calls:
        others = tied[call]
        other = next(iter(others), None)
        if other is None or len(others) > 1 or tied[other] != {call} or set(other.directions) != set(call.directions):
            pairs.append([call])
        elif (call.device_key, call.op_id) < (other.device_key, other.op_id):
            pairs.append([call, other])
    return pairs


# All members leave these together; some members of a broadcast or a reduction leave early.
_SYNCHRONISING = re.compile(r"allreduce|allgather|reducescatter|alltoall|barrier|crossdevicereduce")
_UNEVEN = re.compile(r"(?i)all[_ ]?to[_ ]?all|scatter|gather")  # members send or get unlike amounts

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


class Member(Struct, frozen=True):
    """One rank's part in a matched collective."""

    match_id: int
    device_key: DeviceKey
    op_id: int
    group: str
    present_count: int
    expected_count: int | None
    synchronises: bool
    transfer_ns: int | None  # NULL (None): ranks are missing
    wait_ns: int | None
    last_trace_id: int | None  # trace of the rank that arrived last
    last_rank: int | None


class CommWaits(Struct, frozen=True):
    """By op id of one device: its complete collective, how long the op waited in it, and the rank that arrived last."""

    match_id: Mapping[int, int]
    wait_ns: Mapping[int, int]
    last_rank: Mapping[int, int | None]


def match_collectives(con: duckdb.DuckDBPyConnection) -> list[Member]:
    """Return every communication kernel of a run as a member of its collective, ordered by collective."""
    groups: dict[_Group, dict[DeviceKey, list[Call]]] = defaultdict(lambda: defaultdict(list))
    messages: dict[_Group, list[Call]] = defaultdict(list)
    peers = load_peers(con)
    sessions = dict(
        con.execute(f"SELECT trace_id, session FROM ({_RECORDINGS.read_text(encoding='utf-8')})").fetchall()
    )
    listed = _listed_groups(con)
    sizes: dict[_Group, int | None] = {}
    ranks: dict[int, int | None] = {}
    for row in con.execute(_QUERY).fetchall():
        trace_id, device, op_id, start, dur, name, kind, group, size, list_id, dtype, sent, got, seq, rank, around = row
        called = name_of(kind, name, around)
        key, of_group = listed.get(list_id) or (("name", group or "", str(size)), ())
        if sessions[trace_id] > 1:  # ranks that were recorded several times meet in each session by themselves
            key = (*key, f"recording {sessions[trace_id]}")
        sizes[key] = len(of_group) or size
        ranks[trace_id] = rank
        signature = (_written(called), dtype, *((None, None) if _UNEVEN.match(called) else (sent, got)))
        if is_message(called):
            directions = peers.directions((trace_id, op_id), rank, called, around, of_group)
            # A send and its receive differ in name and sequence number.
            call = Call((trace_id, device), op_id, start, dur, ("", dtype, None, None), None, True, directions)
            messages[key].append(call)
        else:
            kernel = intern(_written(name or "").partition("(")[0])
            call = Call((trace_id, device), op_id, start, dur, signature, seq, kernel=kernel)
            groups[key][call.device_key].append(call)
    _join_nameless(groups, sizes)
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


def _written(name: str) -> str:
    return name.lower().replace("_", "").replace(" ", "")


def _join_nameless(groups: dict[_Group, dict[DeviceKey, list[Call]]], sizes: Mapping[_Group, int | None]) -> None:
    """Put calls whose recorder names no group into the only group that other recorders name, if its ranks lack there.

    The names of kernels are what two recorders have alike.
    """
    for key in [key for key in groups if key[:2] == ("name", "")]:
        named, *more = [other for other in groups if other[0] == "ranks" and other[2:] == key[3:]] or [key]
        own, others, size = groups[key], groups[named], sizes[named] or 0
        is_other = bool(own.keys() & others.keys()) or sizes[key] not in (None, size)
        if more or is_other or len(own) + len(others) > size:
            continue
        del groups[key]
        groups[named] = {
            device: [structs.replace(call, signature=(call.kernel, None, None, None), sequence=None) for call in calls]
            for device, calls in (*others.items(), *own.items())
        }


def _listed_groups(con: duckdb.DuckDBPyConnection) -> dict[int, tuple[_Group, Sequence[int]]]:
    """Return each list of ranks as a group with its ranks, without lists that the recorder shortened."""
    groups: dict[int, tuple[_Group, Sequence[int]]] = {}
    for list_id, text in con.execute(_LISTED_RANKS).fetchall():
        with suppress(ValueError, TypeError):
            groups[list_id] = ("ranks", text), json.loads(text)
    return groups


def waits_of(members: Sequence[Member]) -> dict[DeviceKey, CommWaits]:
    """Return the waits of each device in collectives that synchronise and have all their ranks in the run."""
    by_device_key: dict[DeviceKey, list[Member]] = defaultdict(list)
    for member in members:
        if member.synchronises and member.wait_ns is not None:
            by_device_key[member.device_key].append(member)
    return {
        device_key: CommWaits(
            {member.op_id: member.match_id for member in own},
            {member.op_id: member.wait_ns or 0 for member in own},
            {member.op_id: member.last_rank for member in own},
        )
        for device_key, own in by_device_key.items()
    }


def _matches(calls: Mapping[DeviceKey, list[Call]], size: int | None) -> list[list[Call]]:
    if len(calls) > 1 and (size is None or len(calls) <= size):
        if all(call.sequence is not None for own in calls.values() for call in own):
            return _by_sequence(calls)
        return in_order(calls)
    return [[call] for own in calls.values() for call in own]


def _by_sequence(calls: Mapping[DeviceKey, list[Call]]) -> list[list[Call]]:
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
    last = min(match, key=lambda call: (call.dur, call.device_key))
    complete = len(match) > 1 and (size is None or len(match) == size)
    synchronises = last.sends or _SYNCHRONISING.search(last.signature[0]) is not None
    return [
        Member(
            match_id,
            call.device_key,
            call.op_id,
            group,
            len(match),
            size,
            synchronises,
            last.dur if complete else None,
            call.dur - last.dur if complete else None,
            last.device_key[0] if complete else None,
            ranks[last.device_key[0]] if complete else None,
        )
        for call in match
    ]
