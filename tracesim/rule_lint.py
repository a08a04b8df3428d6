"""Finds what a rule's author should mend: mistakes, unused parameters, missing tests, and units taken for another.

Names carry their unit (`bound_ns`, `$min_ms`), so a comparison of two shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.rules.rule_file.model import STATES, Mistake, Rule, template_fields
from traceanalyzer.rules.rule_file.sql_text import code
from traceanalyzer.rules.rule_set.loading import rules_with_mistakes
from tracesim.scenario.ranks import scenarios_of_ranks
from tracesim.scenario.scenario import parse_scenario


def lint(paths: Sequence[Path] = ()) -> list[Mistake]:
    """Return every mistake of the rules in `paths` (default: the built-in ones), style of tests and params included."""
    rules, mistakes = rules_with_mistakes(paths)
    for rule in rules:
        mistakes += [*_unused_params(rule), *_missing_tests(rule), *_wrong_workloads(rule), *unit_mistakes(rule)]
    return sorted(mistakes, key=lambda mistake: (mistake.path, mistake.line))


def _unused_params(rule: Rule) -> list[Mistake]:
    if not rule.when or not rule.message:
        # What is missing may be where it is to be used.
        return []
    sql = code(rule.sql)
    used = {name for name in rule.params if f"${name}" in sql or f"{{{name}" in rule.message}
    return [
        rule.mistake(f"params.{name}", f"the parameter '{name}' is not used", "delete it, or use it")
        for name in rule.params
        if name not in used
    ]


def _missing_tests(rule: Rule) -> list[Mistake]:
    states = [test.expect["state"] for test in rule.tests]
    if len(states) < sum(key.startswith("tests.") and key.count(".") == 1 for key in rule.lines) or not states:
        # The key is missing, or some could not be read.
        return []
    wanted = [state for state in STATES if state != "abstained" or rule.abstain or rule.requires]
    return [
        rule.mistake("tests", f"no test expects '{state}'", "the silent cases matter most")
        for state in wanted
        if state not in states
    ]


def _wrong_workloads(rule: Rule) -> list[Mistake]:
    mistakes = []
    for test in rule.tests:
        try:
            for scenario in scenarios_of_ranks(test.sim or {}):
                parse_scenario(scenario)
        except TraceAnalyzerError as error:
            mistakes.append(Mistake(rule.path, test.line, f"sim: {error.what}", error.hint))
    return mistakes


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
