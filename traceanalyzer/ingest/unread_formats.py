"""What a file is by its first bytes: traces of other tools that no ingester reads, and what to do about them.

What is read is never looked up: a row of a format that is read speaks of files in which no work is found.
"""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import quote

SQLITE_HEAD = b"SQLite format 3\x00"
# What writes a table out of a report of Nsight Compute, which only NVIDIA's programs read (the extra `ncu` has one).
EXPORT_COUNTERS = "ncu --import {} --csv --page raw > report.csv"
READ_COUNTERS = (
    f"write its counters as a table: {EXPORT_COUNTERS}; or pip install 'gpu-traceanalyzer[ncu]', which reads reports"
)
_RECORD_TORCH = "record the job with torch.profiler"
_SHOWN_TABLES = 4


@dataclass(frozen=True)
class UnreadFormat:
    """A format by what shows it: names of processes of a JSON trace, or names of tables of a database."""

    what: str
    shown_by: re.Pattern[str]
    hint: str


# Processes of JSON traces whose slices are work of a device.
_DEVICE_PROCESSES = (
    UnreadFormat(
        "JSON of rpd2tracing (AMD's rocmProfileData)",
        re.compile(r"^GPU\d+$"),
        "no kernel and no copy is drawn in it; give the .rpd file itself, or record with rocprofv3 --runtime-trace",
    ),
    UnreadFormat(
        "a trace_view.json of Ascend's profiler",
        re.compile(r"^(Ascend Hardware|HCCL)\b"),
        "its tasks are not there; record with NPU activity, and give the trace_view.json as the profiler wrote it",
    ),
    UnreadFormat(
        "a timeline of TensorFlow 1",
        re.compile(r"(/(device:)?gpu:\d+(/stream:\S+)? Compute\b|/gpu:\d+/(memcpy|stream:\S+)\b)", re.IGNORECASE),
        "its device has no slices; record again with RunOptions.FULL_TRACE, or with the profiler of TensorFlow 2",
    ),
    UnreadFormat(
        "a Chrome trace of JAX or TensorFlow",
        re.compile(r"/device:[GT]PU:\d+"),
        "record with nsys profile -t cuda,nvtx",
    ),
    UnreadFormat(
        "a report of Nsight Systems that a script turned into a Chrome trace",
        re.compile(r"^(\S.* )?Device \d+$"),
        "give the export that it was made of: nsys export --type sqlite report.nsys-rep",
    ),
    UnreadFormat(
        "a recording of nvprof that a script turned into a Chrome trace",
        re.compile(r"^\[\d+:\d+\]"),
        "record the job with nsys profile -t cuda,nvtx",
    ),
    UnreadFormat(
        "a Chrome trace of another accelerator",
        re.compile(r"\b(HPU|IPU|MLU|MUSA|Gaudi)\b|\bNeuron ?(Core|Device)"),
        "record the job with torch.profiler in the PyTorch of its vendor",
    ),
    UnreadFormat(
        "what Triton's Proton measures inside of kernels",
        re.compile(r" Core\d+ CTA\d+\b"),
        'record when kernels run: proton.start(NAME, data="trace"), without the backend “instrumentation”',
    ),
    UnreadFormat(
        "a Chrome trace of another tool",
        re.compile(r"\b(GPU|NPU|TPU|XPU|CUDA|HIP|ROCm|Level Zero|OpenCL)\b|^(GPU|NPU)[ _#:-]?\d*\b|/gpu:\d|^gpu[/(]\d"),
        f"{_RECORD_TORCH}, or with nsys profile -t cuda,nvtx",
    ),
)
# Categories under which other tools write the work of a GPU.
_DEVICE_CATEGORY = re.compile(r"(?i)^(gpu|cuda|hip|npu)?[ _.-]?kernels?$|^(gpu|npu)([ _.-].*)?$")
_DATABASES = (
    UnreadFormat(
        "an export of nsys without its tables of events and strings, as nsys leaves it where it is interrupted",
        re.compile(r"^(ENUM_NSYS|META_DATA|TARGET_INFO)_"),
        "export the report again, with all tables: nsys export --type sqlite --force-overwrite true REPORT",
    ),
    UnreadFormat(
        "a database of rocprofv3 or rocmProfileData that lacks the tables of kernels and calls",
        re.compile(r"^rocpd_"),
        "record it again: rocprofv3 --runtime-trace -- ./program",
    ),
    UnreadFormat(
        "an analysis of ROCm Compute Profiler, without times",
        re.compile(r"^compute_\w+"),
        "record the job with rocprofv3 --runtime-trace",
    ),
    UnreadFormat(
        "a database of rocprof 1",
        re.compile(r"^(KERN|HIP|HSA)$"),
        "give the JSON that rocprof writes beside it, or record with rocprofv3 --runtime-trace",
    ),
    UnreadFormat(
        "a database of Ascend's profiler",
        re.compile(r"^(STRING_IDS|CANN_API|TASK)$"),
        "give the trace_view.json that the profiler writes beside it, or export one: msprof --export=on",
    ),
    UnreadFormat("a database of nvprof", re.compile(r"^StringTable$"), "record the job with nsys profile -t cuda,nvtx"),
)


def unread_device_work(processes: Iterable[str | None], categories: Iterable[str | None]) -> tuple[str, str] | None:
    """Return what a JSON trace is whose slices are work of a device that was not read as its work, and what to do.

    `processes` and `categories` are the names of the processes and the categories of its slices; None: no name speaks
    of a device.
    """
    names = sorted({name for name in processes if name})
    for known in _DEVICE_PROCESSES:
        for name in names:
            if known.shown_by.search(name):
                return _unread(known, f"process “{name}”")
    for category in sorted({name for name in categories if name}):
        if _DEVICE_CATEGORY.search(category):
            return _unread(_DEVICE_PROCESSES[-1], f"category “{category}”")
    return None


def _unread(known: UnreadFormat, shown_by: str) -> tuple[str, str]:
    return f"is {known.what}, in which no work of a device ({shown_by}) could be read", known.hint


def unread_database(path: Path, head: bytes) -> tuple[str, str] | None:
    """Return what an SQLite database of another tool is, and what to do; `head` are its first bytes, unpacked."""
    if not head.startswith(SQLITE_HEAD):
        return None
    names = tables_of(path, head)
    if names is None:
        return None
    for known in _DATABASES:
        if any(known.shown_by.search(name) for name in names):
            return known.what, known.hint
    shown = ", ".join(names[:_SHOWN_TABLES]) + ", …" * (len(names) > _SHOWN_TABLES)
    holds = f"with the tables {shown}" if names else "without tables"
    return (
        f"an SQLite database {holds}, of which none is of nsys",
        "export the report: nsys export --type sqlite REPORT",
    )


def tables_of(path: Path, head: bytes) -> list[str] | None:
    """Return the names in a database, also a packed one, of which the first bytes count; None: they cannot be read."""
    with path.open("rb") as file:
        is_plain = file.read(len(SQLITE_HEAD)) == SQLITE_HEAD
    if is_plain:
        return _names_in(path)
    with tempfile.TemporaryDirectory() as scratch:
        beginning = Path(scratch) / "beginning"
        beginning.write_bytes(head)
        return _names_in(beginning)


def _names_in(path: Path) -> list[str] | None:
    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            return [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type <> 'index'")]
    except sqlite3.DatabaseError:
        return None


# What came in the place of a file, or around it, on its way from a server or through a form or an editor.
_UNWRAP = "cut away what stands ahead of the first {{ and behind the last }}"
_WRAPPED = (
    (
        re.compile(rb"^\s*<(?:!doctype|html)\b", re.IGNORECASE),
        "a web page",
        "download the file itself: a server sends a page where a file is not there, or a login is needed",
    ),
    (
        re.compile(rb"^\s*<\?xml|^\s*<Error>"),
        "XML, such as an error that an object store answers",
        "look at what it says, and download the file again",
    ),
    (
        re.compile(rb"^version https://git-lfs"),
        "a pointer of Git LFS in the place of the file",
        "fetch the file: git lfs pull",
    ),
    (re.compile(rb"^HTTP/[\d.]+ \d"), "what a web server answered, with its headers", _UNWRAP),
    (
        re.compile(rb"^--[^\r\n]{2,90}\r?\nContent-Disposition", re.IGNORECASE),
        "a form as a browser sends it, with the file in it",
        _UNWRAP,
    ),
    (
        re.compile(rb"^(?:[0-9a-fA-F]{1,8}\r\n[\[{]|\)\]\}')"),
        "an answer of a server in parts, as the network carries it",
        "download the file again, as a file",
    ),
    (re.compile(rb"^(?:(?:var|let|const) )?[A-Za-z_$][\w.$]* ?[=(] ?[\[{]"), "JSON in the text of a program", _UNWRAP),
    (re.compile(rb"^```"), "JSON in a text with marks of Markdown", _UNWRAP),
    (re.compile(rb'^"\s*\{\\+"'), "JSON as one text in quotes", "write what is in the quotes: jq -r . {} > trace.json"),
    (
        re.compile(rb"^(?:data:[\w/+.-]+;base64,|H4sI|eyJ)[A-Za-z0-9+/\r\n]{60}"),
        "a file in letters (base64)",
        "decode it: base64 -d, without what stands ahead of a comma",
    ),
    (re.compile(rb"^[\[{] ?'[^'\n]{1,80}':"), "an object as Python prints it, and no JSON", "write it with json.dump"),
    (re.compile(rb"^\0{64}"), "zeros at its beginning: what wrote or copied it was interrupted", "copy it again"),
)
_PERFETTO = ("a binary Perfetto trace", "convert it: traceconv json {} converted.json")
_MOST_PACKETS = 50
# What a packet of Perfetto has, and no plane of XLA: the time, its writer, its sequence.
_OF_PACKETS, _OF_PLANES = {3, 8, 10}, 6


def other_content(head: bytes) -> tuple[str, str] | None:
    """Return what begins with some bytes that is no trace in any format that is read, and what to do about it."""
    if is_perfetto(head):
        return _PERFETTO
    return next(((what, hint) for begins, what, hint in _WRAPPED if begins.search(head)), None)


def is_perfetto(head: bytes) -> bool:
    """Return whether bytes begin a binary trace of Perfetto: a row of packets, of which nothing else is in the file."""
    from traceanalyzer.ingest.xla.wire import BLOCK, DamageError, fields

    view, numbers = memoryview(head), set[int]()
    try:
        for packet in islice(fields(view, 0, len(head)), _MOST_PACKETS):
            if (packet.number, packet.wire) != (1, BLOCK):
                return False
            try:
                numbers |= {field.number for field in fields(view, packet.value, packet.value + packet.length)}
            except DamageError:
                return False
    except DamageError as damage:  # the last packet is cut where the first bytes of the file end
        if not damage.is_cut:
            return False
    return bool(numbers & _OF_PACKETS) and max(numbers) > _OF_PLANES
