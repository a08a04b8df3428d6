"""SQL as comments, quoted texts, names, spaces and signs; and where a rule mixes units.

Names carry their unit (`bound_ns`, `$min_ms`), so a comparison of two shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from traceanalyzer.rules.rule_file.model import Mistake, Rule, template_fields

_UNITS = {
    **dict.fromkeys(("ns", "us", "ms", "s"), "time"),
    **dict.fromkeys(("bytes", "kib", "mib", "gib", "mb", "gb"), "size"),
    "share": "share",
}
# Possessive (`*+`): a long text without an operator is read once.
_COMPARED = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*+)\s*+(?:>=|<=|<>|!=|>|<|=)\s*+\$?([A-Za-z_][\w.]*+)")
# What a number of this unit is written with for people.
_FORMATS = {"share": ("%", "as {name:.0%}"), "ns": ("dur", "as {name:dur}"), "bytes": ("bytes", "as {name:bytes}")}


def unit_mistakes(rule: Rule) -> Iterator[Mistake]:
    """Return every place of a rule where one unit is taken for another."""
    for key, condition in rule.conditions():
        for first, second in _COMPARED.findall(code(condition)):
            units = _unit(first), _unit(second)
            if None not in units and units[0] != units[1]:
                what = f"'{first}' is in {units[0]} and '{second}' in {units[1]}"
                yield _mistake(rule, key, f"{what}: they are compared as if alike", "convert one, or name it rightly")
    for name, param in rule.params.items():
        unit = _unit(name)
        numbers = [value for value in (param.default, param.maximum) if isinstance(value, int | float)]
        if unit == "share" and any(value > 1 for value in numbers):
            yield _mistake(rule, f"params.{name}", f"'{name}' is a share, 0 to 1", "5 % is 0.05")
        if unit not in (None, "share") and _ascii(param.unit) not in (None, unit):
            yield _mistake(rule, f"params.{name}", f"'{name}' says {unit}, its unit says {param.unit}")
    details = ((f"abstain.{index}.detail", item.detail or "") for index, item in enumerate(rule.abstain))
    for key, template in (("message", rule.message), *details):
        for name, spec in template_fields(template):
            yield from _format_mistakes(rule, key, name, spec)


def _format_mistakes(rule: Rule, key: str, name: str, spec: str) -> Iterator[Mistake]:
    unit = _unit(name)
    if unit in _FORMATS and not spec.endswith(_FORMATS[unit][0]):
        hint = _FORMATS[unit][1].replace("name", name)
        yield _mistake(rule, key, f"'{name}' is in {unit} and is written as a bare number", f"write it {hint}")
    elif unit not in (None, "share") and spec.endswith("%"):
        yield _mistake(rule, key, f"'{name}' is in {unit} and is written as a percentage", "a share is between 0 and 1")


def _unit(name: str) -> str | None:
    first, _, last = name.lower().rpartition("_")
    # What is per second is no time.
    return last if first and last in _UNITS and not first.endswith("_per") else None


def _ascii(unit: str | None) -> str | None:
    return None if unit is None else unit.lower().replace("µ", "u")


def _mistake(rule: Rule, key: str, what: str, hint: str | None = None) -> Mistake:
    return rule.mistake(key, f"{rule.id}: {what}", hint)


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
