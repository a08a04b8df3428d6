"""Finds the trace files of a run by their content, and their ranks by their names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import Ingester
from traceanalyzer.ingest.nsys import NsysIngester
from traceanalyzer.ingest.trace_events import TraceEventIngester
from traceanalyzer.ingest.trace_events.stream import GZIP_MAGIC, inflated_up_to_damage

_HEAD_BYTES = 2**20
# Files whose heads are read at once.
_READERS = 16
_RANK_IN_NAME = re.compile(r"(?:rank|worker|proc|process)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_PACKED = "compressed in another way than gzip"
_UNPACK = "decompress it first"
# Other files that profilers write, by the end of their name: what they are, and how to get a trace.
_OTHER_FORMATS = (
    (r"\.ncu-rep", "an Nsight Compute report of single kernels", "record the job with nsys or torch.profiler"),
    (r"\.(?:pftrace|perfetto-trace)", "a binary Perfetto trace", "convert it: traceconv json {} trace.json"),
    (r"\.(?:zip|tar|tgz|tar\.\w+)", "an archive", "unpack it and give the folder"),
    (r"\.(?:zst|xz|bz2|lz4|7z)", _PACKED, _UNPACK),
    (r"\.(?:pickle|pkl)", "a pickle, such as a CUDA memory snapshot", "record the job with torch.profiler"),
)
# The same by their first bytes, whatever they are called.
_OTHER_CONTENTS = (
    (b"\xfd7zXZ\0", _PACKED, _UNPACK),
    (b"(\xb5/\xfd", _PACKED, _UNPACK),
    (b"BZh", _PACKED, _UNPACK),
    (b"\x04\x22M\x18", _PACKED, _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", _PACKED, _UNPACK),
    (b"PK\x03\x04", "an archive", "unpack it and give the folder"),
    (b"\xff\xfe", "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"{\0", "text in UTF-16", "convert it: iconv -f UTF-16LE -t UTF-8"),
    (b"\0{", "text in UTF-16", "convert it: iconv -f UTF-16BE -t UTF-8"),
    (b"[\0", "text in UTF-16", "convert it: iconv -f UTF-16LE -t UTF-8"),
    (b"\0[", "text in UTF-16", "convert it: iconv -f UTF-16BE -t UTF-8"),
)
_EXECUTION_TRACE = re.compile(rb'^\s*\{\s*"schema"\s*:\s*"[\d.]+-chakra')
_NAMED_LIKE_A_TRACE = re.compile(
    r"\.(?:json|sqlite)(?:\.(?:gz|zst|xz|bz2|lz4|7z|zip))?(?:\.tmp)?$|\.pftrace$|\.perfetto-trace$", re.IGNORECASE
)
_BEGINS_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")


def ingesters() -> tuple[Ingester, ...]:
    """Return every ingester, in the order in which they look at a file."""
    return (NsysIngester(), TraceEventIngester())


@dataclass(frozen=True)
class Discovery:
    """The trace files of a run, each with its ingester, and an error for each file that should be one and is not."""

    sources: tuple[tuple[Path, Ingester], ...]  # in natural order of their names
    unreadable: tuple[TraceAnalyzerError, ...] = ()


def discover(path: Path) -> Discovery:
    """Return the trace files of a run, a file or a folder, which is searched one level deep.

    Hidden files and files of unknown formats are skipped; those that are named like a trace and cannot be read as one
    are listed. Raises TraceAnalyzerError where no file can be read.
    """
    if not path.exists():
        raise TraceAnalyzerError("no such file or folder", path, "give a trace file, or the folder that holds a run")
    if path.is_file() or _ingester_of(path) is not None:
        ingester = _ingester_of(path)
        if ingester is None:
            raise TraceAnalyzerError(*_unknown(path))
        return Discovery(((path, ingester),))
    folders, files = _entries(path)
    # A disk far away answers many questions at once as fast as one.
    with ThreadPoolExecutor(_READERS) as pool:
        looks = list(pool.map(_look, files))
    readable = [(file, ingester) for file, (ingester, _) in zip(files, looks, strict=True) if ingester is not None]
    sources = [*folders, *readable]
    if not sources:
        raise TraceAnalyzerError("no traces in this folder", path, _hint_for_folder(files))
    return Discovery(
        tuple(sorted(sources, key=lambda item: natural_key(item[0].relative_to(path).as_posix()))),
        tuple(error for _, error in looks if error is not None),
    )


def find_sources(path: Path) -> list[tuple[Path, Ingester]]:
    """Return the trace files of a run, each with its ingester: see `discover`."""
    return list(discover(path).sources)


def _entries(folder: Path) -> tuple[list[tuple[Path, Ingester]], list[Path]]:
    """Return the folders in a folder that are traces, and the files in it and in its other folders, sorted."""
    folders: list[tuple[Path, Ingester]] = []
    files: list[Path] = []
    for entry in folder.iterdir():
        if _hidden(entry):
            continue
        if entry.is_file():
            files.append(entry)
        elif entry.is_dir():
            ingester = _ingester_of(entry)
            if ingester is not None:
                folders.append((entry, ingester))
            else:
                files += [file for file in entry.iterdir() if not _hidden(file) and file.is_file()]
    return folders, sorted(files)


def _look(file: Path) -> tuple[Ingester | None, TraceAnalyzerError | None]:
    """Return the ingester of a file, or an error where it is named like a trace and cannot be read as one."""
    is_named = _NAMED_LIKE_A_TRACE.search(file.name) is not None
    try:
        # Some of the system's files seem empty and block their readers.
        head = b"" if file.stat().st_size == 0 else read_head(file)
        ingester = _ingester_of_head(head, file) if head else None
    except TraceAnalyzerError as error:
        return None, error if is_named else None
    is_missed = is_named and ingester is None and not _is_other_json(head, file)
    return ingester, TraceAnalyzerError(*_unknown(file)) if is_missed else None


def _is_other_json(head: bytes, file: Path) -> bool:
    """Return whether a file holds JSON that is no trace, such as a job's configuration."""
    return _BEGINS_JSON.match(head) is not None and _other_format(file) is None


def _hidden(path: Path) -> bool:
    return path.name.startswith(".")


def _ingester_of(path: Path) -> Ingester | None:
    return _ingester_of_head(b"" if path.is_dir() else read_head(path), path)


def _ingester_of_head(head: bytes, path: Path) -> Ingester | None:
    return next((ingester for ingester in ingesters() if ingester.sniff(head, path)), None)


def read_head(path: Path) -> bytes:
    """Return a file's first bytes, decompressed where it is gzip."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise TraceAnalyzerError(f"cannot be read: {error.strerror}", path, "check the file's permissions") from error
    if not head.startswith(GZIP_MAGIC):
        return head
    return inflated_up_to_damage(head, _HEAD_BYTES)


def _unknown(path: Path) -> tuple[str, Path, str]:
    if path.stat().st_size == 0:
        return "the file is empty", path, "the profiler wrote nothing: look for a .tmp file beside it"
    other = _other_format(path)
    if other is not None:
        what, hint = other
        return f"is {what}, and no trace that traceanalyzer reads", path, hint
    return (
        "is no trace that traceanalyzer reads",
        path,
        "expected PyTorch profiler or Chrome trace JSON (plain or gzip), or an Nsight Systems SQLite export",
    )


def _other_format(path: Path) -> tuple[str, str] | None:
    """Return what a file of another tool is, and what to do about it; None for unknown files."""
    for ending, what, hint in _OTHER_FORMATS:
        if re.search(f"{ending}$", path.name, re.IGNORECASE):
            return what, hint.format(path.name)
    head = read_head(path)
    for first_bytes, what, hint in _OTHER_CONTENTS:
        if head.startswith(first_bytes):
            return what, hint
    if _EXECUTION_TRACE.search(head):
        return "an execution trace of PyTorch without times on the device", "record the job with torch.profiler"
    return None


def _hint_for_folder(files: Sequence[Path]) -> str:
    full = (file for file in files if file.stat().st_size > 0)
    others = [(file.name, other) for file in full if (other := _other_format(file)) is not None]
    if not others:
        return "expected PyTorch profiler JSON (.json, .json.gz) or Nsight Systems SQLite"
    name, (what, hint) = others[0]
    return f"{name} is {what}: {hint}"


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts rank10 after rank2."""
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"(\d+)", name) if part]


def ranks_from_names(names: Sequence[str]) -> list[int | None]:
    """Return the ranks in file names: the number after rank or worker, or the only number in which names differ."""
    ranks = [int(match[1]) if (match := _RANK_IN_NAME.search(name)) else None for name in names]
    families: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        if ranks[index] is None:
            families[tuple(_NUMBER.split(name))].append(index)
    for members in families.values():
        numbers = [_NUMBER.findall(names[index]) for index in members]
        varying = [place for place, values in enumerate(zip(*numbers, strict=True)) if len(set(values)) > 1]
        if len(members) > 1 and len(varying) == 1:
            for index, values in zip(members, numbers, strict=True):
                ranks[index] = int(values[varying[0]])
    return ranks
