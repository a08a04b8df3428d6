"""Reads snapshots of PyTorch's allocator (`torch.cuda.memory._dump_snapshot`) without running anything in them."""

from __future__ import annotations

import io
import json
import math
import pickle
import pickletools
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from traceanalyzer.errors import TraceAnalyzerError

MAX_BYTES = 8 * 2**30
# A pickle may name one list many times: a small file can so hold more blocks than any memory has.
MAX_BLOCKS = 50_000_000
# A byte of a pickle makes an empty dictionary, with its place in a list the largest of what a byte can make.
_MOST_MEMORY_A_BYTE = 128
# Texts as PyTorch writes them become 5 times as large in memory; nothing but empty lists would become 25 times so.
_MOST_MEMORY_A_CHARACTER = 12
_MOST_DIGITS = 100
_SPARE_BYTES = 256 * 2**20
_HINT = "a snapshot holds only numbers, texts, lists and dictionaries; this file would run code, so it is not read"
# What builds objects out of names. A snapshot needs none of it.
_REFUSED = frozenset(
    {
        "GLOBAL",
        "STACK_GLOBAL",
        "INST",
        "OBJ",
        "NEWOBJ",
        "NEWOBJ_EX",
        "REDUCE",
        "BUILD",
        "EXT1",
        "EXT2",
        "EXT4",
        "PERSID",
        "BINPERSID",
    }
)


class _Refused(Exception):
    """A pickle asks for a name."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise _Refused

    def persistent_load(self, pid: Any) -> NoReturn:
        raise _Refused


def read_snapshot(path: Path) -> dict[str, Any]:
    """Return the dictionary in a snapshot: a pickle, or the same as JSON.

    Nothing that a pickle names is ever looked up. Raises TraceAnalyzerError where the file is none, is damaged, asks
    for names, or is larger than `MAX_BYTES`.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TraceAnalyzerError(f"is larger than {MAX_BYTES:,} bytes", path)
        content = path.read_bytes()
    except OSError as error:
        raise TraceAnalyzerError(f"cannot be read: {error.strerror}", path) from error
    found = _json(content, path) if content.lstrip()[:1] == b"{" else _pickle(content, path)
    if not isinstance(found, dict) or not isinstance(found.get("segments"), list):
        raise TraceAnalyzerError("is no memory snapshot: it has no list of segments", path)
    _check_counts(found, len(content), path)
    return found


def _check_counts(snapshot: dict[str, Any], size_bytes: int, path: Path) -> None:
    """Raise TraceAnalyzerError where lists hold more than the file has bytes: work is bounded by these."""
    blocks = sum(
        len(blocks) for s in snapshot["segments"] if isinstance(s, dict) and isinstance(blocks := s.get("blocks"), list)
    )
    traces = snapshot.get("device_traces")
    events = sum(len(entries) for entries in traces if isinstance(entries, list)) if isinstance(traces, list) else 0
    for count, noun in ((blocks, "blocks"), (events, "events")):
        if count > min(MAX_BLOCKS, size_bytes):
            raise TraceAnalyzerError(f"lists {count:,} {noun}: the same ones again and again", path)


def _json(content: bytes, path: Path) -> Any:
    try:
        with _address_space(_MOST_MEMORY_A_CHARACTER * len(content) + _SPARE_BYTES):
            return json.loads(content, parse_int=_integer)
    except MemoryError as error:
        raise TraceAnalyzerError("asks for more memory than a snapshot of its size needs", path) from error
    except (ValueError, RecursionError):
        return None


def _integer(text: str) -> int | float:
    """Return an integer; infinity for one of more digits than Python reads: it costs itself, not the snapshot."""
    return int(text) if len(text) <= _MOST_DIGITS else math.inf


def _pickle(content: bytes, path: Path) -> Any:
    try:
        with _address_space(_MOST_MEMORY_A_BYTE * len(content) + _SPARE_BYTES):
            return _Plain(io.BytesIO(content)).load()
    except _Refused:
        raise TraceAnalyzerError(f"has the opcode {_first_refused(content)}", path, _HINT) from None
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        refused = _first_refused(content)
        if refused is not None:
            raise TraceAnalyzerError(f"has the opcode {refused}", path, _HINT) from error
        raise TraceAnalyzerError("is no pickle, or a damaged one", path, "write the snapshot again") from error
    except (MemoryError, OverflowError, RecursionError) as error:
        raise TraceAnalyzerError("asks for more memory than a snapshot of its size needs", path) from error


@contextmanager
def _address_space(more_bytes: int) -> Iterator[None]:
    """Let the process take so much more memory, where the system can hold it to that.

    A pickle of ten bytes can number an object 2**32 - 1, and the unpickler makes room for all numbers up to it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + more_bytes
        if soft == resource.RLIM_INFINITY or limit < soft:
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (OSError, ValueError):
        pass
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _first_refused(content: bytes) -> str | None:
    try:
        return next((opcode.name for opcode, _, _ in pickletools.genops(content) if opcode.name in _REFUSED), None)
    except ValueError:
        return None
