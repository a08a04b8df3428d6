"""Where a result goes: standard output, or a file that is there whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from traceanalyzer.errors import TraceAnalyzerError


@contextmanager
def written(path: Path | None) -> Iterator[TextIO]:
    """Give a text stream: standard output, or a file that appears under its name once it is complete."""
    if path is None or str(path) == "-":
        yield sys.stdout
        return
    with _replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        yield stream


@contextmanager
def written_bytes(path: Path | None) -> Iterator[IO[bytes]]:
    """Give a binary stream: standard output, or a file that appears under its name once it is complete."""
    if path is None or str(path) == "-":
        yield sys.stdout.buffer
        return
    with _replacing(path) as temporary, temporary.open("wb") as stream:
        yield stream


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        # A pipe that closes is no matter of the file.
        if isinstance(error, BrokenPipeError):
            raise
        raise TraceAnalyzerError(f"cannot be written: {error.strerror}", path, "name another file") from error
    finally:
        temporary.unlink(missing_ok=True)
