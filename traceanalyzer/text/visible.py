"""Text from traces cannot steer what shows it: every renderer sends each text through `visible`."""

from __future__ import annotations

import json
import re
from io import TextIOWrapper
from typing import Any, TextIO

from traceanalyzer.text.secrets import masked

# Control characters (ESC begins terminal commands), marks that turn the direction of writing, line and paragraph
# separators, and halves of surrogate pairs, which no file can hold.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\N{ARABIC LETTER MARK}\N{LEFT-TO-RIGHT MARK}\N{RIGHT-TO-LEFT MARK}"
    "\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BLANKS = re.compile(r"[ \t\r\n\f\v]+")


def visible(text: str) -> str:
    """Return a text as it may be shown: secrets masked, and characters that steer as escapes, ESC as `\\x1b`."""
    return _STEERING.sub(_escape, masked(text))


def as_json(value: Any, indent: int | None = None) -> str:
    """Return plain values as JSON: secrets masked, and characters that steer as JSON's own escapes.

    Raises ValueError for a number that is none.
    """
    text = json.dumps(with_texts_masked(value), indent=indent, ensure_ascii=False, allow_nan=False, default=str)
    return _STEERING.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def become_utf8(stream: TextIO) -> None:
    """Let a stream write UTF-8 whatever the locale, as readers of JSON, Markdown and pages expect."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(encoding="utf-8")


def write_json(value: Any, stream: TextIO) -> None:
    """Write plain values as a JSON document, which is UTF-8 whatever the locale; see `as_json`."""
    become_utf8(stream)
    stream.write(as_json(value, indent=2) + "\n")


def with_texts_masked(value: Any) -> Any:
    """Return plain values with the secrets in their texts masked."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {with_texts_masked(key): with_texts_masked(item) for key, item in value.items()}
    return [with_texts_masked(item) for item in value] if isinstance(value, list | tuple) else value


def visible_lines(text: str) -> str:
    """Return a text of several lines as it may be shown; only its line breaks are meant."""
    return "\n".join(map(visible, text.split("\n")))


def one_line(text: str) -> str:
    """Return a text without line breaks and runs of blanks, its other steering characters written as escapes."""
    return visible(_BLANKS.sub(" ", text).strip(" "))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
