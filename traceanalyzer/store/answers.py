"""What is quicker read from a store than made again, each under the question that it answers."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.store.folders import is_own_folder, keyed_hash, make_own_folder, read_own, remove
from traceanalyzer.store.writing import StoreWriter

_NAME = re.compile(r"[0-9a-f]{16}\.txt")
_MOST = 32


class KeptAnswers:
    """The answers that one store keeps."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._folder = writer.folder / "answers"

    def get(self, question: str) -> bytes | None:
        """Return the answer that was kept to a question, None where there is none or it was changed since."""
        file = self._file(question)
        written, _, answer = (read_own(file) or b"").partition(b"\n")
        return answer if written.decode(errors="replace") == self._seal(file, answer) else None

    def keep(self, question: str, answer: bytes) -> None:
        """Keep the answer to a question that names all it depends on; the oldest answers make room.

        A store that cannot be written keeps none: the answer is there without it.
        """
        file = self._file(question)
        content = f"{self._seal(file, answer)}\n".encode() + answer
        with suppress(OSError, TraceAnalyzerError):
            make_own_folder(self._folder)
            self._writer.replace_file(file, lambda fresh: fresh.write_bytes(content))
            entries = self._folder.iterdir() if is_own_folder(self._folder) else ()
            kept = [path for path in entries if _NAME.fullmatch(path.name)]
            for oldest in sorted(kept, key=_written_ns)[:-_MOST]:
                remove(oldest)

    def _file(self, question: str) -> Path:
        return self._folder / f"{keyed_hash(question.encode(errors='surrogateescape'), self._writer.key)}.txt"

    def _seal(self, file: Path, answer: bytes) -> str:
        return keyed_hash(file.name.encode() + answer, self._writer.key, size_bytes=16)


def _written_ns(file: Path) -> int:
    try:
        return os.lstat(file).st_mtime_ns
    except FileNotFoundError:  # another command has just removed it
        return 0
