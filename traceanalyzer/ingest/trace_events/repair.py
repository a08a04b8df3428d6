"""Damaged text of an event list, repaired event by event: a bad event costs one event.

Quotes inside texts that a recorder wrote without escaping them: what follows shows whether a text ends there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.stream import LONE_SURROGATE

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


# Between two events. Keys that also begin objects elsewhere (deviceProperties has "id" and "name") count only when
# a phase follows soon.
_EVENT_KEY = rb'"(?:(?:ph|cat|ts|tts|pid|tid|dur|args|bp|sf)"\s*:|(?:name|id|s)"\s*:(?=[^{}]{0,400}"ph"\s*:))'
SEPARATOR = re.compile(rb"\}(\s*,\s*)\{\s*" + _EVENT_KEY)
# Where the next event begins after one that is broken off: nothing need close it.
_NEXT_EVENT = re.compile(rb"\}?\s*[,\n]\s*(?=\{\s*" + _EVENT_KEY + rb")")
_END_OF_LIST = re.compile(rb"\}\s*\]")
_COMMAS = re.compile(rb"[\s\0,]*")
# Python refuses to convert numbers of thousands of digits; what they are does not matter here.
_DECODER = json.JSONDecoder(strict=False, parse_int=float)
_BARE_WORD = re.compile(r"(?<=[:\[,])(\s*)(N/A|[-+]?nan|[-+]?inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
# Written under a locale with a decimal comma. In an object a comma comes before a quote, so this is one number.
_DECIMAL_COMMA = re.compile(r'("\s*:\s*[-+]?\d+),(\d+(?:[eE][-+]?\d+)?)(?=\s*[,}])')
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_EMPTY_FRAGMENT = re.compile(r",(?=\s*[,}\]])|(?<=[{\[])\s*,")
_MOST_DIGITS = 64
# How much text is tried for one event where no other event follows soon: more and more of it.
_WINDOWS = (4 * 2**10, 64 * 2**10, 2**20)
# Text that a stretch may cost beyond its own length, and bad values in it, before only what is well formed is read.
_SPARE_BYTES = 32 * 2**20
_MOST_JUNK = 1000


class Repaired(Struct):
    """Events of a stretch of text as valid JSON, each with its byte offset, and where reading stopped."""

    events: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    consumed: int = 0
    ended: bool = False  # the list was closed
    starved: bool = False  # the last event may be whole once more bytes are there


def repair(data: bytes, limit: int, offset: int, list_start: int, *, at_end: bool, losses: Losses) -> Repaired:
    """Read events one by one from `data`, which begins between two events, until `limit` is passed.

    `offset` is where `data` lies in the decompressed file, `list_start` where the event list begins in it;
    `at_end` says that nothing follows `data`.
    """
    result = Repaired()
    stretch = _Stretch(data, offset, losses, _SPARE_BYTES + 4 * limit, at_end=at_end)
    position = 0
    while position < limit or (at_end and position < len(data)):
        position = _skip_commas(data, position, offset, losses, first=offset + position == list_start)
        if position >= len(data):
            break
        if data[position : position + 1] == b"]":
            result.ended, position = True, position + 1
            break
        event, end = stretch.read_event(position)
        if end is None:
            result.starved = True
            break
        if event is not None:
            result.events.append(event)
            result.offsets.append(offset + position)
        position = end
    result.consumed = position
    return result


def next_event(data: bytes, start: int = 0) -> int | None:
    """Return where the comma before the next event begins, whatever precedes it."""
    found = _NEXT_EVENT.search(data, start) if data.find(b"{", start) >= 0 else None
    return found.start() + found[0].startswith(b"}") if found else None


def end_of_list(data: bytes) -> int | None:
    """Return where the bracket stands that closes the event list."""
    found = _END_OF_LIST.search(data)
    return found.end() - 1 if found else None


def _skip_commas(data: bytes, position: int, offset: int, losses: Losses, *, first: bool) -> int:
    start = position
    position = _COMMAS.match(data, start).end()  # type: ignore[union-attr]
    commas = data.count(b",", start, position)
    more = position < len(data)
    if commas > 1 or (commas == 1 and data[position : position + 1] == b"]"):
        losses.add("extra-comma", offset + start)
    if commas == 0 and not first and more and data[position : position + 1] != b"]":
        losses.add("missing-comma", offset + position)
    return position


class _Stretch:
    """Reads the events of one stretch of text; places that were searched for once are kept."""

    def __init__(self, data: bytes, offset: int, losses: Losses, spare_bytes: int, *, at_end: bool) -> None:
        self._data = data
        self._offset = offset
        self._losses = losses
        self._at_end = at_end
        self._found: dict[re.Pattern[bytes], re.Match[bytes] | None] = {}
        self._spare_bytes = spare_bytes
        self._junk_count = 0
        self._unreadable_count = 0

    def read_event(self, start: int) -> tuple[bytes | None, int | None]:
        """Return the event at `start` as JSON (None: lost) and where it ends (None: more bytes are needed to tell)."""
        data, offset, losses = self._data, self._offset, self._losses
        following = self._find(_NEXT_EVENT, start + 1)
        stop = following.start() + following[0].startswith(b"}") if following else self._last_brace(start)
        for end in self._ends(start, stop):
            try:
                text = _valid_start(data[start:end])
                value, length = _DECODER.raw_decode(text)
            except (ValueError, RecursionError):
                continue
            end = start + len(text[:length].encode())
            if isinstance(value, dict):
                self._junk_count = 0
                return _clean(text[:length], offset + start, losses), end
            losses.add("not-an-event", offset + start, text[:length])
            self._junk_count += 1
            return None, max(stop, end) if self._junk_count > _MOST_JUNK and following else end
        if following is None and not self._at_end:
            return None, None
        if following is None and not self._find(_END_OF_LIST, start):
            losses.add("truncated", offset + start, data[start : start + 160].decode(errors="replace"))
            return None, len(data)
        repaired = None
        if self._unreadable_count <= _MOST_JUNK:
            repaired = _repaired_event(data[start:stop], offset + start, losses)
        if repaired is None:
            self._unreadable_count += 1
            losses.add(
                "unreadable-event", offset + start, data[start : min(stop, start + 160)].decode(errors="replace")
            )
        return repaired, max(stop, start + 1)

    def _ends(self, start: int, stop: int) -> Iterator[int]:
        """Return ends of text that may hold the whole event: up to the next separator, and more and more behind it."""
        if stop - start <= _WINDOWS[1]:
            yield stop
        size = len(self._data)
        for window in (*_WINDOWS, stop - start, size - start):
            end = min(start + window, size)
            if window > self._spare_bytes:
                return
            self._spare_bytes -= end - start
            yield end
            if end == size:
                return

    def _find(self, pattern: re.Pattern[bytes], start: int) -> re.Match[bytes] | None:
        """Return the first match at or behind `start`, which only grows from call to call."""
        found = self._found.get(pattern)
        if pattern not in self._found or (found is not None and found.start() < start):
            found = self._found[pattern] = pattern.search(self._data, start)
        return found

    def _last_brace(self, start: int) -> int:
        end = self._find(_END_OF_LIST, start)
        return end.start() + 1 if end else len(self._data)


def _valid_start(data: bytes) -> str:
    """Return the text of bytes, up to the first that is no UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return data[: error.start].decode()


# Tried one after the other, each on what the ones before it left.
_REPAIRS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    # What should be a number stays a text, which is counted where it is read; N/A says that there is none.
    lambda text: _BARE_WORD.sub(
        lambda found: found[1] + ("null" if found[2] in ("N/A", "n/a") else f'"{found[2]}"'), text
    ),
    lambda text: _DECIMAL_COMMA.sub(r"\1.\2", text),
    lambda text: _BAD_ESCAPE.sub(r"\\\\", text),
    lambda text: _EMPTY_FRAGMENT.sub("", text),
    escape_raw_quotes,
)


def _repaired_event(raw: bytes, offset: int, losses: Losses) -> bytes | None:
    """Return the event as valid JSON, or None if its text cannot be understood."""
    text = raw.decode(errors="replace")
    bad_bytes = text.encode() != raw
    for steps_made, step in enumerate(_REPAIRS):
        text = step(text)
        try:
            value = _DECODER.decode(text.strip())
        except (ValueError, RecursionError):
            continue
        if not isinstance(value, dict):
            return None
        if bad_bytes:
            losses.add("invalid-utf8", offset, text)
        if steps_made:
            losses.add("mended-text", offset, raw[:160].decode(errors="replace"))
        return _clean(text.strip(), offset, losses)
    return None


def _clean(text: str, offset: int, losses: Losses) -> bytes:
    """Return the text of a readable event; what stricter readers refuse is repaired, all else is left as written."""
    duplicates: list[str] = []

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) < len(pairs):
            duplicates.append(next(k for i, (k, _) in enumerate(pairs) if k in dict(pairs[:i])))
        return value

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_int=_read_whole)
        changed = False
    except ValueError:
        value = json.loads(text, strict=False, object_pairs_hook=unique, parse_int=_read_whole)
        losses.add("mended-text", offset, text)
        changed = True
    except RecursionError:  # it was just readable where fewer calls were open
        return text.encode()
    if duplicates:
        losses.add("duplicate-key", offset, duplicates[0])
    bad_times = [key for key in ("ts", "dur") if not _is_time(value.get(key))]
    for key in bad_times:
        value[key] = None
    halves = "\\u" in text and LONE_SURROGATE.search(json.dumps(value, ensure_ascii=False)) is not None
    if halves:
        losses.add("lone-surrogate", offset, text)
    if not (changed or duplicates or bad_times or halves):
        return text.encode()
    dumped = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return LONE_SURROGATE.sub("\ufffd", dumped).encode()


def _read_whole(digits: str) -> int | None:
    """Return a whole number, or None for one that no number of 64 bits holds by far."""
    return int(digits) if len(digits) < _MOST_DIGITS else None


def _is_time(value: object) -> bool:
    """Return whether a time is a number, or a text that contains one; missing times are handled elsewhere."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return True
    try:
        return isinstance(value, str) and float(value) == float(value)
    except ValueError:
        return False
