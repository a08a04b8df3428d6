"""The planes of an XSpace: their lines, the names of events and stats, and what the file says about itself."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.xla.defects import ProfileDefects
from traceanalyzer.ingest.xla.stats import NamePlaces, Stats, Value, decode_stats, one_value
from traceanalyzer.ingest.xla.wire import BLOCK, VARINT, Bytes, DamageError, Decoder, Int, blocks, fields, signed

PLANES, ERRORS, WARNINGS, HOSTNAMES = 1, 2, 3, 4
_LINES, _EVENT_NAMES, _STAT_NAMES, _PLANE_STATS = 3, 4, 5, 6
# Compiled programs: most of a small file. Nothing of them is decoded.
_PROGRAMS = "/host:metadata"
MOST_NAME_BYTES = 65_536
_NAME, _DISPLAY_NAME, _STATS = 2, 4, 5


@dataclass(frozen=True)
class LineHead:
    """A line of a plane, without its events: those lie from `starts` to `ends`."""

    id: int
    name: str
    timestamp_ns: int
    starts: Int
    ends: Int


@dataclass
class Plane:
    """One plane, with what its ids mean; unknown ids are named `?` and the id."""

    name: str
    id: int
    event_ids: NamePlaces
    event_names: list[str]
    display_names: list[str]
    event_stats: Stats  # of event names: the owner is the place of a name
    stat_ids: NamePlaces
    stat_names: list[str]
    stats: dict[str, Value]
    line_starts: Int
    line_ends: Int

    def label(self, place: int) -> str:
        """Return the short name of an event's name."""
        return self.display_names[place] or self.event_names[place]

    def event_places(self, ids: Int) -> Int:
        """Return the places of names by their ids; new places are made for ids that the plane does not define."""
        places, unknown = self.event_ids.find(ids)
        self.event_names += [f"?{number}" for number in unknown.tolist()]
        self.display_names += [""] * len(unknown)
        return places

    def stat_places(self, ids: Int) -> Int:
        """Return the places of names of stats by their ids, as `event_places` does."""
        places, unknown = self.stat_ids.find(ids)
        self.stat_names += [f"?{number}" for number in unknown.tolist()]
        return places


@dataclass
class Space:
    """A file: where its planes lie, and what it says beside them."""

    data: Bytes
    view: memoryview
    decoder: Decoder
    defects: ProfileDefects
    planes: list[tuple[int, int]] = field(default_factory=list)  # where each starts and ends
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hostnames: list[str] = field(default_factory=list)
    is_cut: bool = False
    event_count: int = 0
    most_text_bytes: int = MOST_NAME_BYTES
    epoch_lines: int = 0  # lines with events that count from 1970
    relative_lines: int = 0
    clocks_apart_ps: int = 0  # the greatest distance of a TPU's clock from the host's
    read_planes: list[Plane] = field(default_factory=list)
    # Between which times since the start of the recording its events lie; None: not known yet.
    bounds_ns: tuple[float, float] | None = None
    has_lines_inside: bool = False  # some lines lie between these times
    outside_count: int = 0  # events of lines that lie outside as a whole: they have another clock
    outside_example: str = ""

    def text(self, start: int, end: int) -> str:
        """Return text of the file, cut where it is longer than any that profilers write; bad bytes are replaced."""
        if end - start > MOST_NAME_BYTES:
            self.defects.add("long-text", example=f"{end - start} bytes at {start}")
            end = start + MOST_NAME_BYTES
        content = bytes(self.view[start:end])
        try:
            return content.decode()
        except UnicodeDecodeError:
            text = content.decode(errors="replace")
            self.defects.add("invalid-utf8", example=text)
            return text

    def plane(self, start: int, end: int) -> Plane:
        """Decode all of a plane but its events."""
        found = blocks(self.view, start, end, (_LINES, _EVENT_NAMES, _STAT_NAMES, _PLANE_STATS))
        self.note_damage(found.damage)
        name, plane_id = "", 0
        for one in found.others:
            if one.number == 2 and one.wire == BLOCK:
                name = self.text(one.value, one.value + one.length)
            elif one.number == 1 and one.wire == VARINT:
                plane_id = signed(one.value)
        line_starts, line_ends = found.starts[_LINES], found.ends[_LINES]
        if found.damage is not None and found.damage.is_cut:
            line_starts, line_ends = self._with_cut_line(found.damage, end, line_starts, line_ends)
        stat_ids, stat_names = self._stat_names(found.starts[_STAT_NAMES], found.ends[_STAT_NAMES])
        plane = Plane(
            name=name,
            id=plane_id,
            event_ids=NamePlaces(np.empty(0, np.int64)),
            event_names=[],
            display_names=[],
            event_stats=Stats.none(),
            stat_ids=NamePlaces(stat_ids),
            stat_names=stat_names,
            stats={},
            line_starts=line_starts,
            line_ends=line_ends,
        )
        if name != _PROGRAMS:
            self._read_event_names(plane, found.starts[_EVENT_NAMES], found.ends[_EVENT_NAMES])
        self._read_stats(plane, found.starts[_PLANE_STATS], found.ends[_PLANE_STATS])
        return plane

    def _with_cut_line(self, damage: DamageError, end: int, starts: Int, ends: Int) -> tuple[Int, Int]:
        """Return the lines of a plane with the one in which the file ends, as far as it goes."""
        try:
            tag_end = damage.offset + 1
            if self.view[damage.offset] != _LINES << 3 | BLOCK:
                return starts, ends
            while self.view[tag_end] >= 128:
                tag_end += 1
        except IndexError:
            return starts, ends
        return np.append(starts, tag_end + 1), np.append(ends, end)

    def _stat_names(self, starts: Int, ends: Int) -> tuple[Int, list[str]]:
        keys, contents = self._entries(starts, ends)
        names = [""] * len(keys)
        for owner, begin, stop in self._texts(contents, 2):
            names[owner] = self.text(begin, stop)
        return self._unique(keys, names)

    def _unique(self, keys: Int, names: list[str]) -> tuple[Int, list[str]]:
        """Return ids in order with their names; the last one counts, as in a map."""
        last = {key: place for place, key in enumerate(keys.tolist())}
        ids = np.array(sorted(last), np.int64)
        return ids, [names[last[key]] for key in ids.tolist()]

    def _entries(self, starts: Int, ends: Int) -> tuple[Int, tuple[Int, Int]]:
        """Return the keys of a map's entries, and where their values lie."""
        columns = self.decoder.columns(starts, ends)
        keys = columns.last(1, len(starts))
        begins, stops = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.int64)
        rows = columns.of(2, BLOCK)
        begins[columns.owner[rows]] = columns.value[rows]
        stops[columns.owner[rows]] = columns.value[rows] + columns.length[rows]
        self.defects.add("damaged-message", int(columns.damaged.sum()), example="an entry of a plane's names")
        return keys, (begins, stops)

    def _texts(self, contents: tuple[Int, Int], number: int) -> list[tuple[int, int, int]]:
        columns = self.decoder.columns(*contents)
        rows = columns.of(number, BLOCK)
        begins = columns.value[rows]
        return list(
            zip(columns.owner[rows].tolist(), begins.tolist(), (begins + columns.length[rows]).tolist(), strict=True)
        )

    def _read_event_names(self, plane: Plane, starts: Int, ends: Int) -> None:
        keys, contents = self._entries(starts, ends)
        columns = self.decoder.columns(*contents)
        self.defects.add("damaged-message", int(columns.damaged.sum()), example=f"a name of an event of {plane.name}")
        names, displays = [""] * len(keys), [""] * len(keys)
        for number, texts in ((_NAME, names), (_DISPLAY_NAME, displays)):
            rows = columns.of(number, BLOCK)
            ends_of_texts = columns.value[rows] + columns.length[rows]
            for owner, begin, stop in zip(
                columns.owner[rows].tolist(), columns.value[rows].tolist(), ends_of_texts.tolist(), strict=True
            ):
                texts[owner] = self.text(begin, stop)
        ids, plane.event_names = self._unique(keys, names)
        plane.event_ids = NamePlaces(ids)
        _, plane.display_names = self._unique(keys, displays)
        rows = columns.of(_STATS, BLOCK)
        stats = decode_stats(
            self.decoder, columns.owner[rows], columns.value[rows], columns.value[rows] + columns.length[rows]
        )
        last = {key: place for place, key in enumerate(keys.tolist())}
        place_of = np.full(len(keys), -1, np.int64)
        place_of[[last[key] for key in ids.tolist()]] = np.arange(len(ids))
        stats.owner = place_of[stats.owner]
        stats = stats.taken(np.flatnonzero(stats.owner >= 0))
        stats = stats.taken(np.argsort(stats.owner, kind="stable"))
        stats.key = plane.stat_places(stats.key)
        plane.event_stats = stats

    def _read_stats(self, plane: Plane, starts: Int, ends: Int) -> None:
        stats = decode_stats(self.decoder, np.zeros(len(starts), np.int64), starts, ends)
        stats.key = plane.stat_places(stats.key)
        for place in range(len(stats.key)):
            key = plane.stat_names[stats.key[place]]
            plane.stats.setdefault(key, one_value(self, plane, stats, place))

    def line(self, start: int, end: int) -> LineHead:
        """Find the events of a line."""
        found = blocks(self.view, start, end, (4,))
        self.note_damage(found.damage)
        line_id = timestamp_ns = 0
        name = display_name = ""
        for one in found.others:
            if one.wire == VARINT and one.number == 1:
                line_id = signed(one.value)
            elif one.wire == VARINT and one.number == 3:
                timestamp_ns = signed(one.value)
            elif one.wire == BLOCK and one.number == 2:
                name = self.text(one.value, one.value + one.length)
            elif one.wire == BLOCK and one.number == 11:
                display_name = self.text(one.value, one.value + one.length)
        return LineHead(line_id, name or display_name, timestamp_ns, found.starts[4], found.ends[4])

    def begins_plane(self) -> bool:
        """Return whether the first bytes of the first plane are those of its number or its name."""
        return self.view[self.planes[0][0]] in (1 << 3 | VARINT, 2 << 3 | BLOCK)

    def note_damage(self, damage: DamageError | None) -> None:
        """Count a place where a message is cut or holds no field."""
        if damage is None:
            return
        # A cut is counted once, by the file; the messages around it are cut, too.
        if not (damage.is_cut and self.is_cut):
            self.defects.add("damaged-message", offset=damage.offset)


CUT_AT_ONCE = "was cut short, before the name of its first plane ends"


def read_space(data: Bytes, view: memoryview, path: object, defects: ProfileDefects) -> Space:
    """Return the planes of a file. Raises TraceAnalyzerError where it holds none."""
    space = Space(data, view, Decoder(data, view), defects)
    size = len(view)
    try:
        for one in fields(view, 0, size):
            _note_field(space, one.number, one.wire, one.value, one.value + one.length)
    except DamageError as error:
        _note_end(space, error, size)
    if not space.planes:
        what = CUT_AT_ONCE if space.is_cut and size < 4 else "is no profile of XLA: it holds no planes"
        hint = "give the .xplane.pb that the profiler wrote, or the trace.json.gz beside it"
        raise TraceAnalyzerError(what, str(path), hint)
    return space


def _note_field(space: Space, number: int, wire: int, start: int, end: int) -> None:
    if wire != BLOCK:
        return
    if number == PLANES:
        space.planes.append((start, end))
    elif number in (ERRORS, WARNINGS, HOSTNAMES):
        {ERRORS: space.errors, WARNINGS: space.warnings, HOSTNAMES: space.hostnames}[number].append(
            space.text(start, end)
        )


def _note_end(space: Space, error: DamageError, size: int) -> None:
    """Keep what is whole of the plane in which a file ends; count bytes behind the end."""
    if not error.is_cut:
        space.defects.add("trailing-data", size - error.offset, offset=error.offset)
        return
    space.is_cut = True
    space.defects.add("truncated", offset=error.offset)
    if space.view[error.offset] != PLANES << 3 | BLOCK:
        return
    start = error.offset + 1
    while start < size and space.view[start] >= 128:
        start += 1
    if start + 1 < size:
        space.planes.append((start + 1, size))
