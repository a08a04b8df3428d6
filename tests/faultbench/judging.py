"""Compares a diagnosis with what was planted: what it found where, its false alarms, how far bounds are off."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from faultbench.examining import Examined
from faultbench.planted import Expected, Fault, Healthy
from traceanalyzer.diagnosis import SEVERITIES, Finding

LOUD = SEVERITIES.index("medium")
# What a rule may own of a job that has another fault.
LITTLE_SHARE = 0.01
FOUND, MISSED, NO_RULE = "found", "missed", "no rule yet"
POINTS = 100


@dataclass(frozen=True)
class Answer:
    """What became of one expected finding."""

    expected: Expected
    state: str  # found, missed or no rule yet
    where: str = ""
    bound_share: float | None = None
    true_share: float | None = None
    confidence: str | None = None  # of the finding, where there is one

    @property
    def error_points(self) -> float | None:
        """Return by how many percentage points the bound is too high."""
        if self.bound_share is None or self.true_share is None:
            return None
        return POINTS * (self.bound_share - self.true_share)


@dataclass(frozen=True)
class Judged:
    """What a diagnosis got right and wrong about one job."""

    number: str
    name: str
    answers: tuple[Answer, ...]
    false: tuple[str, ...]  # findings of medium and above that are not so, and silences that were broken
    false_confidences: tuple[str, ...] = ()  # of these findings


def judge_fault(fault: Fault, seen: Examined, known: frozenset[str]) -> Judged:
    """Return what was found of a planted fault; `known` are the rules that exist."""
    answers = tuple(_answer(expected, seen, known) for expected in fault.expected)
    owning = [
        found for found in seen.findings if found.rule in fault.silent and (found.owned_share or 0) > LITTLE_SHARE
    ]
    false = [f"{found.rule} owns {found.owned_share or 0:.1%}" for found in owning]
    false += _looked(fault.abstains, seen)
    return Judged(fault.number, fault.name, answers, tuple(false), tuple(found.confidence for found in owning))


def judge_twin(fault: Fault, seen: Examined) -> Judged:
    """Return the false alarms about a near miss."""
    must_be_silent = {*fault.twin_silent, *(expected.rule for expected in fault.expected)} - set(fault.twin_tells)
    false, confidences = _false(seen, fault.twin_tells, must_be_silent)
    return Judged(fault.number, f"twin of {fault.name}", (), tuple(false), confidences)


def judge_healthy(case: Healthy, seen: Examined, known: frozenset[str]) -> Judged:
    """Return the false alarms about a healthy job, and what became of the findings that it must have all the same."""
    answers = tuple(_answer(Expected(rule, first=False), seen, known) for rule in case.tells)
    false, confidences = _false(seen, case.tells, set(case.silent))
    false += _looked(case.abstains, seen)
    return Judged(case.number, case.name, answers, tuple(dict.fromkeys(false)), confidences)


def promised_share(found: Finding) -> float | None:
    """Return what a finding promises: of the whole run, where ranks wait for each other."""
    return found.saving_share if found.run_saving_share is None else found.run_saving_share


def contradictions(first: Examined, second: Examined) -> list[str]:
    """Return the rules that two recordings of one job judge differently, where both had the data."""
    one, other = first.states(), second.states()
    found = []
    for key in sorted(one.keys() & other.keys(), key=str):
        if "abstained" not in (one[key], other[key]) and one[key] != other[key]:
            found.append(f"{key[0]} of rank {key[1]}: {one[key]} and {other[key]}")
    return found


def finding_of(expected: Expected, findings: Sequence[Finding]) -> Finding | None:
    """Return the finding that was expected, on the rank that it should name."""
    for found in findings:
        right_rank = expected.rank is None or (found.rank == expected.rank and len(found.same_on_ranks) <= 1)
        right_severity = expected.severity in (None, found.severity)
        if found.rule == expected.rule and right_rank and right_severity and re.search(expected.says, found.message):
            return found
    return None


def _answer(expected: Expected, seen: Examined, known: frozenset[str]) -> Answer:
    true_share = None if expected.without is None else seen.true_share(expected.without)
    if expected.rule not in known:
        return Answer(expected, NO_RULE, true_share=true_share)
    if expected.attached_to is not None:
        return _explanation(expected, seen)
    found = finding_of(expected, seen.diagnosis.findings)
    if found is None or (expected.first and not _is_first(found, seen)):
        told = ", ".join(dict.fromkeys(item.rule for item in seen.findings)) or "nothing"
        where = f"told: {told}" if found is None else f"behind {told}"
        return Answer(expected, MISSED, where, None if found is None else promised_share(found), true_share)
    return Answer(expected, FOUND, _place(found), promised_share(found), true_share, found.confidence)


def _explanation(expected: Expected, seen: Examined) -> Answer:
    """Return what became of an explanation, which stands under the finding that it explains."""
    for found in seen.findings:
        for told in found.explanations:
            if (
                (found.rule, told.rule) == (expected.attached_to, expected.rule)
                and expected.rank in (None, told.rank)
                and re.search(expected.says, told.message)
            ):
                return Answer(expected, FOUND, f"under {found.rule}", confidence=told.confidence)
    explanations = sorted({f"{told.rule} under {found.rule}" for found in seen.findings for told in found.explanations})
    return Answer(expected, MISSED, f"told: {', '.join(explanations) or 'no explanation'}")


def _looked(rules: Sequence[str], seen: Examined) -> list[str]:
    """Return the rules that should have abstained, and did not."""
    return sorted(
        {f"{rule} {state}" for (rule, _, _), state in seen.states().items() if rule in rules and state != "abstained"}
    )


def _is_first(found: Finding, seen: Examined) -> bool:
    """Return whether a finding comes before every other one, or is another fix for the same time as the first."""
    first = seen.findings[0]
    return found is first or (found.status == "alternative" and first.rule in found.alternatives)


def _place(found: Finding) -> str:
    ranks = found.same_on_ranks or (() if found.rank is None else (found.rank,))
    where = "" if len(ranks) == 0 else f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]}–{ranks[-1]}"
    status = "" if found.status == "primary" else found.status
    return ", ".join(part for part in (where, status, found.severity) if part)


def _false(seen: Examined, told: Sequence[str], must_be_silent: set[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the false alarms and their confidence: findings from medium severity on, and all of some rules.

    Those rules must not explain a finding either. What is said to matter only once something else is fixed is no claim
    about the job as it is.
    """
    reasons = [
        (f"{explanation.rule} under {found.rule}", explanation.confidence)
        for found in seen.findings
        for explanation in found.explanations
        if explanation.rule in must_be_silent
    ]
    findings = [
        (f"{found.rule} ({found.severity}{'' if found.rank is None else f', rank {found.rank}'})", found.confidence)
        for found in seen.findings
        if found.rule not in told
        and found.status != "latent"
        and (SEVERITIES.index(found.severity) >= LOUD or found.rule in must_be_silent)
    ]
    told_falsely = reasons + findings
    return [text for text, _ in told_falsely], tuple(confidence for _, confidence in told_falsely)
