"""Code that fits a width and still runs: lines end only where the language allows it, never inside a word."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

# How the languages of fixes begin a comment; code in others is shown as it is.
_COMMENTS = {"python": "#", "bash": "#", "cpp": "//"}
_CONTINUED = "    "


@dataclass(frozen=True)
class _Break:
    """A place at which a line may end; the lower its rank, the better."""

    at: int
    follows: int  # where the rest begins
    rank: int = 0
    column: int | None = None  # where the rest stands; None: below the line's own beginning, and deeper
    suffix: str = ""


@dataclass(frozen=True)
class _Scan:
    """What a line of code is made of."""

    breaks: tuple[_Break, ...]
    comment_at: int | None
    depth: int  # open brackets at its end


def fitted(code: str, lang: str, width: int) -> list[str]:
    """Return the lines of code, those wider than `width` folded where that changes nothing; others stay too wide."""
    lines: list[str] = []
    depth = 0
    for raw in code.rstrip("\n").split("\n"):
        line = raw.expandtabs(4).rstrip()
        if lang not in _COMMENTS or '"""' in code or ("<<" in code and lang == "bash"):
            lines.append(line)
            continue
        scan = _scan(line, lang, depth)
        goes_on = bool(lines) and lines[-1].endswith("\\")
        lines += [line] if len(line) <= width else _folded(line, scan, lang, width, goes_on=goes_on)
        depth = scan.depth
    return lines


def _folded(line: str, scan: _Scan, lang: str, width: int, *, goes_on: bool) -> list[str]:
    """Put a comment above its code, then end lines at the best place that fits."""
    indent = line[: len(line) - len(line.lstrip())]
    above: list[str] = []
    if scan.comment_at is not None and not goes_on:
        leader = f"{indent}{_COMMENTS[lang]} "
        comment = line[scan.comment_at :].removeprefix(_COMMENTS[lang]).strip()
        above = textwrap.wrap(
            comment,
            width,
            initial_indent=leader,
            subsequent_indent=leader,
            break_long_words=False,
            break_on_hyphens=False,
        )
        line = line[: scan.comment_at].rstrip()
    below: list[str] = []
    start, prefix = 0, ""
    while len(prefix) + len(line) - start > width:
        left = [end for end in scan.breaks if start < end.at < len(line)]
        if not left:
            break
        fit = [end for end in left if len(prefix) + end.at - start + len(end.suffix) <= width]
        end = min(fit, key=lambda end: (end.rank, -end.at)) if fit else left[0]
        below.append(prefix + line[start : end.at] + end.suffix)
        is_near = end.column is not None and end.column <= max(width // 2, len(indent))
        start, prefix = end.follows, " " * (end.column or 0) if is_near else indent + _CONTINUED
    return [*above, *below, *([prefix + line[start:]] if line else [])]


def _scan(line: str, lang: str, depth: int) -> _Scan:
    """Return where a line may end, outside of quotes.

    C++ may end lines between words, a shell too if it says so; Python inside brackets, and elsewhere if it says so.
    Python and C++ may end them behind an opening bracket, where nothing else fits.
    """
    indent = len(line) - len(line.lstrip())
    brackets = [indent] * depth  # where the inside of each open one stands
    breaks: list[_Break] = []
    quote, escaped = "", False
    is_directive = lang == "cpp" and line.lstrip().startswith("#")
    for at, char in enumerate(line):
        if escaped:
            escaped = False
        elif char == "\\" and not (lang == "bash" and quote == "'"):
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif line.startswith(_COMMENTS[lang], at) and (at == 0 or line[at - 1] == " "):
            return _Scan(tuple(breaks), at, len(brackets))
        elif char in "([{":
            brackets.append(at + 1)
            if lang != "bash" and not is_directive and line[at + 1 : at + 2] not in ("", ")", "]", "}"):
                breaks.append(_Break(at + 1, at + 1, rank=1))
        elif char in ")]}":
            del brackets[-1:]
        elif char == " " and at > indent and not is_directive:
            if lang == "bash" or (lang == "python" and not brackets):
                breaks.append(_Break(at, at + 1, rank=0 if lang == "bash" else 2, suffix=" \\"))
            else:
                breaks.append(_Break(at, at + 1, column=brackets[-1] if brackets else None))
    return _Scan(tuple(breaks), None, len(brackets))
