"""Finds the trace files of a run by their content, and their ranks by their names."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from os.path import commonpath, relpath
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import Ingester
from traceanalyzer.ingest.nsys import NsysIngester
from traceanalyzer.ingest.packed import ArchiveIngester, CompressedIngester
from traceanalyzer.ingest.trace_events import TraceEventIngester

_HEAD_BYTES = 2**20
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31
_RANK_IN_NAME = re.compile(r"(?:rank|worker|proc|process)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
# Other files that profilers write, by the end of their name: what they are, and how to get a trace.
_OTHER_FORMATS = (
    (r"\.ncu-rep", "an Nsight Compute report of single kernels", "record the job with nsys or torch.profiler"),
    (r"\.(?:pftrace|perfetto-trace)", "a binary Perfetto trace", "convert it: traceconv json {} trace.json"),
    (r"\.(?:zip|tar|tgz|tar\.\w+)", "an archive", "give it by itself; where that fails, unpack it and give the folder"),
    (r"\.(?:zst|xz|bz2|lz4|7z)", "compressed in another way than gzip", "decompress it first"),
    (r"\.(?:pickle|pkl)", "a pickle, such as a CUDA memory snapshot", "record the job with torch.profiler"),
)
_EXECUTION_TRACE = re.compile(rb'^\s*\{\s*"schema"\s*:\s*"[\d.]+-chakra')
_NAMED_LIKE_A_TRACE = re.compile(r"\.(?:json|json\.gz|sqlite)(?:\.tmp)?$")


def ingesters() -> tuple[Ingester, ...]:
    """Return every ingester of a file in a folder, in the order in which they look at it."""
    plain = (NsysIngester(), TraceEventIngester())
    return (*plain, CompressedIngester(plain))


@dataclass(frozen=True)
class RunSources:
    """The trace files of a run, each with its ingester."""

    root: Path  # what the run is called after, and where its store lies: the one input, or the folder of several
    sources: tuple[tuple[Path, Ingester], ...]
    unreadable: tuple[TraceAnalyzerError, ...]  # files that are named like traces and cannot be read as one

    def name(self, source: Path) -> str:
        """Return what a trace file is called in the run: its path below the run's folder."""
        is_file = any(source == self.root for source, _ in self.sources)
        return Path(relpath(source, self.root.parent if is_file or not self.root.is_dir() else self.root)).as_posix()


def find_run(inputs: Sequence[Path]) -> RunSources:
    """Return what one or several inputs hold: trace files, folders and archives of them, patterns (`run/*.json`).

    A file that several inputs name counts once. Raises TraceAnalyzerError where an input holds no trace.
    """
    paths = [path for given in inputs for path in _expanded(given)]
    sources: dict[str, tuple[Path, Ingester]] = {}
    for path in paths:
        for source, ingester in find_sources(path):
            sources.setdefault(str(source.resolve()), (source, ingester))
    unreadable = {str(error): error for path in paths for error in find_unreadable(path)}
    return RunSources(_root_of(paths), tuple(sources.values()), tuple(unreadable.values()))


def _expanded(given: Path) -> list[Path]:
    """Return the files that a pattern matches, in natural order of their names; a name that exists is no pattern."""
    if given.exists() or not has_magic(str(given)):
        return [given]
    matches = sorted(glob(str(given), recursive=True), key=natural_key)  # noqa: PTH207  a pattern may be absolute
    if not matches:
        raise TraceAnalyzerError("no file matches", given, "give trace files, or the folder that holds a run")
    return [Path(match) for match in matches]


def _root_of(paths: Sequence[Path]) -> Path:
    """Return the one input; of several the folder that all lie in, unless it is far above: then that of the first."""
    if len(paths) == 1:
        return paths[0]
    common = Path(commonpath([path.absolute().parent for path in paths]))
    near = all(common in path.absolute().parents[:2] for path in paths)
    return Path(relpath(common)) if near else paths[0].parent


def find_sources(path: Path) -> list[tuple[Path, Ingester]]:
    """Return the trace files of a run, each with its ingester, in natural order of their names.

    A folder is searched one level deep. Hidden files and files of unknown formats are skipped; `find_unreadable`
    returns those that look like traces by their name. Raises TraceAnalyzerError where no file can be read.
    """
    if not path.exists():
        raise TraceAnalyzerError("no such file or folder", path, "give a trace file, or the folder that holds a run")
    if path.is_file() or _ingester_of(path) is not None:
        ingester = _ingester_of(path) or _archive_ingester_of(path)
        if ingester is None:
            raise TraceAnalyzerError(*_unknown(path))
        return [(path, ingester)]
    found = [(file, ingester) for file in _candidates(path) if (ingester := _ingester_if_readable(file)) is not None]
    if not found:
        raise TraceAnalyzerError("no traces in this folder", path, _hint_for_folder(path))
    return sorted(found, key=lambda item: natural_key(item[0].relative_to(path).as_posix()))


def find_unreadable(path: Path) -> list[TraceAnalyzerError]:
    """Return an error for each file of a folder that is named like a trace and cannot be read as a trace."""
    if not path.is_dir() or _ingester_of(path) is not None:
        return []
    wrong: list[TraceAnalyzerError] = []
    for file in sorted(_files(path)):
        if _NAMED_LIKE_A_TRACE.search(file.name) is None:
            continue
        try:
            if not read_head(file):
                wrong.append(TraceAnalyzerError(*_unknown(file)))
        except TraceAnalyzerError as error:
            wrong.append(error)
    return wrong


def _candidates(folder: Path) -> Iterator[Path]:
    """Return what may be a trace, without empty files: some of the system's seem empty and block their readers."""
    yield from (entry for entry in folder.iterdir() if entry.is_dir() and not _hidden(entry) and _ingester_of(entry))
    yield from (file for file in _files(folder) if file.stat().st_size > 0)


def _files(folder: Path) -> Iterator[Path]:
    """Return the files of a folder and of the folders directly in it."""
    for entry in folder.iterdir():
        if _hidden(entry):
            continue
        if entry.is_file():
            yield entry
        elif entry.is_dir() and _ingester_of(entry) is None:
            yield from (file for file in entry.iterdir() if not _hidden(file) and file.is_file())


def _hidden(path: Path) -> bool:
    return path.name.startswith(".")


def _ingester_if_readable(path: Path) -> Ingester | None:
    try:
        return _ingester_of(path)
    except TraceAnalyzerError:
        return None


def _ingester_of(path: Path) -> Ingester | None:
    head = b"" if path.is_dir() else read_head(path)
    return next((ingester for ingester in ingesters() if ingester.sniff(head, path)), None)


def _archive_ingester_of(path: Path) -> Ingester | None:
    """Return what reads an archive. In a folder none is opened: what is in it may lie beside it, or be no traces."""
    archives = ArchiveIngester(ingesters())
    return archives if archives.sniff(read_head(path), path) else None


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
    if _EXECUTION_TRACE.search(read_head(path)):
        return "an execution trace of PyTorch without times on the device", "record the job with torch.profiler"
    return None


def _hint_for_folder(folder: Path) -> str:
    files = sorted(file for file in _files(folder) if file.stat().st_size > 0)
    others = [(file.name, other) for file in files if (other := _other_format(file)) is not None]
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
