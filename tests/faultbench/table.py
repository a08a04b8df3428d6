"""Prints the rows as a table of Markdown, the scores below it, and what the gates say."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from faultbench.bench import Row
from faultbench.judging import FOUND, MISSED, NO_RULE, Answer

if TYPE_CHECKING:
    from faultbench.real_cpu import RealRow

MOST_POINTS_APART = 1.0
CONFIDENCES = ("high", "medium", "low")
# Of the findings with a confidence so many are right.
LEAST_RIGHT_SHARE = {"high": 0.95, "medium": 0.8}
_HEAD = ("#", "planted", "source", "finding", "where", "twin", "bound", "truth", "off by")
_NONE = "–"


def fault_table(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of the table of faults: one an expected finding."""
    yield f"| {' | '.join(_HEAD)} |"
    yield "|---|---|---|---|---|---|---:|---:|---:|"
    for row in rows:
        for place, answer in enumerate(row.judged.answers):
            first = place == 0
            names = (row.judged.number, row.judged.name, row.source) if first else ("", "", "")
            yield f"| {' | '.join((*names, *_told(answer), _silence(row) if first else '', *_numbers(answer)))} |"


def healthy_table(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of the table of healthy jobs."""
    yield "| # | job | source | must be told | told falsely |"
    yield "|---|---|---|---|---|"
    for row in rows:
        told = ", ".join(f"{a.expected.rule}: {a.state}" for a in row.judged.answers) or _NONE
        false = ", ".join(row.judged.false) or "nothing"
        yield f"| {row.judged.number} | {row.judged.name} | {row.source} | {told} | {false} |"


def real_table(rows: Sequence[RealRow]) -> Iterator[str]:
    """Yield the lines of the table of real pairs."""
    yield "| # | planted | source | read from real names | rules | by the names | truth |"
    yield "|---|---|---|---|---|---:|---:|"
    for row in rows:
        shares = [_NONE if share is None else f"{share:.0%}" for share in (row.share, row.true_share)]
        yield f"| {row.number} | {row.name} | real CPU | {row.read} | {row.verdict} | {' | '.join(shares)} |"


def scores(faults: Sequence[Row], healthy: Sequence[Row]) -> Iterator[str]:
    """Yield recall, precision and the error of the bounds."""
    answers = [answer for row in faults for answer in row.judged.answers]
    found, missed = (sum(answer.state == state for answer in answers) for state in (FOUND, MISSED))
    absent = sorted({answer.expected.rule for answer in answers if answer.state == NO_RULE})
    false = sum(len(judged.false) for row in (*faults, *healthy) for judged in (row.judged, row.twin) if judged)
    jobs = len(faults) + sum(row.twin is not None for row in faults) + len(healthy)
    errors = [abs(answer.error_points) for answer in answers if answer.error_points is not None]
    recall = found / max(1, found + missed)
    yield f"- recall {recall:.0%}: {found} of {found + missed} expected findings, in the place named"
    if absent:
        yield f"- no rule yet, and not counted: {', '.join(absent)}"
    yield f"- precision {found / max(1, found + false):.0%}: {false} false over {jobs} jobs"
    if errors:
        worst, middle = max(errors), statistics.median(errors)
        yield f"- bounds off by {middle:.2f} points (median) and {worst:.2f} (worst) over {len(errors)} savings"


def confidence_table(faults: Sequence[Row], healthy: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table that says how often findings of each confidence were right."""
    yield "| confidence | findings | right | share |"
    yield "|---|---:|---:|---:|"
    for confidence, (right, count) in _by_confidence((*faults, *healthy)).items():
        yield f"| {confidence} | {count} | {right} | {f'{right / count:.0%}' if count else _NONE} |"


def _by_confidence(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """Return for each confidence how many findings were right, and how many had it."""
    judged = [item for row in rows for item in (row.judged, row.twin) if item]
    right = Counter(answer.confidence for item in judged for answer in item.answers if answer.state == FOUND)
    false = Counter(confidence for item in judged for confidence in item.false_confidences)
    return {name: (right[name], right[name] + false[name]) for name in CONFIDENCES}


def failures(faults: Sequence[Row], healthy: Sequence[Row]) -> Iterator[str]:
    """Yield every gate that a row or a confidence does not pass."""
    by_confidence = _by_confidence((*faults, *healthy))
    for confidence, least_share in LEAST_RIGHT_SHARE.items():
        right, count = by_confidence[confidence]
        if right < least_share * count:
            yield f"{right} of {count} findings of {confidence} confidence are right, fewer than {least_share:.0%}"
    for row in (*faults, *healthy):
        name = f"{row.judged.number} {row.judged.name}"
        for answer in row.judged.answers:
            if answer.state == MISSED:
                yield f"{name}: {answer.expected.rule} was not found ({answer.where})"
            elif answer.error_points is not None and abs(answer.error_points) > MOST_POINTS_APART:
                yield f"{name}: the bound of {answer.expected.rule} is off by {answer.error_points:+.1f} points"
        for judged in (row.judged, row.twin):
            for text in judged.false if judged else ():
                yield f"{judged.number if judged else ''} {judged.name if judged else ''}: {text}"
        yield from (f"{name}: formats disagree, {text}" for text in row.contradictions)


def _told(answer: Answer) -> tuple[str, str]:
    return (
        f"`{answer.expected.rule}`",
        answer.where if answer.state == FOUND else f"**{answer.state}** {answer.where}".strip(),
    )


def _silence(row: Row) -> str:
    if row.twin is None:
        return _NONE
    return "silent" if not row.twin.false else f"**tells** {', '.join(row.twin.false)}"


def _numbers(answer: Answer) -> tuple[str, str, str]:
    bound, truth, off = answer.bound_share, answer.true_share, answer.error_points
    return (
        _NONE if bound is None or answer.state == NO_RULE else f"{bound:.1%}",
        _NONE if truth is None else f"{truth:.1%}",
        _NONE if off is None or answer.state == NO_RULE else f"{off:+.2f}",
    )
