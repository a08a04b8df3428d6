"""SQL as comments, quoted texts, names, spaces and signs; and what of a rule's condition no fix changes."""

from __future__ import annotations

import re
from collections.abc import Iterator

# In the order in which one hides the others. `words` looks for two ends itself: DuckDB's block comments nest, and a
# text that starts with $tag$ ends where the tag comes again. Possessive (`*+`): an open quote is read to its end once.
_WORD = re.compile(
    r"""
      (?P<line>--[^\n]*)
    | (?P<block>/\*)
    | (?P<text>[eE]'(?:[^'\\]|\\.|'')*+'|'(?:[^']|'')*+')
    | (?P<dollar>\$\w*+\$)
    | (?P<name>"(?:[^"]|"")*+"|[A-Za-z_]\w*)
    | (?P<space>\s+)
    | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_BLOCK_MARK = re.compile(r"/\*|\*/")
COMMENT, TEXT, NAME, SPACE, OTHER = "comment", "text", "name", "space", "other"


def words(sql: str) -> Iterator[tuple[str, str]]:
    """Return the pieces of a text in order, each with its kind: put together they are the text."""
    at = 0
    while at < len(sql):
        word = _WORD.match(sql, at)
        assert word is not None  # `other` takes any character
        kind, end = word.lastgroup or OTHER, word.end()
        if kind == "block":
            end = _end_of_block(sql, at)
        elif kind == "dollar":
            close = sql.find(word[0], end)
            kind, end = (OTHER, at + 1) if close < 0 else (TEXT, close + len(word[0]))
        yield COMMENT if kind in ("line", "block") else kind, sql[at:end]
        at = end


def without_comments(sql: str) -> str:
    """Return a text in which a space stands for each comment."""
    return "".join(" " if kind == COMMENT else word for kind, word in words(sql))


def code(sql: str) -> str:
    """Return a text without its comments and without what stands in quotes: only its names and signs."""
    return "".join(" " if kind in (COMMENT, TEXT) else word for kind, word in words(sql))


def in_place_of(table: str, select: str, sql: str) -> str:
    """Return a text that reads the rows of a SELECT where it named a table; its lines stay where they are."""
    rows = "".join(" " if kind in (COMMENT, SPACE) else word for kind, word in words(select))
    return "".join(f"({rows})" if (kind, word) == (NAME, table) else word for kind, word in words(sql))


def and_parts(condition: str) -> list[str]:
    """Return the parts of a condition that AND joins at its top level; where OR does, the whole of it.

    Each stands on one line, without comments.
    """
    condition = without_comments(condition)
    parts: list[list[str]] = [[]]
    depth, between, cases = 0, False, 0
    for _, word in words(condition):
        upper = word.upper()
        depth += (word == "(") - (word == ")")
        cases += (upper == "CASE") - (upper == "END")
        at_top = depth == 0 and cases == 0
        if at_top and upper == "OR":
            return [on_one_line(condition)]
        if at_top and upper == "BETWEEN":
            between = True
        elif at_top and upper == "AND":
            if not between:
                parts.append([])
                continue
            between = False
        parts[-1].append(word)
    return [on_one_line("".join(part)) for part in parts]


def on_one_line(sql: str) -> str:
    """Return SQL with one space for each stretch of spaces and comments outside of quotes."""
    between = (COMMENT, SPACE)
    pieces = [" " if kind in between else word for kind, word in words(sql)]
    return "".join(
        piece for piece, before in zip(pieces, ["", *pieces], strict=False) if piece + before != "  "
    ).strip()


def swallowed_if_folded(lines: str) -> str | None:
    """Return the '--' comment that would hide the SQL after it if YAML folded the lines into one; None: none would."""
    comment = None
    for kind, word in words(lines):
        if kind == COMMENT and word.startswith("--"):
            comment = comment or word
        elif kind not in (COMMENT, SPACE) and comment is not None:
            return comment
    return None


def _end_of_block(sql: str, at: int) -> int:
    depth = 0
    for mark in _BLOCK_MARK.finditer(sql, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)


# The columns of the table `bound` that depend on what is fixed, or on what the rule and others claim.
CHANGING = (
    "after_fixes",
    "bound_ns",
    "bound_share",
    "claimed_count",
    "claimed_ns",
    "claimed_share",
    "ms_per_step",
    "resolved_share",
    "run_ns",
    "run_share",
    "step_share",
    "worst_ms",
    "worst_step",
)
_CHANGES = re.compile(rf"\b(?:{'|'.join(CHANGING)})\b", re.IGNORECASE)
# The table where it is only read. As a value, by its name or another one, it would hold the columns that change.
_READ = re.compile(
    r"\b(?:FROM|JOIN)\s+bound\b(?=\s*(?:$|[,)]|(?:ANTI|ASOF|CROSS|FULL|GROUP|INNER|JOIN|LEFT|ON|ORDER|SEMI|USING|WHERE)\b))",
    re.IGNORECASE,
)
_AS_VALUE = re.compile(r"\bbound\b(?!\.)|\bCOLUMNS\b", re.IGNORECASE)


def lasting_conditions(select: str, when: str) -> list[str]:
    """Return the parts of a rule's condition that no fix changes; none where its select computes with what changes."""
    if _CHANGES.search(select) or _AS_VALUE.search(_READ.sub("", select)):
        return []
    return [part for part in and_parts(when) if not _CHANGES.search(part)]
