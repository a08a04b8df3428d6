"""Files of a folder that programs and people leave beside recordings, by their names: unfinished files and copies.

Such a file may hold a trace, of the same moment or an older one. It is no further rank, so it is left out as long as
the folder holds a recording under a proper name; else it is what there is to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from traceanalyzer.errors import TraceAnalyzerError

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
        match = _match_of_copy(PurePosixPath(name).name)
        if name in known or match is None:
            continue
        original = by_original.get(_plain(_beside(name, match["original"] + match["end"])))
        if original is not None and original != name:
            found[name] = TraceAnalyzerError(f"is a copy of {original}, by its name", "", _GIVE_ALONE)
    return found


def _match_of_copy(name: str) -> re.Match[str] | None:
    return next((match for pattern in _COPIES if (match := pattern.fullmatch(name))), None)


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
