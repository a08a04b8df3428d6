"""What the text of an operation of a compiled program says: what it is, what it moves, and between which memories."""

from __future__ import annotations

import re
from typing import NamedTuple

COLLECTIVE = re.compile(
    r"all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|collective-broadcast"
    r"|send|recv"
)
# `%copy-done.4 = f32[8]{0} copy-done((f32[8]{0}, f32[8]{0:S(5)}, u32[]) %copy-start.4), more="…"`
_HEAD = re.compile(r"%?[\w.$-]+ = ")
_ARRAY = re.compile(r"(pred|bf16|[suf]\d+\w*|c64|c128)\[([\d,]*)\]")
_FIRST_ARRAY = re.compile(r"\(*[^,(]*\[[^\]]*\](?:\{[^}]*\})?")
# XLA gives the host's memory this color.
_HOST_MEMORY = "S(5)"
_TO_DEVICE, _TO_HOST, _ON_DEVICE = "HtoD", "DtoH", "DtoD"
_BITS = {"pred": 8, "c64": 64, "c128": 128}
_MOST_SIDES_CHARS = 200


class Moved(NamedTuple):
    """The direction of a copy, and its bytes; None: not known."""

    copy_kind: str
    size_bytes: int | None


def is_collective(category: str | None, label: str) -> bool:
    """Return whether an operation is a collective, or starts or ends one, by its category, else by its name."""
    if category is None or category.startswith("async-"):
        return COLLECTIVE.match(label) is not None
    return COLLECTIVE.match(category) is not None


def moved_by(category: str | None, label: str, text: str) -> Moved | None:
    """Return what an operation copies; None: it copies nothing that another operation would run beside.

    The start of a copy takes no time and has no bytes: the end of it, which waits, has them.
    """
    what = label if category is None or category.startswith("async-") else category
    if what.startswith("infeed"):
        return Moved(_TO_DEVICE, _bytes_of(_result(text)))
    if what.startswith("outfeed"):
        return Moved(_TO_HOST, None)
    if re.match(r"[a-z-]+-done\b", what):
        return Moved(_direction(_result(text), _operands(text)), _bytes_of(_result(text)))
    if re.match(r"copy-start\b", what):
        result = _result(text)
        first = _FIRST_ARRAY.match(result)
        target = first[0] if first else ""
        return Moved(_direction(target, result[len(target) :]), None)
    if re.match(r"[a-z-]+-start\b", what):
        result, operands = _result(text), _operands(text)
        if _HOST_MEMORY in operands:
            return Moved(_TO_DEVICE, None)
        return Moved(_TO_HOST if _HOST_MEMORY in result else _ON_DEVICE, None)
    return None


def _direction(target: str, source: str) -> str:
    if _HOST_MEMORY in target:
        return _TO_HOST
    return _TO_DEVICE if _HOST_MEMORY in source else _ON_DEVICE


def _result(text: str) -> str:
    """Return the type of the result: up to the name of the operation, outside all parentheses."""
    head = _HEAD.match(text)
    if not head:
        return ""
    rest = text[head.end() :]
    if not rest.startswith("("):
        return rest.partition(" ")[0]
    return rest[: _closed(rest)]


def _operands(text: str) -> str:
    head = _HEAD.match(text)
    rest = text[head.end() + len(_result(text)) :] if head else ""
    opened = rest.find("(")
    return "" if opened < 0 else rest[opened : opened + _closed(rest[opened:])]


def _closed(text: str) -> int:
    """Return how long the text is up to the parenthesis that closes its first one."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place + 1
    return len(text)


def _bytes_of(shape: str) -> int | None:
    """Return the bytes of all arrays of a type; None where it has none that is known."""
    bits = 0
    for kind, sides in _ARRAY.findall(shape):
        width = _BITS.get(kind) or int(re.sub(r"\D*(\d+).*", r"\1", kind))
        if len(sides) > _MOST_SIDES_CHARS:
            return None
        for side in filter(None, sides.split(",")):
            width *= int(side)
        bits += width
    size = bits // 8
    return size if 0 < size < 2**50 else None
