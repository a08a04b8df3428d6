"""The events of a line, batch by batch: what they are called, when they were, and what they carry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from traceanalyzer.ingest.device_check import BRIEF_SILENCE_NS, FEW_SHARE, MOST_FAR
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
    stats.key = plane.stat_places(stats.key)
    is_aggregate = np.zeros(count, np.bool_)
    is_aggregate[columns.owner[columns.of(_OCCURRENCES, VARINT)]] = True
    is_aggregate[columns.owner[columns.of(_OFFSET_PS, VARINT)]] = False
    is_negative = dur_ps < 0
    dur_ps = np.where(is_negative, 0, dur_ps)
    is_long = dur_ps > _MOST_DURATION_PS
    is_late = np.abs(offset_ps) > _MOST_OFFSET_PS
    at_ns = np.where(is_late, 0, offset_ps) // 1000 + float(line.timestamp_ns)
    is_late |= np.abs(at_ns + (0 if line.timestamp_ns > EPOCH_NS else base_ns)) > _MOST_NS
    if space.length_ns is not None:
        since_start = at_ns - (base_ns if line.timestamp_ns > EPOCH_NS else 0)
        is_far = since_start + dur_ps // 1000 > space.length_ns + BRIEF_SILENCE_NS
        # A few that last so long are damaged; where many do, the line has another clock.
        if is_far.sum() <= max(MOST_FAR, FEW_SHARE * count):
            is_late |= is_far & (since_start > space.length_ns + BRIEF_SILENCE_NS)
            is_long |= is_far & ~is_late
    defects.add("aggregated-events", int(is_aggregate.sum()), where)
    defects.add("negative-duration", int((is_negative & ~is_aggregate).sum()), where)
    defects.add("bad-duration", int((is_long & ~is_aggregate).sum()), where)
    defects.add("bad-timestamp", int((is_late & ~is_aggregate & ~is_long).sum()), where)
    known_names = len(plane.event_ids)
    places = plane.event_places(names)
    if len(plane.event_ids) > known_names:
        defects.add("unknown-name", len(plane.event_ids) - known_names, where)
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
