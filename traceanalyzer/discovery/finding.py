"""Finds the trace files of a folder by their content.

Unfinished files and copies, which programs and people leave beside recordings, are known by their names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from itertools import chain, islice
from pathlib import Path, PurePosixPath

from traceanalyzer.discovery.naming import (
    hint_for_folder,
    is_ncu_report,
    memory_snapshot,
    natural_key,
    other_format,
    unknown,
)
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import Ingester
from traceanalyzer.ingest.amd import OneTableIngester
from traceanalyzer.ingest.formats import ingester_of_folders, ingesters
from traceanalyzer.ingest.trace_events.stream import HEAD_BYTES, read_head
from traceanalyzer.ingest.unread_formats import READ_COUNTERS

_PLUGIN = Path("plugins") / "profile"
_PROFILE = re.compile(r"\.xplane\.pb(?:\.gz)?$")
_EVENTS = re.compile(r"\.trace\.json(?:\.gz)?$")
_SAME_AGAIN = re.compile(r"perfetto_trace\.json(?:\.gz)?$")
# The local time at which a recording ended.
_STAMP = re.compile(r"\d{4}(?:_\d\d){5}$")
_RANK = re.compile(r"(?:^|[/_.-])(?:rank|process|worker)[_-]?(\d{1,9})(?=$|[/_.-])", re.IGNORECASE)
_MOST_NAMED = 5
# So many files further down are looked at where a folder holds no trace.
_MOST_DEEPER = 500


def newest_sessions(folder: Path) -> tuple[tuple[Path, ...], tuple[TraceAnalyzerError, ...]]:
    """Return the newest recording below a folder of logs, and one note of the others; other folders as they are.

    Processes that record into folders or sessions of their own, named after their rank, are parts of one recording.
    """
    sessions = _sessions(folder)
    if not sessions:
        return (folder,), ()
    by_rank: dict[str, list[Path]] = {}
    for session in sessions:
        found = _RANK.search(session.relative_to(folder.parent).as_posix())
        by_rank.setdefault(found[1] if found else "", []).append(session)
    newest = {rank: max(recorded, key=_age) for rank, recorded in by_rank.items()}
    read = tuple(sorted(newest.values(), key=lambda session: natural_key(session.as_posix())))
    others = sorted((session for session in sessions if session not in read), key=_age, reverse=True)
    if not others:
        return read, ()
    names = [other.relative_to(folder).as_posix() for other in others[:_MOST_NAMED]]
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    which = f"the newest is read, {read[0].name}" if len(read) == 1 else "the newest of each rank is read"
    what = f"holds {len(sessions)} recordings; {which}, and not {', '.join(names)}{more}"
    return read, (TraceAnalyzerError(what, folder, "give the folder of another recording to read it"),)


def _sessions(folder: Path) -> list[Path]:
    """Return the folders of recordings; Keras keeps those of training and validation apart."""
    if folder.name == "profile" and folder.parent.name == "plugins":
        plugins = [folder]
    elif folder.name == "plugins":
        plugins = [folder / "profile"]
    else:
        plugins = [folder / _PLUGIN, *(entry / _PLUGIN for entry in folder.iterdir() if entry.is_dir())]
    return [
        session
        for plugin in plugins
        if plugin.is_dir()
        for session in plugin.iterdir()
        if session.is_dir() and any(_holds_events(file) for file in session.iterdir())
    ]


def _holds_events(file: Path) -> bool:
    return bool(_PROFILE.search(file.name) or _EVENTS.search(file.name) or _SAME_AGAIN.match(file.name))


def _age(session: Path) -> tuple[str, float, list[tuple[int, int, str]]]:
    """Return a key by which later recordings come later: the time in the name, else that of the last file."""
    last = max((file.stat().st_mtime for file in session.iterdir() if file.is_file()), default=0.0)
    return (session.name if _STAMP.match(session.name) else "", last, natural_key(session.name))


def without_copies(files: Iterable[Path]) -> list[Path]:
    """Return files without the JSON of what a profile beside it holds, too."""
    found: Sequence[Path] = list(files)
    hosts = {(file.parent, _PROFILE.sub("", file.name)) for file in found if _PROFILE.search(file.name)}
    folders = {folder for folder, _ in hosts} | {file.parent for file in found if _EVENTS.search(file.name)}
    return [
        file
        for file in found
        if not (
            (_EVENTS.search(file.name) and (file.parent, _EVENTS.sub("", file.name)) in hosts)
            or (_SAME_AGAIN.match(file.name) and file.parent in folders)
        )
    ]


_PACKED = r"(?:\.(?:gz|zst|xz|bz2|lz4))?"
_COPY_WORDS = r"(?: \(\d+\)| - copy(?: \(\d+\))?|[ _-]copy(?:[ _-]?\d+)?)"
_UNFINISHED = re.compile(
    r"(?P<original>.+)\.(?:te?mp|part|partial|filepart|crdownload|download|incomplete|!ut|aria2)(?:\.\d+)?",
    re.IGNORECASE,
)
_EARLIER = re.compile(
    r"(?P<original>.+?)(?:\.~\d+~|~|\.(?:bak|backup|old|orig|save|sav|sw[a-p])\d*)|#(?P<between>.+)#", re.IGNORECASE
)
# Only beside the file of the plain name: alone it is the recording, downloaded for the second time.
_COPIES = (
    re.compile(rf"(?P<original>.+?){_COPY_WORDS}(?P<end>(?:\..+)?)", re.IGNORECASE),
    re.compile(r"copy(?: \(\d+\))? of (?P<original>.+)(?P<end>)", re.IGNORECASE),
    re.compile(rf"(?P<original>.+\.(?:json|sqlite|pb){_PACKED})(?P<end>)\.\d{{1,3}}", re.IGNORECASE),
)
_GIVE_ALONE = "give it alone to look at it"


def left_behind(names: Iterable[str], of_recordings: Iterable[str]) -> dict[str, TraceAnalyzerError]:
    """Return which files are none of a run, by their paths below its folder, and why.

    `of_recordings` are those that can be read. The errors name no place: the caller knows it.
    """
    names = list(names)
    first = {name: reason for name in names if (reason := _reason(name)) is not None}
    proper = {name for name in of_recordings if name not in first}
    by_original = {_plain(name): name for name in sorted(proper, reverse=True)}
    found = {name: TraceAnalyzerError(reason, "", _GIVE_ALONE) for name, reason in first.items()} if proper else {}
    return found | _copies(names, by_original, found)


def _copies(
    names: Iterable[str], by_original: Mapping[str, str], known: Mapping[str, object]
) -> dict[str, TraceAnalyzerError]:
    found = {}
    for name in names:
        match = next(filter(None, (pattern.fullmatch(PurePosixPath(name).name) for pattern in _COPIES)), None)
        if name in known or match is None:
            continue
        original = by_original.get(_plain(_beside(name, match["original"] + match["end"])))
        if original is not None and original != name:
            found[name] = TraceAnalyzerError(f"is a copy of {original}, by its name", "", _GIVE_ALONE)
    return found


def _reason(name: str) -> str | None:
    """Return why a file is left behind by its name; None: it is not."""
    own = PurePosixPath(name).name
    if _UNFINISHED.fullmatch(own):
        return "is unfinished, by its name: what wrote it goes on, or ended before it was done"
    if _EARLIER.fullmatch(own):
        return "is what an editor keeps of a file, by its name"
    return None


def name_without_mark(name: str) -> str | None:
    """Return the name of the file that another was left behind of; None where the name does not say so."""
    match = _UNFINISHED.fullmatch(name)
    if match is None and (match := _EARLIER.fullmatch(name)) is not None and match["between"]:
        return match["between"]
    return None if match is None else match["original"]


def _beside(name: str, other: str) -> str:
    return str(PurePosixPath(name).with_name(other)) if other not in ("", ".", "..") else name


def _plain(name: str) -> str:
    """Return a name as it is before it is packed."""
    return re.sub(rf"{_PACKED}$", "", name, flags=re.IGNORECASE).lower()


# Nearly every trace is known by so many bytes: to inflate a whole head takes longer than all else about its file.
_FIRST_BYTES = 2**16
# Files whose heads are read at once.
_READERS = 16
_NAMED_LIKE_A_TRACE = re.compile(
    r"\.(?:json|sqlite|rpd)(?:\.(?:gz|zst|xz|bz2|lz4|7z|zip))?(?:\.tmp)?$|\.pftrace$|\.perfetto-trace$"
    r"|\.xplane\.(?:pb(?:\.gz)?|riegeli)$",
    re.IGNORECASE,
)
_BEGINS_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")


@dataclass(frozen=True)
class Discovery:
    """The trace files of a run, each with its ingester, and an error for each file that should be one and is not."""

    sources: tuple[tuple[Path, Ingester], ...]  # in natural order of their names
    unreadable: tuple[TraceAnalyzerError, ...] = ()
    set_aside: tuple[TraceAnalyzerError, ...] = ()  # files that are none of the run, and why


def discover(path: Path) -> Discovery:
    """Return the trace files of a run, a file or a folder, which is searched one level deep.

    Of a folder of TensorBoard's logs, the newest recording is the run.

    Hidden files and files of unknown formats are skipped; files that are named like a trace but cannot be read as one
    are listed. Raises TraceAnalyzerError where no file can be read.
    """
    if not path.exists():
        raise TraceAnalyzerError("no such file or folder", path, "give a trace file, or the folder that holds a run")
    if not (path.is_file() or path.is_dir()):
        raise TraceAnalyzerError("is a device or a pipe", path, "pipe it into the command, and give - as the run")
    if path.is_file() or _ingester_of(path) is not None:
        ingester = _ingester_of(path) or _ingester_of_part(path) or _archive_ingester_of(path)
        if ingester is None:
            raise TraceAnalyzerError(*unknown(path))
        return Discovery(((path, ingester),))
    sessions, older = newest_sessions(path)
    folders, files, others, hidden = ([*chain(*part)] for part in zip(*map(_entries, sessions), strict=True))
    files = without_copies(files)
    # A remote disk answers many requests at once as fast as one.
    with ThreadPoolExecutor(_READERS) as pool:
        looks = list(pool.map(look, files))
    readable = {file: ingester for file, (ingester, _) in zip(files, looks, strict=True) if ingester is not None}
    if not folders and not readable:
        below = _deeper(path)
        deeper = below and f"folders are searched one level deep, and a trace lies in {below}: give that folder"
        raise TraceAnalyzerError("no traces in this folder", path, deeper or hint_for_folder(files))
    named = {file.relative_to(path).as_posix(): file for file in (*files, *hidden)}
    traces = (file for file, ingester in readable.items() if not ingester.name.startswith("ncu"))
    left = left_behind(named, (file.relative_to(path).as_posix() for file in traces))
    aside = {named[name]: TraceAnalyzerError(why.what, named[name], why.hint) for name, why in left.items()}
    sources = [*folders, *((file, ingester) for file, ingester in readable.items() if file not in aside)]
    errors = [error for file, (_, error) in zip(files, looks, strict=True) if error is not None and file not in aside]
    snapshots = [note for file in files if file not in readable and (note := _snapshot(file)) is not None]
    return Discovery(
        tuple(sorted(sources, key=lambda item: natural_key(item[0].relative_to(path).as_posix()))),
        (*errors, *(_no_file(other) for other in others)),
        (
            *older,
            *(note for file, note in aside.items() if file in readable or _is_left_of_a_trace(file.name)),
            *snapshots,
        ),
    )


def _is_left_of_a_trace(name: str) -> bool:
    """Return whether a file was left behind of another that is named like a trace."""
    original = name_without_mark(name.removeprefix("."))
    return original is not None and _NAMED_LIKE_A_TRACE.search(original) is not None


def _snapshot(file: Path) -> TraceAnalyzerError | None:
    """Return what a snapshot of memory is that is named like a trace; None for other files."""
    if _NAMED_LIKE_A_TRACE.search(file.name) is None or file.stat().st_size == 0:
        return None
    with suppress(TraceAnalyzerError):
        found = memory_snapshot(read_head(file, HEAD_BYTES))
        return None if found is None else TraceAnalyzerError(found[0], file, found[1])
    return None


def _entries(folder: Path) -> tuple[list[tuple[Path, Ingester]], list[Path], list[Path], list[Path]]:
    """Return the folders in a folder that are traces, the files in it and in its other folders, and what is neither.

    Last come hidden files that were left behind of others.
    """
    folders: list[tuple[Path, Ingester]] = []
    files: list[Path] = []
    others: list[Path] = []
    hidden: list[Path] = []
    for entry in folder.iterdir():
        if _hidden(entry):
            hidden += [entry] if name_without_mark(entry.name[1:]) is not None and entry.is_file() else []
            continue
        if entry.is_file():
            files.append(entry)
        elif entry.is_dir():
            ingester = _ingester_of(entry)
            if ingester is not None:
                folders.append((entry, ingester))
            else:
                inner = [file for file in entry.iterdir() if not _hidden(file)]
                files += [file for file in inner if file.is_file()]
                others += [file for file in inner if not (file.is_file() or file.is_dir())]
        else:
            others.append(entry)
    return folders, sorted(files), sorted(others), sorted(hidden)


def _no_file(entry: Path) -> TraceAnalyzerError:
    """Return why something in a folder is not read: it may hang a reader, or there is nothing behind it."""
    if entry.is_symlink() and not entry.exists():
        target = entry.readlink()
        return TraceAnalyzerError(f"is a link to {target}, which is not there", entry, "put the file there")
    hint = "write what comes out of it into a file, or give - as the run and pipe it into the command"
    return TraceAnalyzerError("is a device, a pipe or a socket", entry, hint)


def _deeper(folder: Path) -> Path | None:
    """Return the first folder further down that holds a trace; None: none of the first files there is one."""
    walked = ((place, names) for place, _, names in os.walk(folder) if "/." not in place.removeprefix(str(folder)))
    for file in islice((Path(place, name) for place, names in walked for name in sorted(names)), _MOST_DEEPER):
        with suppress(OSError):
            if file.is_file() and look(file)[0] is not None:
                return file.parent
    return None


def look(file: Path) -> tuple[Ingester | None, TraceAnalyzerError | None]:
    """Return the ingester of a file, or an error where it is named like a trace and cannot be read as one."""
    is_named = _NAMED_LIKE_A_TRACE.search(file.name) is not None
    try:
        # Some of the system's files seem empty and block their readers.
        head, ingester = (b"", None) if file.stat().st_size == 0 else _recognised(file)
    except TraceAnalyzerError as error:
        return None, error if is_named else None
    if is_ncu_report(file) and any(file.parent.glob(f"{escape(file.stem)}*.csv*")):
        return None, None  # the table that was written out of it is read
    if is_ncu_report(file) and ingester is None:
        what = "is a report of Nsight Compute, which only NVIDIA's programs read"
        return None, TraceAnalyzerError(what, file, READ_COUNTERS.format(file.name))
    is_known = file.suffix == ".db" and ingester is None and bool(head) and other_format(file) is not None
    is_missed = is_known or (is_named and ingester is None and not _is_other_json(head, file))
    return ingester, TraceAnalyzerError(*unknown(file)) if is_missed else None


def _recognised(file: Path) -> tuple[bytes, Ingester | None]:
    """Return the first bytes of a file, no more of them than it takes to know its ingester, and the ingester."""
    head = read_head(file, _FIRST_BYTES)
    ingester = _ingester_of_head(head, file) if head else None
    if ingester is None:
        head = read_head(file, HEAD_BYTES)
        ingester = _ingester_of_head(head, file) if head else None
    return head, ingester


def _is_other_json(head: bytes, file: Path) -> bool:
    """Return whether a file holds JSON that is no trace, such as a job's configuration."""
    return _BEGINS_JSON.match(head) is not None and other_format(file) is None


def _hidden(path: Path) -> bool:
    return path.name.startswith(".")


def is_trace_folder(folder: Path) -> bool:
    """Return whether a folder as a whole is one trace, such as an export with a file for each table."""
    return _ingester_of(folder) is not None


def _ingester_of(path: Path) -> Ingester | None:
    if path.is_dir():
        of_folders = ingester_of_folders()
        return of_folders if of_folders.sniff(b"", path) else None
    return _ingester_of_head(read_head(path), path)


def _ingester_of_head(head: bytes, path: Path) -> Ingester | None:
    return next((ingester for ingester in ingesters() if ingester.sniff(head, path)), None)


def _ingester_of_part(path: Path) -> Ingester | None:
    """Return what reads one file of several that belong together. In a folder, another one stands for all of them."""
    part = OneTableIngester()
    return part if part.sniff(read_head(path, _FIRST_BYTES), path) else None


def _archive_ingester_of(path: Path) -> Ingester | None:
    """Return what reads an archive. In a folder, no archive is opened: it may hold its neighbours, or no traces."""
    from traceanalyzer.ingest.packed import ArchiveIngester

    archives = ArchiveIngester(tuple(ingesters()))
    return archives if archives.sniff(read_head(path), path) else None
