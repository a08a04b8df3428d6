"""Text from traces cannot steer what shows it: every renderer sends each text through `visible`."""

from __future__ import annotations

import re

# Control characters (ESC begins terminal commands), marks that turn the direction of writing, line and paragraph
# separators, and halves of surrogate pairs, which no file can hold.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\N{ARABIC LETTER MARK}\N{LEFT-TO-RIGHT MARK}\N{RIGHT-TO-LEFT MARK}"
    "\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BLANKS = re.compile(r"[ \t\r\n\f\v]+")


def visible(text: str) -> str:
    """Return a text with characters that steer a terminal or a viewer written as escapes: ESC as `\\x1b`."""
    return _STEERING.sub(_escape, text)


def one_line(text: str) -> str:
    """Return a text without line breaks and runs of blanks, its other steering characters written as escapes."""
    return visible(_BLANKS.sub(" ", text).strip(" "))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
