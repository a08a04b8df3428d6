"""Folders of TensorBoard's profiler plugin: LOGS/plugins/profile/SESSION/HOST.xplane.pb, and what lies beside these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from traceanalyzer.discovery.naming import natural_key
from traceanalyzer.errors import TraceAnalyzerError

_PLUGIN = Path("plugins") / "profile"
_PROFILE = re.compile(r"\.xplane\.pb(?:\.gz)?$")
_EVENTS = re.compile(r"\.trace\.json(?:\.gz)?$")
_SAME_AGAIN = re.compile(r"perfetto_trace\.json(?:\.gz)?$")
# The local time at which a recording ended.
_STAMP = re.compile(r"\d{4}(?:_\d\d){5}$")
_RANK = re.compile(r"(?:^|[/_.-])(?:rank|process|worker)[_-]?(\d{1,9})(?=$|[/_.-])", re.IGNORECASE)
_MOST_NAMED = 5


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
