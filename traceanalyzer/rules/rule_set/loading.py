"""Finds and reads rule files, and returns or raises the mistakes of all files together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError, suggestion
from traceanalyzer.rules import builtin_folder, rule_files, rules_digest
from traceanalyzer.rules.rule_file.model import Mistake, Param, ParamValue, Rule, RuleFilesError
from traceanalyzer.store.inputs import engine_key
from traceanalyzer.store.owner import kept_data

# The code that makes rules of files.
_PARSED_BY = (
    "diagnosis/__init__.py",
    "errors.py",
    "metrics/__init__.py",
    "rules/rule_file",
    "rules/rule_set/loading.py",
)
ALL_RULES = "`traceanalyzer rules list` names all"


def load_rules(paths: Sequence[Path] = (), *, tests: bool = True) -> list[Rule]:
    """Return the built-in rules and those of `paths`, by id; a rule of `paths` replaces a built-in of the same id.

    Without `tests` the built-in ones come without theirs, which are most of each file. Raises RuleFilesError with every
    mistake of every file.
    """
    builtin, mistakes = _builtin(tests=tests)
    extra, extra_mistakes = _parse(paths)
    extra_ids = {rule.id for rule in extra}
    rules = sorted([*(rule for rule in builtin if rule.id not in extra_ids), *extra], key=lambda rule: rule.id)
    # What ships is bound by `rules lint` and the tests; here that would cost every diagnosis half a second.
    found = [*mistakes, *extra_mistakes, *_doubles(extra), *_unknown_relatives(rules), *_bound(extra)]
    if found:
        raise RuleFilesError(tuple(found))
    return rules


def _bound(rules: Sequence[Rule]) -> list[Mistake]:
    if not rules:
        return []
    from traceanalyzer.rules.rule_set.binding import bind_rules

    return bind_rules(rules)


def read_rules(paths: Sequence[Path]) -> list[Rule]:
    """Return the rules of some files and folders alone, by id; raises RuleFilesError with all that is wrong."""
    rules, mistakes = _parse(paths)
    mistakes = [*mistakes, *_doubles(rules), *_bound(rules)]
    if mistakes:
        raise RuleFilesError(tuple(mistakes))
    return sorted(rules, key=lambda rule: rule.id)


def rule_called(rule_id: str, rules: Sequence[Rule]) -> Rule:
    """Return the rule of this id; raises with the ids that are spelled alike."""
    known = {rule.id: rule for rule in rules}
    if rule_id in known:
        return known[rule_id]
    raise TraceAnalyzerError("no such rule", rule_id, suggestion(rule_id, known, ALL_RULES))


def rules_with_mistakes(paths: Sequence[Path] = ()) -> tuple[list[Rule], list[Mistake]]:
    """Return the rules in `paths` (default: the built-in ones), and every mistake for which they cannot be used."""
    rules, mistakes = _parse(paths or [builtin_folder()])
    known, _ = _builtin(tests=True)
    return rules, [*mistakes, *_doubles(rules), *_unknown_relatives([*known, *rules]), *_bound(rules)]


def check_settings(rules: Sequence[Rule], settings: Mapping[str, ParamValue]) -> dict[str, dict[str, ParamValue]]:
    """Return settings ('rule.param' → value) by rule; raises when a name, type or range is wrong."""
    by_id = {rule.id: rule for rule in rules}
    checked: dict[str, dict[str, ParamValue]] = {}
    for key, value in settings.items():
        rule_id, _, name = key.partition(".")
        if rule_id not in by_id:
            raise TraceAnalyzerError(f"no such rule: {rule_id}", key, suggestion(rule_id, by_id, ALL_RULES))
        params = by_id[rule_id].params
        if name not in params:
            known = ", ".join(params) or "none"
            raise TraceAnalyzerError(f"the rule has no parameter '{name}'", key, f"its parameters: {known}")
        checked.setdefault(rule_id, {})[name] = _checked_value(key, params[name], value)
    return checked


@cache
def _builtin(*, tests: bool) -> tuple[tuple[Rule, ...], tuple[Mistake, ...]]:
    """Return what ships: a process that diagnoses many runs reads it once."""
    if not tests and (kept := _kept_builtin()) is not None:
        return kept, ()
    rules, mistakes = _parse([builtin_folder()], tests=tests)
    return tuple(rules), tuple(mistakes)


def _kept_builtin() -> tuple[Rule, ...] | None:
    """Return what ships from the user's cache, where it is kept as data; None where it is not, or has mistakes.

    Reading 128 files of YAML takes as long as asking all their questions of a small run.
    """

    def make() -> list[Rule]:
        rules, mistakes = _parse([builtin_folder()], tests=False)
        if mistakes:
            raise OSError("rules with mistakes are not kept")
        return rules

    made_of = engine_key(_PARSED_BY) + rules_digest([builtin_folder()])
    kept: tuple[Rule, ...] | None = kept_data("rules", made_of, tuple[Rule, ...], make)
    return kept


def _parse(paths: Sequence[Path], *, tests: bool = True) -> tuple[list[Rule], list[Mistake]]:
    if not paths:
        return [], []
    # YAML is read where rules have changed or are a user's own.
    from traceanalyzer.rules.rule_file.document import read_document
    from traceanalyzer.rules.rule_file.parsing import parse_rule

    rules, mistakes = [], []
    for path in rule_files(paths):
        rule, of_file = parse_rule(read_document(path, up_to=None if tests else "tests:"), tests=tests)
        mistakes.extend(of_file)
        if rule is not None:
            rules.append(rule)
    return rules, mistakes


def _number(param: Param, value: ParamValue) -> float:
    """Return a number; of one without a unit, `50%` is a half. Raises ValueError for what is no number."""
    text = str(value).strip()
    if isinstance(value, bool):
        raise ValueError(f"{param.name} is a number")
    if not text.endswith("%"):
        return float(value)
    if param.unit is not None:
        raise ValueError(f"{param.name} is in {param.unit}")
    return float(f"{text.removesuffix('%').strip()}e-2")


def _checked_value(key: str, param: Param, value: ParamValue) -> ParamValue:
    kind: type = type(param.default)
    try:
        if kind is bool:
            typed: ParamValue = {"true": True, "false": False}[str(value).lower()]
        else:
            # A count may be given as 5.0 and a share as 1, but not a count as 2.5.
            number = _number(param, value) if kind in (int, float) else 0.0
            typed = kind(number) if kind in (int, float) else str(value)
            if not math.isfinite(number) or (kind is int and typed != number):
                raise ValueError
    except (ValueError, KeyError) as error:
        raise TraceAnalyzerError(f"{value!r} is no {kind.__name__}", key, f"its default is {param.default}") from error
    if isinstance(typed, int | float) and not isinstance(typed, bool):
        below = param.minimum is not None and typed < param.minimum
        above = param.maximum is not None and typed > param.maximum
        if below or above:
            hint = f"allowed: {param.minimum} to {param.maximum}"
            raise TraceAnalyzerError(f"{value} is out of range", key, hint)
    return typed


def _doubles(rules: Sequence[Rule]) -> list[Mistake]:
    first: dict[str, Rule] = {}
    mistakes = []
    for rule in rules:
        if rule.id in first:
            mistakes.append(rule.mistake("id", f"the id {rule.id} is taken by {first[rule.id].path}"))
        first.setdefault(rule.id, rule)
    return mistakes


def _unknown_relatives(rules: Sequence[Rule]) -> list[Mistake]:
    ids = {rule.id for rule in rules}
    return [
        rule.mistake(key, f"{said} an unknown rule: {name}", suggestion(name, ids))
        for rule in rules
        for key, said, names in (("refines", "refines", rule.refines), ("attaches_to", "explains", rule.attaches_to))
        for name in names
        if name not in ids
    ]
