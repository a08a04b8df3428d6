"""What was opened as one run, recorded in a shared store under a number; `head.json` names the newest one.

The head is only written over the version that was read: of two commands that record a run at once, the later one
fails, and reads it again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.store.writing import StoreError, keyed_hash
from traceanalyzer.version import __version__

if TYPE_CHECKING:
    from traceanalyzer.remote.location import Location
    from traceanalyzer.store.inputs import StoredTrace
    from traceanalyzer.store.shared_store import SharedStore

# Numbers that other commands took since the head was read.
_MOST_TAKEN = 1_000


@dataclass(frozen=True)
class RecordedTrace:
    """One trace of a run: what it is called, its rank, where it was read, and its folder in the store."""

    trace: str
    rank: int | None
    path: str
    folder: str


@dataclass(frozen=True)
class RunRecord:
    """What a command opened as one run."""

    run: str
    traces: tuple[RecordedTrace, ...]
    unreadable: tuple[str, ...]
    derived: str
    options: str
    traceanalyzer: str = __version__

    @property
    def name(self) -> str:
        """The name of the run in the store: runs of one name may lie in different places."""
        last = re.sub(r"[^\w.-]+", "_", self.run.rstrip("/").rpartition("/")[2], flags=re.ASCII)[:80]
        return f"{last or 'run'}-{keyed_hash(self.run.encode(errors='surrogateescape'), b'')}"


def run_record(
    root: Path | Location,
    traces: Sequence[StoredTrace],
    unreadable: Sequence[TraceAnalyzerError],
    derived: Path,
    options: str,
) -> RunRecord:
    """Return the record of a run that is open and attributed."""
    recorded = tuple(
        RecordedTrace(item.trace, item.rank, str(item.path), f"traces/{item.folder.parent.name}/{item.folder.name}")
        for item in traces
    )
    place = str(root.resolve()) if isinstance(root, Path) else str(root).rstrip("/")
    return RunRecord(place, recorded, tuple(map(str, unreadable)), f"derived/{derived.name}", options)


def record_run(shared: SharedStore, record: RunRecord) -> str | None:
    """Record a run, unless its newest record says the same.

    Returns the URL of another command's record where that came first and says something else.
    """
    text = json.dumps(asdict(record), indent=1).encode()
    own = hashlib.sha256(text).hexdigest()
    folder = f"runs/{record.name}"
    before = shared.versioned(f"{folder}/head.json")
    number, newest = _parse_head(None if before is None else before.data)
    if newest == own:
        return None
    for taken in range(number + 1, number + _MOST_TAKEN):
        if shared.put_new(f"{folder}/{taken}.json", text):
            break
    else:
        raise StoreError("is recorded again and again by other commands", shared.url_of(folder), "try again later")
    head = json.dumps({"number": taken, "sha256": own}).encode()
    if shared.put_over(f"{folder}/head.json", head, before):
        return None
    now = shared.versioned(f"{folder}/head.json")
    number, newest = _parse_head(None if now is None else now.data)
    return None if newest == own else shared.url_of(f"{folder}/{number}.json")


def _parse_head(data: bytes | None) -> tuple[int, str | None]:
    """Return the number of the newest record and its checksum; 0 and None where nothing of the kind is said."""
    try:
        facts = json.loads(data or b"")
        number, newest = facts["number"], facts["sha256"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0, None
    return (number, str(newest)) if type(number) is int and 0 < number < 10**9 else (0, None)
