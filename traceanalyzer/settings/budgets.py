"""Budgets of a project, from `[budgets]` and `[[budget_exception]]` of traceanalyzer.toml.

Every mistake names its line. TOML readers give no lines, so `Places` finds them in the text.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from traceanalyzer.errors import suggestion

MILLI_NS = 1e6
# Limits of each subject; `ledger` and `kernel` go on with the name of a bucket or a pattern of kernel names.
LIMITS = {
    "step": ("max_ms", "slower"),
    "compute_share": ("min",),
    "ledger": ("max_share", "max_ms", "more"),
    "kernel": ("max_ms", "slower", "more_launches"),
    "findings": ("any", "new"),
}
# What only a comparison can judge.
RELATIVE = ("slower", "more", "more_launches", "new")
_PERCENT = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*%\s*$")
_EXCEPTION_KEYS = ("budget", "reason", "until")


@dataclass(frozen=True)
class Budget:
    """One limit: of the step, the compute share, a bucket, kernels, or findings."""

    subject: str  # as written: step, compute_share, ledger.BUCKET, kernel.PATTERN or findings
    limit: str  # one of LIMITS of its subject
    value: float | str  # ms, a share of 0 to 1, launches, or a severity
    exception: str | None = None  # why another value than the budget's holds, and until when

    @property
    def name(self) -> str:
        return f"{self.subject}.{self.limit}"

    @property
    def is_relative(self) -> bool:
        """Whether it takes two sides to judge it."""
        return self.limit in RELATIVE


def read_budgets(
    values: Any, exceptions: Any, text: str, today: datetime.date | None = None
) -> tuple[tuple[Budget, ...], list[str]]:
    """Return the budgets in a settings file, with exceptions that have not ended, and all mistakes with their lines."""
    places = Places(text)
    mistakes: list[str] = []
    budgets = {budget.name: budget for budget in _budgets(values, places, mistakes)}
    for name, budget in _exceptions(exceptions, budgets, places, mistakes, today or datetime.date.today()):
        budgets[name] = budget
    return tuple(budgets.values()), mistakes


def _budgets(values: Any, places: Places, mistakes: list[str]) -> Iterator[Budget]:
    if not isinstance(values, dict):
        mistakes.append(f"{places.line('budgets', '')}budgets must be a table")
        return
    for subject, limits in _subjects(values):
        where = places.line("budgets", subject)
        kind = subject.split(".")[0]
        if kind not in LIMITS:
            hint = suggestion(kind, LIMITS, f"known: {', '.join(LIMITS)}")
            mistakes.append(f"{where}unknown budget {subject!r} ({hint})")
            continue
        if mistake := _subject_mistake(subject):
            mistakes.append(f"{where}{mistake}")
            continue
        if not isinstance(limits, dict) or not limits:
            mistakes.append(f"{where}{subject} needs limits: {', '.join(LIMITS[kind])}")
            continue
        yield from _limits(subject, limits, where, mistakes)


def _subjects(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each subject; without quotes TOML takes the dots of ledger.host.io for tables in tables."""
    for key, item in values.items():
        yield from _unfolded(key, item)


def _unfolded(key: str, item: Any) -> Iterator[tuple[str, Any]]:
    kind = key.split(".")[0]
    if isinstance(item, dict) and kind in ("ledger", "kernel") and any(isinstance(x, dict) for x in item.values()):
        for inner, value in item.items():
            yield from _unfolded(f"{key}.{inner}", value)
    else:
        yield key, item


def _subject_mistake(subject: str) -> str | None:
    kind, dot, name = subject.partition(".")
    if kind in ("ledger", "kernel"):
        if not name:
            return f"{subject} names none: write {kind}.NAME"
        if kind == "ledger":
            from traceanalyzer.attribution.columns import BUCKETS

            if name not in BUCKETS:
                return f"no bucket {name!r} ({suggestion(name, BUCKETS, 'metrics show time_ledger lists them')})"
    elif dot:
        return f"unknown budget {subject!r} (did you mean {kind!r}?)"
    return None


def _limits(subject: str, limits: Mapping[str, Any], where: str, mistakes: list[str]) -> Iterator[Budget]:
    known = LIMITS[subject.split(".")[0]]
    for limit, raw in limits.items():
        if limit not in known:
            hint = suggestion(limit, known, f"known: {', '.join(known)}")
            mistakes.append(f"{where}unknown limit {subject}.{limit} ({hint})")
            continue
        value = _value(limit, raw)
        if value is None:
            mistakes.append(f"{where}{subject}.{limit} must be {_expected(limit)}, not {raw!r}")
        else:
            yield Budget(subject, limit, value)


def _value(limit: str, raw: Any) -> float | str | None:
    """Return the value of a limit; None where its unit or type is wrong."""
    if limit in ("any", "new"):
        from traceanalyzer.diagnosis import SEVERITIES

        return raw if isinstance(raw, str) and raw in SEVERITIES else None
    if limit in ("slower", "more"):
        percent = _PERCENT.match(raw) if isinstance(raw, str) else None
        return float(percent[1]) / 100 if percent else None
    is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
    if not is_number or not 0 <= raw < float("inf"):
        return None
    if limit in ("min", "max_share") and raw > 1:
        return None
    return float(raw)


def _expected(limit: str) -> str:
    if limit in ("any", "new"):
        from traceanalyzer.diagnosis import SEVERITIES

        return f"a severity ({', '.join(SEVERITIES)})"
    if limit in ("slower", "more"):
        return 'a percentage in quotes, such as "3%"'
    if limit in ("min", "max_share"):
        return "a share from 0 to 1"
    return "a number of launches a step" if limit == "more_launches" else "a number of milliseconds"


def _exceptions(
    values: Any, budgets: Mapping[str, Budget], places: Places, mistakes: list[str], today: datetime.date
) -> Iterator[tuple[str, Budget]]:
    if not isinstance(values, list) or not all(isinstance(item, dict) for item in values):
        mistakes.append(f"{places.line('budget_exception', '')}budget_exception must be tables: [[budget_exception]]")
        return
    for index, item in enumerate(values):
        where = places.item("budget_exception", index)
        subject, reason, until = item.get("budget"), item.get("reason"), item.get("until")
        limits = {key: value for key, value in item.items() if key not in _EXCEPTION_KEYS}
        wrong = _exception_mistake(subject, reason, until, limits, budgets)
        if wrong:
            mistakes += [f"{where}{words}" for words in wrong]
            continue
        ended = until < today
        for budget in _limits(subject, limits, where, mistakes):
            if budget.name not in budgets:
                mistakes.append(f"{where}there is no budget {budget.name} to make an exception of")
            elif not ended:
                words = f"{reason.strip()}, until {until}"
                yield budget.name, Budget(budget.subject, budget.limit, budget.value, words)


def _exception_mistake(
    subject: Any, reason: Any, until: Any, limits: Mapping[str, Any], budgets: Mapping[str, Budget]
) -> list[str]:
    wrong = []
    if not isinstance(subject, str) or not any(budget.subject == subject for budget in budgets.values()):
        known = dict.fromkeys(budget.subject for budget in budgets.values())
        wrong.append(f"the exception must name a budget: {', '.join(known) or 'there is none'}")
    if not isinstance(reason, str) or not reason.strip():
        wrong.append("the exception needs a reason: whoever reads the report will ask")
    if not isinstance(until, datetime.date) or isinstance(until, datetime.datetime):
        wrong.append("until must be a day, such as 2027-03-31: no exception is for ever")
    if not limits:
        wrong.append("the exception needs the limit that holds meanwhile, for example slower")
    return wrong


class Places:
    """Finds the line of a key in a settings file."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")

    def line(self, table: str, subject: str) -> str:
        """Return `line N: ` of a subject in a table, else of the table, else nothing."""
        inside, header = False, ""
        plain = re.compile(rf'^\s*(?:"{re.escape(subject)}"|{re.escape(subject)})\s*[.=]')
        dotted = re.compile(rf'^\s*{table}\.(?:"{re.escape(subject)}"|{re.escape(subject)})\s*[.=]')
        own = re.compile(rf'^\s*\[{table}\.(?:"{re.escape(subject)}"|{re.escape(subject)})\]')
        for number, line in enumerate(self._lines, 1):
            if own.match(line) or dotted.match(line):
                return f"line {number}: "
            if line.lstrip().startswith("["):
                inside = line.strip().startswith(f"[{table}]")
                header = header or (f"line {number}: " if inside else "")
            elif inside and subject and plain.match(line):
                return f"line {number}: "
        return header

    def item(self, table: str, index: int) -> str:
        """Return `line N: ` of the index-th [[table]]."""
        headers = [n for n, line in enumerate(self._lines, 1) if line.strip().startswith(f"[[{table}]]")]
        return f"line {headers[index]}: " if index < len(headers) else ""
