"""Finds where a rule mixes units: names carry them (`bound_ns`, `$min_ms`), so a comparison of two shows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from traceanalyzer.rules.rule_file.model import Mistake, Rule
from traceanalyzer.rules.rule_file.sql_text import code
from traceanalyzer.rules.rule_file.template import template_fields

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
    for key, condition in _conditions(rule):
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
    for key, template in (("message", rule.message), *_details(rule)):
        for name, spec in template_fields(template):
            yield from _format_mistakes(rule, key, name, spec)


def _format_mistakes(rule: Rule, key: str, name: str, spec: str) -> Iterator[Mistake]:
    unit = _unit(name)
    if unit in _FORMATS and not spec.endswith(_FORMATS[unit][0]):
        hint = _FORMATS[unit][1].replace("name", name)
        yield _mistake(rule, key, f"'{name}' is in {unit} and is written as a bare number", f"write it {hint}")
    elif unit not in (None, "share") and spec.endswith("%"):
        yield _mistake(rule, key, f"'{name}' is in {unit} and is written as a percentage", "a share is between 0 and 1")


def _conditions(rule: Rule) -> Iterator[tuple[str, str]]:
    yield "when", rule.when
    for name, whens in (
        ("abstain", [item.when for item in rule.abstain]),
        ("lower", [item.when for item in rule.lower]),
        ("fixes", [item.when or "" for item in rule.fixes]),
    ):
        yield from ((f"{name}.{index}.when", when) for index, when in enumerate(whens))


def _details(rule: Rule) -> Iterator[tuple[str, str]]:
    for index, item in enumerate(rule.abstain):
        yield f"abstain.{index}.detail", item.detail or ""


def _unit(name: str) -> str | None:
    first, _, last = name.lower().rpartition("_")
    # What is per second is no time.
    return last if first and last in _UNITS and not first.endswith("_per") else None


def _ascii(unit: str | None) -> str | None:
    return None if unit is None else unit.lower().replace("µ", "u")


def _mistake(rule: Rule, key: str, what: str, hint: str | None = None) -> Mistake:
    return Mistake(rule.path, rule.line(key), f"{rule.id}: {what}", hint)
