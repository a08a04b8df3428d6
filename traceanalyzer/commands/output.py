"""The destination of a result: standard output, or a file that appears only when it is complete."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.unfinished import unfinished

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def written(path: Path | None) -> Iterator[TextIO]:
    """Yield a text stream: standard output, or a file that appears under its name once it is complete."""
    if path is None or str(path) == "-":
        with _named("standard output"):
            yield sys.stdout
            sys.stdout.flush()
        return
    with _replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        yield stream


@contextmanager
def written_bytes(path: Path | None) -> Iterator[IO[bytes]]:
    """Yield a binary stream: standard output, or a file that appears under its name once it is complete."""
    if path is None or str(path) == "-":
        with _named("standard output"):
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    with _replacing(path) as temporary, temporary.open("wb") as stream:
        yield stream


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with _named(path), unfinished(temporary):
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def _named(destination: Path | str) -> Iterator[None]:
    """Turn an error of writing into one that names the destination."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader left, which is no error of the destination
    except OSError as error:
        hint = "make room there, or name another file" if error.errno in _FULL else "name another file"
        raise TraceAnalyzerError(f"cannot be written: {error.strerror or error}", destination, hint) from error
