"""What quality rules do to the others: a blocker makes them abstain, a warning lowers their confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from traceanalyzer.diagnosis import SEVERITIES
from traceanalyzer.rules.model import ABSTAINED, CONFIDENCES, EXPLANATION, FINDING, FIRED, RUN, ParamValue, Rule
from traceanalyzer.rules.template import render
from traceanalyzer.rules.verdicts import Verdict

BLOCKER = "blocker"
# The most that a finding is trusted where a quality rule fired with this severity on its trace.
_DOUBTS = {"warning": "medium", BLOCKER: "low"}

Values = Mapping[str, Mapping[str, ParamValue]]


def run_blocker(quality: Sequence[Verdict], values: Values) -> str | None:
    """Return why the ranks of a run must not be held against each other, as 'reason: detail'; None: they may."""
    for verdict in quality:
        serious = SEVERITIES.index(verdict.severity or "note") >= SEVERITIES.index("warning")
        if verdict.state == FIRED and (verdict.severity == BLOCKER or (verdict.rule.blocks == RUN and serious)):
            return f"{_reason(verdict)}: {_said(verdict, values)}"
    return None


def blocked(verdicts: Sequence[Verdict], quality: Sequence[Verdict], values: Values) -> list[Verdict]:
    """Return verdicts, of which those on time abstain where a blocker says that the times are wrong."""
    blockers = [
        verdict
        for verdict in quality
        if verdict.state == FIRED and verdict.severity == BLOCKER and verdict.rule.blocks != RUN
    ]
    found = []
    for verdict in verdicts:
        wrong = next((item for item in blockers if item.place.meets(verdict.place)), None)
        if wrong is not None and verdict.state != ABSTAINED and _is_about_time(verdict.rule):
            unlock = wrong.rule.fixes[wrong.fix_order[0]].text if wrong.fix_order else None
            verdict = replace(
                verdict, state=ABSTAINED, reason=_reason(wrong), detail=_said(wrong, values), unlock=unlock
            )
        found.append(verdict)
    return found


def doubted(verdicts: Sequence[Verdict], quality: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts with the confidence that their trace's quality leaves them: the verdict itself stays."""
    doubts = [verdict for verdict in quality if verdict.state == FIRED and verdict.severity in _DOUBTS]
    found = []
    for verdict in verdicts:
        limits = [
            CONFIDENCES.index(_DOUBTS[item.severity or ""])
            for item in doubts
            if verdict.rule.kind == FINDING and _is_doubted(item, verdict)
        ]
        level = min([CONFIDENCES.index(verdict.confidence), *limits])
        found.append(replace(verdict, confidence=CONFIDENCES[level]))
    return found


def _is_doubted(doubt: Verdict, verdict: Verdict) -> bool:
    """Tell whether what is doubtful about a trace touches a finding: one about the run rests on every trace."""
    return doubt.place.trace == verdict.place.trace or (verdict.rule.scope == RUN and doubt.place.trace is not None)


def _is_about_time(rule: Rule) -> bool:
    return rule.kind == EXPLANATION or not rule.claims.is_empty


def _reason(verdict: Verdict) -> str:
    return f"blocked by {verdict.rule.id}"


def _said(verdict: Verdict, values: Values) -> str:
    return render(verdict.rule.message, {**values[verdict.rule.id], **verdict.row})
