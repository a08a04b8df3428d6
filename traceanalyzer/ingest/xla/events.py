"""The events of a line, batch by batch: what they are called, when they were, and what they carry."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from traceanalyzer.ingest.device_check import (
    BRIEF_SILENCE_NS,
    FEW_SHARE,
    MOST_FAR,
    SLOT_NS,
    Slot,
    recording_of,
    silence_ns,
)
from traceanalyzer.ingest.xla.defects import ProfileDefects
from traceanalyzer.ingest.xla.space import LineHead, Plane, Space
from traceanalyzer.ingest.xla.stats import Picker, Stats, decode_stats
from traceanalyzer.ingest.xla.wire import BLOCK, VARINT, Int

BATCH_EVENTS = 2**17
_NAME_ID, _OFFSET_PS, _DURATION_PS, _STATS, _OCCURRENCES = 1, 2, 3, 4, 5
# Later times are since 1970: no recording takes 30 years.
EPOCH_NS = 10**18
_MOST_NS = 4 * 10**18
_MOST_DURATION_PS = 30 * 86_400 * 10**12
_MOST_OFFSET_PS = 2**62
_BRIEF_PS = BRIEF_SILENCE_NS * 1000


@dataclass
class LineEvents:
    """Events of one line, in order of the file. Times are on the line's clock: see `start_ns`."""

    line: LineHead
    event_id: Int  # the place in the file
    name: Int  # place among the plane's names
    offset_ps: Int
    dur_ps: Int
    stats: Stats
    picker: Picker

    def __len__(self) -> int:
        return len(self.event_id)


def start_ns(line: LineHead, offset_ps: Int, base_ns: int) -> Int:
    """Return starts in ns since 1970, or since the start of the profile where that is not known."""
    base = line.timestamp_ns + (0 if line.timestamp_ns > EPOCH_NS else base_ns)
    return base + offset_ps // 1000


def dur_ns(offset_ps: Int, dur_ps: Int) -> Int:
    """Return lengths in ns that keep neighbours neighbours: from the ns of the start to the ns of the end."""
    return (offset_ps + dur_ps) // 1000 - offset_ps // 1000


def read_events(space: Space, plane: Plane, line: LineHead, base_ns: int) -> Iterator[LineEvents]:
    """Yield the events of a line that have a time; the others are counted as defects."""
    if len(line.starts) and line.timestamp_ns > EPOCH_NS:
        space.epoch_lines += 1
    elif len(line.starts):
        space.relative_lines += 1
    for first in range(0, len(line.starts), BATCH_EVENTS):
        starts, ends = line.starts[first : first + BATCH_EVENTS], line.ends[first : first + BATCH_EVENTS]
        yield _batch(space, plane, line, starts, ends, base_ns)


def _out_of_time(
    space: Space, line: LineHead, offset_ps: Int, dur_ps: Int, base_ns: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which events last too long, and which others are at a time at which nothing was recorded."""
    is_long = dur_ps > _MOST_DURATION_PS
    is_late, since_start = _since_start(line, offset_ps, base_ns)
    if space.bounds_ns is None and len(offset_ps):
        # Only a long event, or a silence around some, asks when all others were: that decodes them once more.
        since = 0 if len(line.starts) == len(offset_ps) else int(offset_ps[0])
        if int(dur_ps.max()) > _BRIEF_PS or int(np.abs(np.diff(offset_ps, prepend=since)).max()) > _BRIEF_PS:
            space.bounds_ns = _bounds_of_all(space, base_ns)
    if space.bounds_ns is not None:
        first, last = space.bounds_ns
        is_outside = (since_start < first) | (since_start > last)
        is_far = is_outside | (since_start + dur_ps // 1000 > last)
        # A few that last so long are damaged; where many do, the line has another clock.
        if is_far.sum() <= max(MOST_FAR, FEW_SHARE * len(is_far)):
            is_late |= is_outside
            is_long |= is_far & ~is_late
            space.has_lines_inside |= not is_far.all()
        elif is_outside.all():
            space.outside_count += len(is_outside)
            space.outside_example = space.outside_example or f"line {line.name}"
    return is_long, is_late


def _since_start(line: LineHead, offset_ps: Int, base_ns: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Return which events no clock shows, and the times of all since the recording began, nearly."""
    is_late = np.abs(offset_ps) > _MOST_OFFSET_PS
    at_ns = np.where(is_late, 0, offset_ps) // 1000 + float(line.timestamp_ns)
    is_late |= np.abs(at_ns + (0 if line.timestamp_ns > EPOCH_NS else base_ns)) > _MOST_NS
    return is_late, at_ns - (base_ns if line.timestamp_ns > EPOCH_NS else 0)


def _bounds_of_all(space: Space, base_ns: int) -> tuple[float, float]:
    """Return between which times all events lie but damaged ones, in a file that does not say when it was stopped."""
    unnoted = replace(space, defects=ProfileDefects())
    slots: list[Slot] = []
    until: dict[float, float] = {}
    for plane in space.read_planes:
        for place in zip(plane.line_starts.tolist(), plane.line_ends.tolist(), strict=True):
            line = unnoted.line(*place)
            for at in range(0, len(line.starts), BATCH_EVENTS):
                starts, ends = line.starts[at : at + BATCH_EVENTS], line.ends[at : at + BATCH_EVENTS]
                columns = space.decoder.columns(starts, ends)
                is_late, since = _since_start(line, columns.last(_OFFSET_PS, len(starts)), base_ns)
                dur_ps = columns.last(_DURATION_PS, len(starts))
                since, end = since[~is_late], (since + np.where(dur_ps > _BRIEF_PS, 0, dur_ps) // 1000)[~is_late]
                slot = since // SLOT_NS
                for number in np.unique(slot).tolist():
                    own = slot == number
                    slots.append(Slot(int(own.sum()), int(since[own].min()), int(since[own].max())))
                    until[number] = max(until.get(number, 0.0), float(end[own].max()))
    span = recording_of(slots, few_silence_ns=BRIEF_SILENCE_NS)
    if span is None:
        return -math.inf, math.inf
    first, last = span
    latest = max((end for slot, end in until.items() if slot <= last // SLOT_NS), default=last)
    margin_ns = silence_ns(int(latest) - first, BRIEF_SILENCE_NS)
    return first - margin_ns, latest + margin_ns


def _batch(space: Space, plane: Plane, line: LineHead, starts: Int, ends: Int, base_ns: int) -> LineEvents:
    defects = space.defects
    space.event_count += len(starts)
    columns = space.decoder.columns(starts, ends)
    count = len(starts)
    where = f"line {line.name} of {plane.name}"
    defects.add("damaged-message", int(columns.damaged.sum()), where)
    offset_ps, dur_ps = columns.last(_OFFSET_PS, count), columns.last(_DURATION_PS, count)
    names = columns.last(_NAME_ID, count)
    rows = columns.of(_STATS, BLOCK)
    owner = columns.owner[rows]
    stats = decode_stats(space.decoder, owner, columns.value[rows], columns.value[rows] + columns.length[rows])
    known_names = len(plane.stat_ids) + len(plane.event_ids)
    stats.key = plane.stat_places(stats.key)
    is_aggregate = np.zeros(count, np.bool_)
    is_aggregate[columns.owner[columns.of(_OCCURRENCES, VARINT)]] = True
    is_aggregate[columns.owner[columns.of(_OFFSET_PS, VARINT)]] = False
    is_negative = dur_ps < 0
    dur_ps = np.where(is_negative, 0, dur_ps)
    is_long, is_late = _out_of_time(space, line, offset_ps, dur_ps, base_ns)
    defects.add("aggregated-events", int(is_aggregate.sum()), where)
    defects.add("negative-duration", int((is_negative & ~is_aggregate).sum()), where)
    defects.add("bad-duration", int((is_long & ~is_aggregate).sum()), where)
    defects.add("bad-timestamp", int((is_late & ~is_aggregate & ~is_long).sum()), where)
    places = plane.event_places(names)
    defects.add("unknown-name", len(plane.stat_ids) + len(plane.event_ids) - known_names, where)
    kept = ~(is_aggregate | is_long | is_late | columns.damaged)
    event_id = starts
    if not kept.all():
        rows = np.flatnonzero(kept)
        new_place = np.cumsum(kept) - 1
        stats = stats.taken(np.flatnonzero(kept[stats.owner]))
        stats.owner = new_place[stats.owner]
        event_id, places, offset_ps, dur_ps = event_id[rows], places[rows], offset_ps[rows], dur_ps[rows]
    of_names = Picker(space, plane, plane.event_stats, len(plane.event_names)) if len(plane.event_stats) else None
    picker = Picker(space, plane, stats, len(event_id), places, of_names)
    return LineEvents(line, event_id, places, offset_ps, dur_ps, stats, picker)
