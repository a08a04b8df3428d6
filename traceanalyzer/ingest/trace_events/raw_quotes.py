"""Quotes inside texts that a recorder wrote without escaping them: what follows shows whether a text ends there."""

from __future__ import annotations

import re

_STRUCTURE = re.compile(r'["{}\[\]:,]')
_QUOTE = re.compile(r'(\\*)"')
_AFTER_KEY = re.compile(r"\s*:")
_AFTER_ITEM = re.compile(r"\s*[,\]]")
_AFTER_VALUE = re.compile(r'\s*(?:\Z|,\s*"(?:[^"\\]|\\.)*"\s*:|\}\s*(?:[,}\]]|\Z))', re.DOTALL)
# A backslash that ends a text looks as if it escaped the quote behind it: a key of events that follows says otherwise.
_KEY_OF_EVENTS = re.compile(r'\s*,\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|bp|s)"\s*:')


def escape_raw_quotes(text: str) -> str:
    """Return the text of one event with the quotes escaped that lie inside its texts."""
    parts: list[str] = []
    open_brackets: list[str] = []
    is_key = False
    position = 0
    while found := _STRUCTURE.search(text, position):
        parts.append(text[position : found.end()])
        position, sign = found.end(), found[0]
        if sign in "{[":
            open_brackets.append(sign)
            is_key = sign == "{"
        elif sign in "}]":
            open_brackets = open_brackets[:-1]
            is_key = False
        elif sign == ",":
            is_key = open_brackets[-1:] == ["{"]
        elif sign == ":":
            is_key = False
        else:
            after = _AFTER_KEY if is_key else _AFTER_ITEM if open_brackets[-1:] == ["["] else _AFTER_VALUE
            content, position = _read_text(text, position, after)
            parts.append(content)
    parts.append(text[position:])
    return "".join(parts)


def _read_text(text: str, start: int, after: re.Pattern[str]) -> tuple[str, int]:
    """Return the text that begins at `start`, with its closing quote, and where it ends."""
    parts: list[str] = []
    position = start
    while found := _QUOTE.search(text, position):
        parts.append(text[position : found.start()])
        backslashes, position = found[1], found.end()
        if len(backslashes) % 2 == 0:
            if after.match(text, position):
                parts.append(found[0])
                return "".join(parts), position
            parts.append(backslashes + '\\"')
        elif _KEY_OF_EVENTS.match(text, position):
            parts.append(backslashes + '\\"')
            return "".join(parts), position
        else:
            parts.append(found[0])
    return "".join([*parts, text[position:]]), len(text)
