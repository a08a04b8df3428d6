"""What a memory snapshot says: how much is reserved, used, wasted, and how high it went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

_ALLOCATED = "active_allocated"
_INACTIVE = "inactive"
# Frames of these are the framework's, not the program's.
_FRAMEWORK = ("/torch/", "site-packages", "dist-packages", "<frozen", "??")
# No memory is larger, no number of a line higher.
_LARGEST = 2**62
_LONGEST_TEXT = 500


@dataclass(frozen=True)
class SnapshotTotals:
    """Memory of one device in a snapshot, in bytes."""

    device: int
    reserved_bytes: int  # of all segments
    allocated_bytes: int  # in blocks that the program holds
    active_bytes: int  # the same, and what waits for a stream before it can be used again
    releasable_bytes: int  # in segments of which nothing is used: they can be given back
    fragmented_bytes: int  # free blocks in segments of which something is used
    rounding_bytes: int  # in blocks that are larger than what was asked for
    entry_count: int  # events of the history
    before_bytes: int | None  # active before the first event; None: no history
    peak_bytes: int | None  # highest active; None: no history
    peak_entry: int | None  # number of the event after which it was reached, from 0; None: before the first, no history
    unreadable_count: int  # sizes that are no numbers, or of no memory; they are left out
    history_begins_late: bool  # events free what no event allocated: a ring buffer lost the first ones
    lines: Mapping[str, int]  # bytes of used blocks by the program's line that allocated them, the largest first


def snapshot_totals(snapshot: Mapping[str, Any]) -> list[SnapshotTotals]:
    """Return the totals of each device that has segments or a history."""
    segments: dict[int, list[Mapping[str, Any]]] = {}
    for segment in _dicts(snapshot.get("segments")):
        segments.setdefault(_number(segment.get("device")), []).append(segment)
    traces = snapshot.get("device_traces")
    histories = dict(enumerate(traces)) if isinstance(traces, list) else {}
    devices = segments.keys() | {device for device, entries in histories.items() if entries}
    return [
        _of_device(device, segments.get(device, []), list(_dicts(histories.get(device)))) for device in sorted(devices)
    ]


def _of_device(device: int, segments: list[Mapping[str, Any]], entries: list[Mapping[str, Any]]) -> SnapshotTotals:
    blocks = [list(_dicts(segment.get("blocks"))) for segment in segments]
    used = [block for of_segment in blocks for block in of_segment if block.get("state") != _INACTIVE]
    held = [block for block in used if block.get("state") == _ALLOCATED]
    active = sum(_number(block.get("size")) for block in used)
    releasable = fragmented = 0
    for segment, of_segment in zip(segments, blocks, strict=True):
        free = sum(_number(block.get("size")) for block in of_segment if block.get("state") == _INACTIVE)
        if all(block.get("state") == _INACTIVE for block in of_segment):
            releasable += _number(segment.get("total_size"))
        else:
            fragmented += free
    changes = [_change(entry) for entry in entries]
    before = active - sum(changes) if entries else None
    peak, peak_entry = before, None
    level = before or 0
    for number, change in enumerate(changes):
        level += change
        if peak is None or level > peak:
            peak, peak_entry = level, number
    lines: Counter[str] = Counter()
    line_of: dict[int, str] = {}
    for block in used:
        lines[_line(block, line_of)] += _number(block.get("size"))
    return SnapshotTotals(
        device,
        sum(_number(segment.get("total_size")) for segment in segments),
        sum(_number(block.get("size")) for block in held),
        active,
        releasable,
        fragmented,
        sum(map(_rounding, held)),
        len(entries),
        before,
        peak,
        peak_entry,
        _unreadable_count([*segments, *(block for of_segment in blocks for block in of_segment), *entries]),
        _begins_late(entries),
        dict(lines.most_common()),
    )


def _change(entry: Mapping[str, Any]) -> int:
    """Return by how much an event changes what is active: memory is free again once its free is complete."""
    action = entry.get("action")
    size = _number(entry.get("size"))
    return size if action == "alloc" else -size if action == "free_completed" else 0


def _begins_late(entries: list[Mapping[str, Any]]) -> bool:
    known: set[Any] = set()
    for entry in entries:
        address = entry.get("addr")
        if not _is_number(address):
            continue
        if entry.get("action") == "alloc":
            known.add(address)
        elif entry.get("action") == "free_completed" and address not in known:
            return True
    return False


def _line(block: Mapping[str, Any], known: dict[int, str]) -> str:
    """Return the innermost frame of the program itself, as file:line function; older memory has none.

    `known` holds the line of each list of frames that was met, by its identity: many blocks share one list.
    """
    frames, history = block.get("frames"), block.get("history")
    key = id(frames) if frames else id(history)
    if key not in known:
        known[key] = _line_of_frames(frames or next((item.get("frames") for item in _dicts(history)), None))
    return known[key]


def _line_of_frames(frames: Any) -> str:
    frame = None
    for frame in _dicts(frames):
        file = _text(frame.get("filename"))
        if not any(part in file for part in _FRAMEWORK):
            line = frame.get("line")
            return f"{file}:{line if _is_number(line) else None} {_text(frame.get('name'))}"
    return "(no frames: older than the history)" if frame is None else "(only the framework's frames)"


def _rounding(block: Mapping[str, Any]) -> int:
    """Return by how much a block is larger than what was asked for; 0 where that is not known."""
    size, requested = block.get("size"), block.get("requested_size")
    return max(0, size - requested) if _is_number(size) and _is_number(requested) else 0


def _unreadable_count(holders: Iterable[Mapping[str, Any]]) -> int:
    keys = ("size", "total_size", "requested_size")
    return sum(key in holder and not _is_number(holder[key]) for holder in holders for key in keys)


def _dicts(values: Any) -> Iterator[Mapping[str, Any]]:
    return (value for value in values if isinstance(value, dict)) if isinstance(values, list) else iter(())


def _is_number(value: Any) -> TypeGuard[int]:
    # abs() would copy a number of a million digits, which many blocks may share.
    return isinstance(value, int) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST


def _number(value: Any) -> int:
    return value if _is_number(value) else 0


def _text(value: Any) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else "??"
