"""An excerpt: the ledger, the streams and the launching threads around a place of a trace, as boxes in lanes."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from traceanalyzer.report.charts.svg import KERNEL_BLUES, token_of
from traceanalyzer.report.html.sections.stacks import rows_of, telling_rows
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import bucket_words, counted, name_words, size

# What is shorter than a pixel of this many is drawn together with its neighbours.
PIXELS = 1600
AROUND_SHARE = 0.35
LEAST_AROUND_NS = 50_000
MOST_NS = 2_000_000_000
MOST_STREAMS = 4
MOST_THREADS = 2
MOST_ROWS = 8
# A slice that comes this close to both edges fills the excerpt.
EDGE_SHARE = 0.01
# A thread that is there for less of the excerpt says nothing about what is around it.
LEAST_PRESENT_SHARE = 0.5
# A device that waits less in an excerpt needs no line that explains it.
LEAST_WAIT_SHARE = 0.1
# Boxes of one kind are put together up to this many doublings of a pixel before kinds are mixed.
_DOUBLED = 4
_NAMED_THREAD = re.compile(r"thread (\d+) \((.+)\)")
_CATEGORIES = {
    "annotation": "slice-annotation",
    "python": "slice-python",
    "cpu_op": "slice-op",
    "runtime": "slice-call",
    "driver": "slice-call",
    "os": "slice-os",
}


@dataclass(frozen=True)
class ExcerptPlace:
    """A stretch of a trace on one of its devices; without a device, on all of them."""

    trace_id: int
    device: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class ExcerptWindow:
    """What an excerpt shows: from `start_ns`, with a cut in the middle where the place is too long to show it whole."""

    start_ns: int
    end_ns: int
    cut_start_ns: int  # equal to cut_end_ns: nothing is cut
    cut_end_ns: int

    @property
    def length_ns(self) -> int:
        """The time that is shown."""
        return self.end_ns - self.start_ns - (self.cut_end_ns - self.cut_start_ns)

    def at(self, time_ns: int) -> int:
        """Return where a time lies in the excerpt, 0 to `length_ns`."""
        clipped = min(max(time_ns, self.start_ns), self.end_ns)
        return clipped - self.start_ns - min(max(clipped - self.cut_start_ns, 0), self.cut_end_ns - self.cut_start_ns)

    def stretches(self) -> list[tuple[int, int]]:
        """Return the times that are shown."""
        if self.cut_start_ns == self.cut_end_ns:
            return [(self.start_ns, self.end_ns)]
        return [(self.start_ns, self.cut_start_ns), (self.cut_end_ns, self.end_ns)]


@dataclass(frozen=True)
class Box:
    """A slice in a lane, in times of the excerpt; `count` slices in one where more than 1."""

    row: int
    start: int
    end: int
    name: str
    token: str
    link: int | None = None  # host_slices.slice_id of the call that launched it, or of the call itself
    count: int = 1


@dataclass(frozen=True)
class Lane:
    """Boxes, or the line of a value, under one name; a note says what is left out of it, or the most of the value.

    A line is a list of time, value, time, value …: each value holds until the next time. `unit` is what it counts.
    """

    label: str
    boxes: tuple[Box, ...]
    note: str = ""
    line: tuple[int, ...] = ()
    unit: str = ""


def window_around(place: ExcerptPlace, first_ns: int, last_ns: int) -> ExcerptWindow:
    """Return what an excerpt around a place shows: a third more on both sides, at most MOST_NS in all."""
    length = place.end_ns - place.start_ns
    around = max(int(length * AROUND_SHARE), LEAST_AROUND_NS)
    start, end = max(place.start_ns - around, first_ns), min(place.end_ns + around, last_ns)
    if end - start <= MOST_NS:
        return ExcerptWindow(start, max(end, start + 1), end, end)
    outside = int(MOST_NS / 2 * AROUND_SHARE)
    start, end = max(place.start_ns - outside, first_ns), min(place.end_ns + outside, last_ns)
    return ExcerptWindow(start, end, start + MOST_NS // 2, end - MOST_NS // 2)


def lanes_of(source: PageSource, place: ExcerptPlace, window: ExcerptWindow, most_boxes: int) -> list[Lane]:
    """Return the lanes of an excerpt, with at most about so many boxes: the shorter ones are put together."""
    least = max(window.length_ns // PIXELS, 1)

    def ask(name: str, *keys: Any) -> list[dict[str, Any]]:
        return [row for a, b in window.stretches() for row in source.rows(name, [*keys, a, b, least])]

    ledger = [] if place.device is None else ask("excerpt_ledger", place.trace_id, place.device)
    lanes = [_ledger_lane(ledger, window, source.model)]
    lanes += _stream_lanes(ask("excerpt_device", place.trace_id, place.device), window, source.noun)
    lanes += _line_lanes(ask, ledger, place, window)
    lanes += _thread_lanes(source, ask, place, window)
    return thinned([lane for lane in lanes if lane.boxes or lane.line], least, most_boxes)


def _ledger_lane(rows: Iterable[dict[str, Any]], window: ExcerptWindow, model: str | None) -> Lane:
    boxes = []
    for row in rows:
        words = bucket_words(row["bucket"], model)
        name = (
            f"{words}: {name_words(row['blame_name'])}" if row["blame_name"] and row["bucket"] != "compute" else words
        )
        boxes.append(Box(0, window.at(row["start_ns"]), window.at(row["end_ns"]), name, token_of(row["bucket"])))
    return Lane("Time ledger", tuple(boxes))


def _stream_lanes(rows: Sequence[dict[str, Any]], window: ExcerptWindow, noun: str) -> list[Lane]:
    streams: dict[tuple[int, int | None], list[dict[str, Any]]] = {}
    for row in rows:
        streams.setdefault((row["device"], row["stream"]), []).append(row)
    busiest = sorted(streams, key=lambda key: (-sum(row["dur_ns"] for row in streams[key]), str(key)))
    shown = sorted(busiest[:MOST_STREAMS], key=lambda key: (key[0], key[1] is None, key[1] or 0))
    several = len({device for device, _ in streams}) > 1
    lanes = []
    for key in shown:
        boxes = tuple(_device_box(row, window) for row in streams[key])
        label = f"{noun} {key[0]} stream {key[1]}" if several else f"{noun} stream {key[1]}"
        lanes.append(Lane(label if key[1] is not None else noun, boxes))
    if lanes and len(busiest) > len(shown):
        note = f"{counted(len(busiest) - len(shown), 'more stream')}"
        lanes[-1] = Lane(lanes[-1].label, lanes[-1].boxes, note)
    return lanes


def _device_box(row: dict[str, Any], window: ExcerptWindow) -> Box:
    name = row["name"] or ""
    token = {"comm": "slice-comm", "copy": "slice-copy"}.get(row["kind"])
    if token is None:
        token = KERNEL_BLUES[zlib.crc32(name.encode(errors="replace")) % len(KERNEL_BLUES)]
    start, end = window.at(row["start_ns"]), window.at(row["end_ns"])
    return Box(0, start, end, name_words(name), token, row["launch_id"], row["op_count"])


def _line_lanes(
    ask: Callable[..., list[dict[str, Any]]],
    ledger: Sequence[dict[str, Any]],
    place: ExcerptPlace,
    window: ExcerptWindow,
) -> list[Lane]:
    """Return what explains a wait for the host: memory in use where it allocates, else the launches that are queued."""
    bucket = _waits_for(ledger, window)
    if place.device is None or not bucket.startswith("host."):
        return []
    if bucket == "host.alloc":
        return _line_lane("Memory in use", "bytes", size, ask("excerpt_memory", place.trace_id, place.device), window)
    return _line_lane("Queued launches", "launches", str, ask("excerpt_queue", place.trace_id, place.device), window)


def _waits_for(ledger: Iterable[dict[str, Any]], window: ExcerptWindow) -> str:
    """Return the bucket in which the device waits longest in an excerpt; empty where it hardly waits."""
    sizes: dict[str, int] = {}
    for row in ledger:
        if row["bucket"] != "compute":
            inside = window.at(row["end_ns"]) - window.at(row["start_ns"])
            sizes[row["bucket"]] = sizes.get(row["bucket"], 0) + inside
    longest = max(sizes, key=lambda bucket: (sizes[bucket], bucket), default="")
    return longest if sizes.get(longest, 0) >= LEAST_WAIT_SHARE * window.length_ns else ""


def _line_lane(
    label: str, unit: str, words: Callable[[int], str], rows: Sequence[dict[str, Any]], window: ExcerptWindow
) -> list[Lane]:
    line: list[int] = []
    for row in rows:
        line += [window.at(row["at_ns"]), row["most"]]
        if row["last_at_ns"] > row["at_ns"]:
            line += [window.at(row["last_at_ns"]), row["last_value"]]
    most = max(line[1::2], default=0)
    return [Lane(label, (), f"at most {words(most)}", tuple(line), unit)] if most > 0 else []


def _thread_lanes(
    source: PageSource, ask: Callable[..., list[dict[str, Any]]], place: ExcerptPlace, window: ExcerptWindow
) -> list[Lane]:
    inside = {
        row["thread_id"]: row["inside_count"]
        for row in source.rows("launches_inside", [place.trace_id, place.device, window.start_ns, window.end_ns])
    }
    threads = sorted(
        source.rows_once("launching_threads", (place.trace_id, place.device)),
        key=lambda row: (-inside.get(row["thread_id"], 0), -row["launch_count"], row["thread_id"]),
    )
    main = max(threads, key=lambda row: row["launch_count"], default=None)
    shown = [row["thread_id"] for row in threads if row["thread_id"] in inside][:MOST_THREADS]
    if main is not None and main["thread_id"] not in shown:
        shown = [*shown[: MOST_THREADS - 1], main["thread_id"]]
    names = {row["thread_id"]: row for row in source.rows("thread_names", [place.trace_id])} if shown else {}
    mark = (window.at(place.start_ns), window.at(place.end_ns))
    lanes = [
        _thread_lane(ask("excerpt_host", place.trace_id, thread), names.get(thread), window, mark) for thread in shown
    ]
    return [lane for lane in lanes if lane.boxes]


def _thread_lane(
    rows: Sequence[dict[str, Any]], thread: dict[str, Any] | None, window: ExcerptWindow, mark: tuple[int, int]
) -> Lane:
    depths = rows_of([(row["start_ns"], row["end_ns"]) for row in rows])
    boxes = [
        Box(
            depth,
            window.at(row["start_ns"]),
            window.at(row["end_ns"]),
            name_words(row["name"] or ""),
            _CATEGORIES.get(row["category"], "slice-other"),
            row["slice_id"],
            row["slice_count"],
        )
        for row, depth in zip(rows, depths, strict=True)
    ]
    # What fills the excerpt from edge to edge says nothing about it.
    edge = window.length_ns * EDGE_SHARE
    whole = {box.row for box in boxes if box.start <= edge and box.end >= window.length_ns - edge}
    folded = next(row for row in range(len(whole) + 1) if row not in whole)
    deepest = max(depths, default=-1)
    if folded > deepest >= 0:
        folded = deepest
    folded = max(folded, outermost_rows(boxes, window, deepest))
    spans = [(box.row, box.start, box.end) for box in boxes if box.row >= folded]
    kept = {row: at for at, row in enumerate(telling_rows(spans, mark, window.length_ns, MOST_ROWS))}
    inner = tuple(
        Box(kept[box.row], box.start, box.end, box.name, box.token, box.link, box.count)
        for box in boxes
        if box.row in kept
    )
    notes = [f"{counted(folded, 'frame')} around it"] if folded else []
    left_out = len({row for row, _, _ in spans}) - len(kept)
    notes += [f"{counted(left_out, 'row')} left out"] if left_out else []
    return Lane(_thread_words(thread or {}), inner, "\n".join(notes))


def _thread_words(thread: dict[str, Any]) -> str:
    """Say a thread: `python 4242`, which PyTorch names `thread 4242 (python)`."""
    tid, name = thread.get("tid"), str(thread.get("thread_name") or "")
    named = _NAMED_THREAD.fullmatch(name)
    if named is not None:
        return f"{named[2]} {named[1]}"
    if name and str(tid) in name:
        return name if name != str(tid) else f"thread {tid}"
    return f"{name} {tid}" if name else f"thread {tid}"


def outermost_rows(boxes: Sequence[Box], window: ExcerptWindow, deepest: int) -> int:
    """Return how many rows hold no more than one slice around all others, of those for which there is no room.

    A thread may end inside the excerpt, with the trace.
    """
    first, last = min((box.start for box in boxes), default=0), max((box.end for box in boxes), default=0)
    edge = window.length_ns * EDGE_SHARE
    around = {box.row for box in boxes if box.start <= first + edge and box.end >= last - edge}
    if last - first < window.length_ns * LEAST_PRESENT_SHARE:
        return 0
    return next(row for row in range(len(around) + 1) if row not in around or row >= deepest + 1 - MOST_ROWS)


def thinned(lanes: Sequence[Lane], least: int, most_boxes: int) -> list[Lane]:
    """Put neighbours shorter than `least` together, and longer ones too while there are too many boxes.

    Neighbours of different kinds stay apart until boxes of a few pixels are still too many: otherwise slices that
    alternate would hide ever longer ones beside them.
    """
    wider = [(least << doubled, False) for doubled in range(_DOUBLED)]
    wider += [(least << doubled, True) for doubled in range(1, MOST_NS.bit_length())]
    thin: list[Lane] = []
    for length, mixed in wider:
        thin = [replace(lane, boxes=_merged(lane.boxes, length, mixed=mixed)) for lane in lanes]
        if sum(len(lane.boxes) for lane in thin) <= most_boxes:
            break
    return thin


def _merged(boxes: Sequence[Box], least: int, *, mixed: bool) -> tuple[Box, ...]:
    groups: list[list[Box]] = []
    end = 0
    for box in sorted(boxes, key=lambda box: (box.row, box.start, -box.end, box.token)):
        group = groups[-1] if groups else []
        if (
            group
            and group[0].row == box.row
            and (mixed or _family(group[0].token) == _family(box.token))
            and (len(group) > 1 or group[0].count > 1 or group[0].end - group[0].start < least)
            and box.end - box.start < least
            and box.start - end < least
        ):
            group.append(box)
            end = max(end, box.end)
        else:
            groups.append([box])
            end = box.end
    return tuple(_joined(group) if len(group) > 1 else group[0] for group in groups)


def _joined(group: Sequence[Box]) -> Box:
    """Return one box for several, in the colour of the kind that covers most."""
    first = group[0]
    names = {box.name for box in group}
    covered: dict[str, int] = {}
    for box in group:
        covered[_family(box.token)] = covered.get(_family(box.token), 0) + box.end - box.start
    family = max(covered, key=lambda kind: (covered[kind], kind == _family(first.token)))
    token = next(box.token for box in group if _family(box.token) == family)
    end, count = max(box.end for box in group), sum(box.count for box in group)
    return Box(first.row, first.start, end, first.name if len(names) == 1 else "", token, None, count)


def _family(token: str) -> str:
    return "kernel" if token in KERNEL_BLUES else token
