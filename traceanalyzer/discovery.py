"""From a path to the traces of a run: found by content, ranked by what they say and then by name."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import Ingester
from traceanalyzer.ingest.nsys import NsysIngester
from traceanalyzer.ingest.trace_events import TraceEventIngester

_HEAD_BYTES = 2**20
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31
_RANK_IN_NAME = re.compile(r"(?:rank|worker|proc|process)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def ingesters() -> tuple[Ingester, ...]:
    """Return every ingester, in the order in which they are asked."""
    return (NsysIngester(), TraceEventIngester())


def find_sources(path: Path) -> list[tuple[Path, Ingester]]:
    """Return the trace files of a run, in natural order of their names.

    A folder is searched one level deep; hidden files and files of no known format are passed over. A file that is named
    itself is read by the ingester that knows it. Raises TraceAnalyzerError where nothing can be read.
    """
    if not path.exists():
        raise TraceAnalyzerError("no such file or folder", path, "give a trace file, or the folder that holds a run")
    if path.is_file() or _ingester_of(path) is not None:
        ingester = _ingester_of(path)
        if ingester is None:
            raise TraceAnalyzerError(*_unknown(path))
        return [(path, ingester)]
    found = [(file, ingester) for file in _candidates(path) if (ingester := _ingester_of(file)) is not None]
    if not found:
        raise TraceAnalyzerError(
            "no traces in this folder",
            path,
            "expected PyTorch profiler JSON (.json, .json.gz) or Nsight Systems SQLite",
        )
    return sorted(found, key=lambda item: natural_key(item[0].relative_to(path).as_posix()))


def _candidates(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_file() or _ingester_of(entry) is not None:
            yield entry
        elif entry.is_dir():
            yield from (file for file in entry.iterdir() if not file.name.startswith(".") and file.is_file())


def _ingester_of(path: Path) -> Ingester | None:
    head = b"" if path.is_dir() else read_head(path)
    return next((ingester for ingester in ingesters() if ingester.sniff(head, path)), None)


def read_head(path: Path) -> bytes:
    """Return a file's first bytes, decompressed where it is gzip."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise TraceAnalyzerError(f"cannot be read: {error.strerror}", path, "check the file's permissions") from error
    if not head.startswith(_GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(_GZIP_WINDOW).decompress(head, _HEAD_BYTES)
    except zlib.error:
        return b""


def _unknown(path: Path) -> tuple[str, Path, str]:
    if path.stat().st_size == 0:
        return "the file is empty", path, "the profiler wrote nothing: look for a .tmp file beside it"
    return (
        "is no trace that traceanalyzer reads",
        path,
        "expected PyTorch profiler or Chrome trace JSON (plain or gzip), or an Nsight Systems SQLite export",
    )


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts rank10 after rank2."""
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"(\d+)", name) if part]


def ranks_from_names(names: Sequence[str]) -> list[int | None]:
    """Return the ranks that names tell: a number after rank or worker, or the one number they differ by."""
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
