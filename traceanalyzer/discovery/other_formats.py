"""Files that are no traces: what they are, by their names and first bytes, and how to get a trace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.ingest.ncu import EXPORT
from traceanalyzer.ingest.unread_formats import read_head, unread_database

_PACKED = "compressed in another way than gzip"
_UNPACK = "decompress it first"
_GIVE_ALONE = "give it by itself; where that fails, unpack it and give the folder"
_NCU_REPORT = r"\.ncu-rep"
_EXPORT_SQLITE = "export the report again: nsys export --type sqlite report.nsys-rep"
# Other files that profilers write, by the end of their name: what they are, and how to get a trace.
_OTHER_FORMATS = (
    (
        _NCU_REPORT,
        "an Nsight Compute report of single kernels",
        f"record the job with nsys or torch.profiler, and write the counters as a table beside that trace: {EXPORT}",
    ),
    (
        r"\.xplane\.riegeli",
        "a continuous capture of xprof (Riegeli records)",
        "record one session: jax.profiler.trace(folder) writes the .xplane.pb that is read",
    ),
    (
        r"\.pftrace",
        "a binary Perfetto trace",
        "rocprofv3 writes a database of the same recording where it is left at its default format, and that is exact; "
        "other tools: traceconv json {} trace.json",
    ),
    (r"\.perfetto-trace", "a binary Perfetto trace", "convert it: traceconv json {} trace.json"),
    (r"\.(?:arrow|h5|hdf5?)|_arwdir", "an export of Nsight Systems in another format", _EXPORT_SQLITE),
    (r"\.jsonl|\.json-?lines", "JSON line by line, such as an export of Nsight Systems", _EXPORT_SQLITE),
    (r"\.otf2", "an OTF2 archive", "rocprofv3 writes a database by default: rocprofv3 --runtime-trace -- ./program"),
    (
        r"\.hatchet",
        "a tree of sums by Triton's Proton, without times",
        "record the job with torch.profiler or rocprofv3",
    ),
    (r"\.(?:nvvp|nvprof)", "a profile of nvprof", "record the job with Nsight Systems: nsys profile -t cuda,nvtx"),
    (r"\.(?:zip|tar|tgz|tar\.\w+)", "an archive", _GIVE_ALONE),
    (r"\.(?:zst|xz|bz2|lz4|7z)", _PACKED, _UNPACK),
    (r"\.(?:pickle|pkl)", "a pickle, such as a CUDA memory snapshot", "record the job with torch.profiler"),
)
_PICKLES = (b"\x02", b"\x03", b"\x04", b"\x05")
# The same by their first bytes, whatever they are called.
_OTHER_CONTENTS = (
    (b"\xfd7zXZ\0", _PACKED, _UNPACK),
    (b"(\xb5/\xfd", _PACKED, _UNPACK),
    (b"BZh", _PACKED, _UNPACK),
    (b"\x04\x22M\x18", _PACKED, _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", _PACKED, _UNPACK),
    (b"PK\x03\x04", "an archive", _GIVE_ALONE),
    *(
        (b"\x80" + version, "a pickle, such as a CUDA memory snapshot", "show it: traceanalyzer memory FILE")
        for version in _PICKLES
    ),
    (b"\xff\xfe", "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"{\0", "text in UTF-16", "convert it: iconv -f UTF-16LE -t UTF-8"),
    (b"\0{", "text in UTF-16", "convert it: iconv -f UTF-16BE -t UTF-8"),
    (b"[\0", "text in UTF-16", "convert it: iconv -f UTF-16LE -t UTF-8"),
    (b"\0[", "text in UTF-16", "convert it: iconv -f UTF-16BE -t UTF-8"),
)
# What PyTorch's allocator holds, which `torch.cuda.memory._snapshot` returns and some write as JSON.
_MEMORY_SNAPSHOT = re.compile(
    rb'^\s*\{\s*"(?:segments|device_traces|allocator_settings|external_annotations)"\s*:'
    rb'(?=.{0,65536}?"(?:segment_type|device_traces|allocator_settings|total_size|segments)")',
    re.DOTALL,
)
_EXECUTION_TRACE = re.compile(rb'^\s*\{\s*"schema"\s*:\s*"[\d.]+-chakra')


def unknown(path: Path) -> tuple[str, Path, str]:
    if path.stat().st_size == 0:
        return "the file is empty", path, "the profiler wrote nothing: look for a .tmp file beside it"
    other = other_format(path)
    if other is not None:
        what, hint = other
        return f"is {what}, and no trace that traceanalyzer reads", path, hint
    return (
        "is no trace that traceanalyzer reads",
        path,
        "expected PyTorch profiler or Chrome trace JSON (plain or gzip), an Nsight Systems SQLite export, a database "
        "of rocprofv3, or a profile of XLA (.xplane.pb)",
    )


def is_ncu_report(path: Path) -> bool:
    """Return whether a file is named like a report of Nsight Compute, which only NVIDIA's programs read."""
    return re.search(f"{_NCU_REPORT}$", path.name, re.IGNORECASE) is not None


def other_format(path: Path) -> tuple[str, str] | None:
    """Return what a file of another tool is, and what to do about it; None for unknown files."""
    for ending, what, hint in _OTHER_FORMATS:
        if re.search(f"{ending}$", path.name, re.IGNORECASE):
            return what, hint.format(path.name)
    head = read_head(path)
    for first_bytes, what, hint in _OTHER_CONTENTS:
        if head.startswith(first_bytes):
            return what, hint
    if path.suffix.lower() == ".csv":
        from traceanalyzer.ingest.amd.csv_processes import lacked_columns  # what reads tables takes long to import

        lacked = lacked_columns(head)
        what = f"a table of rocprofv3 that lacks what it is read by ({lacked})"
        return (
            (what, "give the database of the same recording, or let `rocpd convert` write the table")
            if lacked
            else None
        )
    if _EXECUTION_TRACE.search(head):
        return "an execution trace of PyTorch without times on the device", "record the job with torch.profiler"
    return unread_database(path, head)


def memory_snapshot(head: bytes) -> tuple[str, str] | None:
    """Return what a snapshot of memory in JSON is, and what reads it; None for other JSON."""
    if _MEMORY_SNAPSHOT.search(head) is None:
        return None
    return "is a snapshot of GPU memory, not a trace", "traceanalyzer memory FILE shows it"


def hint_for_folder(files: Sequence[Path]) -> str:
    full = (file for file in files if file.stat().st_size > 0)
    others = [(file.name, other) for file in full if (other := other_format(file)) is not None]
    if not others:
        return (
            "expected PyTorch profiler JSON (.json, .json.gz), Nsight Systems SQLite, or a profile of XLA (.xplane.pb)"
        )
    name, (what, hint) = others[0]
    return f"{name} is {what}: {hint}"
