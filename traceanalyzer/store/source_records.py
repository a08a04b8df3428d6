"""What a store remembers of the files that it read."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

TRACE_NAME = re.compile(r"[\w.-]{1,80}-[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True)
class SourceRecord:
    """What is remembered of a file: what it looked like, its content's hash, and the name of its folder of traces."""

    path: str
    stamp: list[int]
    digest: str
    folder: str

    def text(self) -> str:
        """Return it as it is written."""
        return json.dumps(asdict(self))


def parse_record(text: str | None) -> SourceRecord | None:
    """Return what a record says, if it is one that a store wrote."""
    try:
        facts = json.loads(text or "")
        source = SourceRecord(str(facts["path"]), list(facts["stamp"]), str(facts["digest"]), str(facts["folder"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return source if TRACE_NAME.fullmatch(source.folder) else None
