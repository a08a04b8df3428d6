"""Checks of the names and numbers in a scenario, which raise TraceAnalyzerError."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from traceanalyzer.errors import TraceAnalyzerError


def unknown_name_error(noun: str, name: object, known: Iterable[str]) -> TraceAnalyzerError:
    """Return the error for an unknown name, with the nearest known one as the hint."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    return TraceAnalyzerError(f"unknown {noun} {name!r}", "scenario", hint)


def reject_unknown_keys(given: Mapping[str, object], known: Iterable[str], place: str) -> None:
    """Raise for the first key of a mapping that is not known there."""
    names = set(known)
    for key in given:
        if key not in names:
            raise unknown_name_error(f"key in {place}", key, names)


def checked_number(value: object, place: str) -> float:
    """Return a finite number that is not negative, or raise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise TraceAnalyzerError(f"{place}: {value!r} is not a number from 0", "scenario", "times are in microseconds")
    return value


def checked_count(value: object, place: str) -> int:
    """Return a whole number from 0, or raise."""
    number = checked_number(value, place)
    if number != int(number):
        raise TraceAnalyzerError(f"{place}: {value!r} is not a whole number", "scenario")
    return int(number)


def checked_flag(value: object, place: str) -> bool:
    """Return a truth value, or raise."""
    if not isinstance(value, bool):
        raise TraceAnalyzerError(f"{place}: {value!r} is not true or false", "scenario")
    return value


def checked_text(value: object, place: str) -> str:
    """Return a text, or raise."""
    if not isinstance(value, str):
        raise TraceAnalyzerError(f"{place}: {value!r} is not a text", "scenario")
    return value


def checked_choice(value: object, choices: Iterable[str], place: str) -> str:
    """Return one of a few words, or raise."""
    text = checked_text(value, place)
    if text not in set(choices):
        raise unknown_name_error(place, text, choices)
    return text
