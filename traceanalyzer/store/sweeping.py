"""Removes from a shared store what no command will read: attempts that were never finished, or do not count.

Tasks never do this, because another machine may be about to use what it removes.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from dataclasses import dataclass, field

from traceanalyzer.remote.client import Entry
from traceanalyzer.store.shared_store import ATTEMPT, DONE, SharedStore, parse_done

# Whoever still writes an attempt has written some of it since.
OLD_AFTER_S = 86_400
# What a store writes below its folders: nothing else in the place is ever removed.
_PART = re.compile(
    rf"(?P<folder>traces/[\w.-]+|derived/[0-9a-f]{{16}}|ranks/(?P<derived>[0-9a-f]{{16}})/\w+)"
    rf"/(?:(?P<done>{re.escape(DONE)})|(?P<attempt>{ATTEMPT.pattern})/.+)",
    re.ASCII,
)


@dataclass(frozen=True)
class Swept:
    """What was removed."""

    object_count: int = 0
    size_bytes: int = 0


@dataclass
class _Folder:
    """A published folder, or what attempts at it left."""

    derived: str | None  # the run's attribution that a rank was computed for
    done: Entry | None = None
    attempts: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))

    def entries(self) -> list[Entry]:
        return [*([self.done] if self.done else []), *(entry for own in self.attempts.values() for entry in own)]


def sweep(shared: SharedStore) -> Swept:
    """Remove attempts of a day ago that do not count, and ranks whose run was attributed; return what that was."""
    shared.check()
    old_s = time.time() - OLD_AFTER_S
    folders = _folders(shared)
    removed: list[Entry] = []
    for name, folder in folders.items():
        entries = folder.entries()
        run = folders.get(f"derived/{folder.derived}")
        if run is not None and run.done is not None and all(_is_old(entry, old_s) for entry in entries):
            removed += entries
        else:
            removed += _needless(shared, name, folder, old_s)
    shared.remove([entry.key for entry in removed])
    return Swept(len(removed), sum(entry.size_bytes for entry in removed))


def _folders(shared: SharedStore) -> dict[str, _Folder]:
    folders: dict[str, _Folder] = {}
    below = shared.key_of("")
    for entry in shared.listing():
        match = _PART.fullmatch(entry.key.removeprefix(below))
        if match is None:
            continue
        folder = folders.setdefault(match["folder"], _Folder(match["derived"]))
        if match["done"]:
            folder.done = entry
        else:
            folder.attempts[match["attempt"]].append(entry)
    return folders


def _needless(shared: SharedStore, name: str, folder: _Folder, old_s: float) -> list[Entry]:
    """Return the objects of a folder's attempts that are old and do not count."""
    candidates = {
        attempt: entries
        for attempt, entries in folder.attempts.items()
        if all(_is_old(entry, old_s) for entry in entries)
    }
    if not candidates or (folder.done is not None and len(folder.attempts) == 1):
        return []
    found = shared.versioned(f"{name}/{DONE}")  # as it is now, and not when the store was listed
    done = None if found is None else parse_done(found.data)
    if found is not None and done is None:
        return []  # damaged: the next command that needs the folder replaces it
    return [
        entry for attempt, entries in candidates.items() if done is None or attempt != done.attempt for entry in entries
    ]


def _is_old(entry: Entry, old_s: float) -> bool:
    return 0 < entry.changed_s < old_s
