"""What a snapshot of PyTorch's allocator says (`torch.cuda.memory._dump_snapshot`): reserved, used, wasted, the peak.

It is read without running anything in it.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import pickletools
import resource
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.packed.streams import BROKEN, COPY_BYTES, UnpackBudget, UnpackLimits, opened
from traceanalyzer.process import started_program

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
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _number(value: Any) -> int:
    return value if _is_number(value) else 0


def _text(value: Any) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else "??"


MAX_BYTES = 8 * 2**30
# A pickle may name one list many times: a small file can so hold more blocks than any memory has.
MAX_BLOCKS = 50_000_000
# A byte of a pickle makes an empty dictionary, with its place in a list the largest of what a byte can make.
_MOST_MEMORY_A_BYTE = 128
# Texts as PyTorch writes them become 5 times as large in memory; nothing but empty lists would become 25 times so.
_MOST_MEMORY_A_CHARACTER = 12
_MOST_DIGITS = 100
_SPARE_BYTES = 256 * 2**20
# A snapshot of PyTorch takes a fifth of a second a MB.
_LEAST_CPU_S = 5
_BYTES_A_CPU_S = 100_000
_HINT = "a snapshot holds only numbers, texts, lists and dictionaries; this file would run code, so it is not read"
# What builds objects out of names. A snapshot needs none of it.
_REFUSED = frozenset(
    {
        "GLOBAL",
        "STACK_GLOBAL",
        "INST",
        "OBJ",
        "NEWOBJ",
        "NEWOBJ_EX",
        "REDUCE",
        "BUILD",
        "EXT1",
        "EXT2",
        "EXT4",
        "PERSID",
        "BINPERSID",
    }
)


class _Refused(Exception):
    """A pickle asks for a name."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise _Refused

    def persistent_load(self, pid: Any) -> NoReturn:
        raise _Refused


_IN_A_PROCESS = (
    "import sys; sys.path = sys.argv[2:]; from traceanalyzer.answers import memory_snapshot as snapshot; "
    "snapshot.write_totals(sys.argv[1])"
)


def totals_of_file(path: Path) -> list[SnapshotTotals]:
    """Return the totals of each device in a snapshot, which a process of its own reads.

    Reading a pickle can take more time or more stack than its size lets expect, and Python can stop neither. Raises
    TraceAnalyzerError as `read_snapshot` does, and where the process ends at its limit.
    """
    with started_program([sys.executable, "-c", _IN_A_PROCESS, str(path), *sys.path]) as reader:
        answer = reader.communicate()[0]
    if reader.returncode:
        raise TraceAnalyzerError(
            "asks for more work than a snapshot of its size needs", path, "write the snapshot again"
        )
    said = json.loads(answer)
    if isinstance(said, dict):
        raise TraceAnalyzerError(said["what"], path, said["hint"])
    return [SnapshotTotals(**totals) for totals in said]


def write_totals(name: str) -> None:
    """Write the totals of a snapshot, or what is wrong with it, as JSON: the program of `totals_of_file`."""
    path = Path(name)
    try:
        _limit_work(path.stat().st_size)
        said: Any = [asdict(totals) for totals in snapshot_totals(read_snapshot(path))]
    except TraceAnalyzerError as error:
        said = {"what": error.what, "hint": error.hint}
    json.dump(said, sys.stdout)


def _limit_work(size_bytes: int) -> None:
    """Let the system end this process where it takes more than its share of time; it then leaves no core file."""
    cpu_s = _LEAST_CPU_S + size_bytes // _BYTES_A_CPU_S
    with suppress(OSError, ValueError):  # the caller's limit is lower
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read_snapshot(path: Path) -> dict[str, Any]:
    """Return the dictionary in a snapshot: a pickle, or the same as JSON.

    Nothing that a pickle names is ever looked up. Raises TraceAnalyzerError where the file is none, is damaged, asks
    for names, or is larger than `MAX_BYTES`.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TraceAnalyzerError(f"is larger than {MAX_BYTES:,} bytes", path)
        content = _unpacked(path)
    except OSError as error:
        raise TraceAnalyzerError(f"cannot be read: {error.strerror or error}", path) from error
    found = _json(content, path) if content.lstrip()[:1] == b"{" else _pickle(content, path)
    if not isinstance(found, dict) or not isinstance(found.get("segments"), list):
        raise TraceAnalyzerError("is no memory snapshot: it has no list of segments", path)
    _check_counts(found, len(content), path)
    return found


def _unpacked(path: Path) -> bytes:
    """Return the bytes of a file, which may be compressed."""
    content = bytearray()
    budget = UnpackBudget(UnpackLimits(total_bytes=MAX_BYTES), path)
    with closing(opened(path)) as stream:
        counted = budget.counting(stream)
        try:
            while block := counted.read(COPY_BYTES):
                content += block
        except BROKEN as error:
            hint = "copy it again: the stream was cut or damaged"
            raise TraceAnalyzerError("is compressed, and cannot be unpacked to its end", path, hint) from error
    return bytes(content)


def _check_counts(snapshot: dict[str, Any], size_bytes: int, path: Path) -> None:
    """Raise TraceAnalyzerError where lists hold more than the file has bytes: work is bounded by these."""
    blocks = sum(
        len(blocks) for s in snapshot["segments"] if isinstance(s, dict) and isinstance(blocks := s.get("blocks"), list)
    )
    traces = snapshot.get("device_traces")
    events = sum(len(entries) for entries in traces if isinstance(entries, list)) if isinstance(traces, list) else 0
    for count, noun in ((blocks, "blocks"), (events, "events")):
        if count > min(MAX_BLOCKS, size_bytes):
            raise TraceAnalyzerError(f"lists {count:,} {noun}: the same ones again and again", path)


def _json(content: bytes, path: Path) -> Any:
    try:
        with _address_space(_MOST_MEMORY_A_CHARACTER * len(content) + _SPARE_BYTES):
            return json.loads(content, parse_int=_integer)
    except MemoryError as error:
        raise TraceAnalyzerError("asks for more memory than a snapshot of its size needs", path) from error
    except (ValueError, RecursionError):
        return None


def _integer(text: str) -> int | float:
    """Return an integer; infinity for one of more digits than Python reads: it costs itself, not the snapshot."""
    return int(text) if len(text) <= _MOST_DIGITS else math.inf


def _pickle(content: bytes, path: Path) -> Any:
    try:
        with _address_space(_MOST_MEMORY_A_BYTE * len(content) + _SPARE_BYTES):
            return _Plain(io.BytesIO(content)).load()
    except _Refused:
        raise TraceAnalyzerError(f"has the opcode {_first_refused(content)}", path, _HINT) from None
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        refused = _first_refused(content)
        if refused is not None:
            raise TraceAnalyzerError(f"has the opcode {refused}", path, _HINT) from error
        raise TraceAnalyzerError("is no pickle, or a damaged one", path, "write the snapshot again") from error
    except (MemoryError, OverflowError, RecursionError) as error:
        raise TraceAnalyzerError("asks for more memory than a snapshot of its size needs", path) from error


@contextmanager
def _address_space(more_bytes: int) -> Iterator[None]:
    """Let the process take so much more memory, where the system can hold it to that.

    A pickle of ten bytes can number an object 2**32 - 1, and the unpickler makes room for all numbers up to it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + more_bytes
        if soft == resource.RLIM_INFINITY or limit < soft:
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (OSError, ValueError):
        pass
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _first_refused(content: bytes) -> str | None:
    try:
        return next((opcode.name for opcode, _, _ in pickletools.genops(content) if opcode.name in _REFUSED), None)
    except ValueError:
        return None
