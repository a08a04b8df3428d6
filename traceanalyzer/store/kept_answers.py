"""What is quicker read from a store than made again, each under the question that it answers.

The catalogue that lies in a store: which tables it shows, and whether it is the one that was written.

What a store remembers of the files that it read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.store import writing

CATALOG_NAME = "catalog.duckdb"
_SHOWS = "catalog.txt"


class CatalogFile:
    """The catalogue of one store."""

    def __init__(self, writer: writing.StoreWriter) -> None:
        self._writer = writer
        self._file = writer.folder / CATALOG_NAME
        self._note = writer.folder / _SHOWS

    def exists(self) -> bool:
        """Return whether anything lies where the catalogue does."""
        return os.path.lexists(self._file)

    def shows(self) -> str | None:
        """Return the name of the derived folder that the catalogue shows, '' for none; None: there is no catalogue."""
        shows, _, looked_like = (writing.read_own_text(self._note) or "").partition("\n")
        return shows if looked_like and looked_like == writing.file_seal(self._file, self._writer.key) else None

    def replace(self, shows: str, write: Callable[[Path], object]) -> None:
        """Write the catalogue, and remember which derived folder it shows."""
        self._writer.replace_file(self._file, write)
        text = f"{shows}\n{writing.file_seal(self._file, self._writer.key)}"
        self._writer.replace_file(self._note, lambda file: file.write_text(text))


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


_NAME = re.compile(r"[0-9a-f]{16}\.txt")
_MOST = 32


class KeptAnswers:
    """Answers that are kept in a store."""

    def __init__(self, writer: writing.StoreWriter) -> None:
        self._writer = writer
        self._folder = writer.folder / "answers"

    def get(self, question: str) -> bytes | None:
        """Return the answer that was kept to a question, None where there is none or it was changed since."""
        file = self._file(question)
        written, _, answer = (writing.read_own(file) or b"").partition(b"\n")
        return answer if written.decode(errors="replace") == self._seal(file, answer) else None

    def keep(self, question: str, answer: bytes) -> None:
        """Keep the answer to a question that names all it depends on; the oldest answers make room.

        A store that cannot be written keeps none: the answer is there without it.
        """
        file = self._file(question)
        content = f"{self._seal(file, answer)}\n".encode() + answer
        with suppress(OSError, TraceAnalyzerError):
            writing.make_own_folder(self._folder)
            self._writer.replace_file(file, lambda fresh: fresh.write_bytes(content))
            entries = self._folder.iterdir() if writing.is_own_folder(self._folder) else ()
            kept = [path for path in entries if _NAME.fullmatch(path.name)]
            for oldest in sorted(kept, key=_written_ns)[:-_MOST]:
                writing.remove(oldest)

    def _file(self, question: str) -> Path:
        return self._folder / f"{writing.keyed_hash(question.encode(errors='surrogateescape'), self._writer.key)}.txt"

    def _seal(self, file: Path, answer: bytes) -> str:
        return writing.keyed_hash(file.name.encode() + answer, self._writer.key, size_bytes=16)


def _written_ns(file: Path) -> int:
    try:
        return os.lstat(file).st_mtime_ns
    except FileNotFoundError:  # another command has just removed it
        return 0
