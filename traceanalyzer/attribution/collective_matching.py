"""Which communication kernels of different ranks are one collective, and how long each rank waited in it for the last.

Ranks of a collective get done together, and the last one to come is in it for the shortest time: the least duration is
the transfer, and what the others take longer they waited. Nothing here compares the clocks of two ranks.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from traceanalyzer.attribution.buckets import Ints

# Ranks may have begun to record this many collectives apart.
MOST_SHIFT = 64
# Where more than this share of two ranks' collectives differ in kind or size, they are not the same ones.
MOST_MISMATCH_SHARE = 0.05
# All members leave these together; of a broadcast or a reduction some leave early.
_SYNCHRONISING = re.compile(r"allreduce|allgather|reducescatter|alltoall|barrier|crossdevicereduce")

_QUERY = """
SELECT o.trace_id, o.device, o.op_id, COALESCE(l.start_ns, o.start_ns) AS asked_ns, o.start_ns, o.dur_ns,
       o.name, o.collective, o.group_name, COALESCE(o.group_size, t.world_size) AS group_size, o.group_ranks,
       o.comm_dtype, o.in_elements, o.out_elements, o.comm_seq, t.rank
FROM canonical.gpu_ops AS o
INNER JOIN canonical.traces AS t ON t.trace_id = o.trace_id
LEFT JOIN canonical.host_slices AS l ON l.trace_id = o.trace_id AND l.slice_id = o.launch_id
WHERE o.is_comm
  AND o.kind = 'kernel'
ORDER BY o.trace_id, o.device, o.start_ns, o.op_id
"""

Place = tuple[int, int]  # trace_id, device
_Group = tuple[str, ...]
_Signature = tuple[str, str | None, int | None, int | None]


@dataclass(frozen=True)
class _Call:
    """One rank's part in a collective."""

    place: Place
    op_id: int
    start: int
    dur: int
    signature: _Signature
    sequence: int | None


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
    last_trace_id: int | None  # the rank that came last
    last_rank: int | None


@dataclass(frozen=True)
class CommWaits:
    """By op id of one device: the collective all of whose ranks are there, and how long the op waited in it."""

    match_id: Mapping[int, int]
    wait_ns: Mapping[int, int]
    last_rank: Mapping[int, int | None]


def match_collectives(con: duckdb.DuckDBPyConnection) -> list[Member]:
    """Return every communication kernel of a run with the collective it belongs to, ordered by collective."""
    groups: dict[_Group, dict[Place, list[_Call]]] = defaultdict(lambda: defaultdict(list))
    sizes: dict[_Group, int | None] = {}
    ranks: dict[int, int | None] = {}
    for row in con.execute(_QUERY).fetchall():
        trace_id, device, op_id, _, start, dur, name, told, group, size, members, dtype, sent, got, seq, rank = row
        written = re.sub(r"[_ ]", "", (told or name or "").lower())
        key: _Group = ("ranks", members) if members else ("name", group or "", str(size))
        sizes[key] = len(json.loads(members)) if members else size
        ranks[trace_id] = rank
        place = (trace_id, device)
        groups[key][place].append(_Call(place, op_id, start, dur, (written, dtype, sent, got), seq))
    found: list[Member] = []
    match_count = 0
    for key, calls in sorted(groups.items()):
        for match in _matches(calls, sizes[key]):
            found += _members(match_count, "/".join(key[1:]), match, sizes[key], ranks)
            match_count += 1
    return found


def waits_of(members: Sequence[Member]) -> dict[Place, CommWaits]:
    """Return what each device waited for in collectives that synchronise and all of whose ranks are there."""
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


def _matches(calls: Mapping[Place, list[_Call]], size: int | None) -> list[list[_Call]]:
    if len(calls) > 1 and (size is None or len(calls) <= size):
        if all(call.sequence is not None for own in calls.values() for call in own):
            return _by_sequence(calls)
        return _by_order(calls)
    return [[call] for own in calls.values() for call in own]


def _by_sequence(calls: Mapping[Place, list[_Call]]) -> list[list[_Call]]:
    """Return calls of equal sequence numbers together; of equal numbers on one rank the first with the first."""
    found: dict[tuple[int, int], list[_Call]] = defaultdict(list)
    for own in calls.values():
        seen: dict[int, int] = defaultdict(int)
        for call in own:
            number = call.sequence or 0
            found[(number, seen[number])].append(call)
            seen[number] += 1
    return [found[key] for key in sorted(found)]


def _by_order(calls: Mapping[Place, list[_Call]]) -> list[list[_Call]]:
    """Return the n-th calls together, after each rank is shifted to where its calls fit those of the fullest one."""
    places = sorted(calls, key=lambda place: (-len(calls[place]), place))
    first = calls[places[0]]
    found: dict[int, list[_Call]] = {at: [call] for at, call in enumerate(first)}
    alone: list[list[_Call]] = []
    for place in places[1:]:
        own = calls[place]
        shift = _best_shift(first, own)
        for at, call in enumerate(own):
            if shift is not None and at + shift in found:
                found[at + shift].append(call)
            else:
                alone.append([call])
    return [found[at] for at in sorted(found)] + alone


def _best_shift(first: Sequence[_Call], own: Sequence[_Call]) -> int | None:
    """Return by how many calls the first rank is ahead; None where the two never did the same.

    Of shifts at which kinds and sizes fit, calls that belong together end the most nearly at one distance.
    """
    best: tuple[float, float, int] | None = None
    ends = _ends(first), _ends(own)
    for shift in range(-MOST_SHIFT, MOST_SHIFT + 1):
        low, high = max(0, shift), min(len(first), len(own) + shift)
        if high - low < max(1, min(len(first), len(own)) / 2):
            continue
        pairs = zip(first[low:high], own[low - shift : high - shift], strict=True)
        mismatch = sum(a.signature != b.signature for a, b in pairs) / (high - low)
        apart = ends[1][low - shift : high - shift] - ends[0][low:high]
        spread = float(np.abs(apart - np.median(apart)).mean())
        rank = (mismatch, spread, abs(shift))
        if mismatch <= MOST_MISMATCH_SHARE and (best is None or rank < (*best[:2], abs(best[2]))):
            best = (mismatch, spread, shift)
    return None if best is None else best[2]


def _ends(calls: Sequence[_Call]) -> Ints:
    return np.asarray([call.start + call.dur for call in calls], dtype=np.int64)


def _members(
    match_id: int, group: str, match: Sequence[_Call], size: int | None, ranks: Mapping[int, int | None]
) -> list[Member]:
    last = min(match, key=lambda call: (call.dur, call.place))
    complete = len(match) > 1 and (size is None or len(match) == size)
    synchronises = _SYNCHRONISING.search(last.signature[0]) is not None
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
