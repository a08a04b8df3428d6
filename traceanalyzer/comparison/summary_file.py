"""Summaries as a file: a JSON document with one capture a line, so that version control shows what changed.

docs/summary.schema.json describes it. A reader takes fields that it does not know.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from traceanalyzer.comparison.summary import SUMMARY_VERSION, Summary
from traceanalyzer.diagnosis import SEVERITIES
from traceanalyzer.errors import TraceAnalyzerError

_HEAD = f'{{"summary_version": {SUMMARY_VERSION}, "captures": ['
_BEGINNING = b'{"summary_version":'
MAX_FILE_BYTES = 50_000_000
# Sums of numbers up to it, in any unit of a summary, are far from the ends of 64 bits and of doubles.
_LARGEST = 2**62
_WORDS = {"severity": SEVERITIES, "place": ("run", "rank", "device"), "time_of": ("device", "host")}


def is_summary_file(path: Path) -> bool:
    """Return whether a file begins as summaries do."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_BEGINNING)) == _BEGINNING


def text_of(summaries: Sequence[Summary]) -> str:
    """Return the document of several captures."""
    lines = [json.dumps(_plain(item), sort_keys=True, ensure_ascii=False, allow_nan=False) for item in summaries]
    return _HEAD + "\n" + ",\n".join(lines) + "\n]}\n"


def read_summaries(path: Path) -> list[Summary]:
    """Return the captures in a file; raises TraceAnalyzerError with the field that is missing or wrong."""
    try:
        with path.open("rb") as file:  # which may have no end
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise TraceAnalyzerError(f"is larger than {MAX_FILE_BYTES:,} bytes", path, "is it a trace?")
        document = json.loads(content.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        hint = "write it again: traceanalyzer baseline write FILE RUN"
        raise TraceAnalyzerError(f"is no file of summaries: {error}", path, hint) from error
    version = document.get("summary_version") if isinstance(document, dict) else None
    if version != SUMMARY_VERSION:
        raise TraceAnalyzerError(
            f"summary_version is {_start_of(version)}; this program reads {SUMMARY_VERSION}",
            path,
            "write it again: traceanalyzer baseline write FILE RUN",
        )
    captures = document.get("captures")
    if not isinstance(captures, list) or not captures:
        raise TraceAnalyzerError("field captures: a list with at least one capture is expected", path)
    return [_read(Summary, capture, f"captures[{at}]", path) for at, capture in enumerate(captures)]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
        plain.pop("summary_version", None)
        return plain
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _read(kind: Any, value: Any, where: str, path: Path) -> Any:
    """Return a value of a type that summaries use, from plain JSON."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _read_object(kind, value, where, path)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in inner:
            return None
        fitting = [item for item in inner if item is not type(None) and _fits(item, value)]
        if fitting:
            return _read(fitting[0], value, where, path)
    elif _fits(kind, value):
        if origin is tuple:
            return tuple(_read(inner[0], item, f"{where}[{at}]", path) for at, item in enumerate(value))
        if origin is Mapping:
            return {
                _text(key, where, path): _read(inner[1], item, f"{where}.{key}", path) for key, item in value.items()
            }
        return _text(value, where, path) if kind is str else _number(kind, value, where, path)
    raise TraceAnalyzerError(f"field {where} has a value of another type: {_start_of(value)}", path)


def _text(value: str, where: str, path: Path) -> str:
    """Return a text that every format can hold, and that is one of the words where a field has few."""
    known = _WORDS.get(where.rpartition(".")[2])
    if known is not None and value not in known:
        raise TraceAnalyzerError(f"field {where} is {_start_of(value)}, not one of {', '.join(known)}", path)
    return value.encode("utf-8", "replace").decode()


def _number(kind: Any, value: Any, where: str, path: Path) -> Any:
    """Return a number, or a truth value, that can be calculated with."""
    if isinstance(value, bool) or abs(value) <= _LARGEST:  # which no NaN is
        return float(value) if kind is float else value
    raise TraceAnalyzerError(f"field {where} has a number out of range", path)


def _start_of(value: Any) -> str:
    return repr(json.dumps(value)[:40])


def _read_object(kind: type, value: Any, where: str, path: Path) -> Any:
    if not isinstance(value, dict):
        raise TraceAnalyzerError(f"field {where} must be an object", path)
    hints = typing.get_type_hints(kind)
    found = {}
    for item in dataclasses.fields(kind):
        if item.name in value:
            found[item.name] = _read(hints[item.name], value[item.name], f"{where}.{item.name}", path)
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise TraceAnalyzerError(f"field {where}.{item.name} is missing", path)
    return kind(**found)


def _fits(kind: Any, value: Any) -> bool:
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind) or origin is Mapping:
        return isinstance(value, dict)
    if origin is tuple:
        return isinstance(value, list)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)
