"""Judges the traces: a quality rule that fires as a blocker makes others abstain, a warning lowers their confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from traceanalyzer.diagnosis import SEVERITIES
from traceanalyzer.rules.diagnosis.firing import Evaluator
from traceanalyzer.rules.evaluation.confidence import Confidence, least
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.rule_file.model import (
    ABSTAINED,
    EXPLANATION,
    FINDING,
    FIRED,
    QUALITY,
    RUN,
    ParamValue,
    Rule,
)
from traceanalyzer.rules.rule_file.template import render

BLOCKER = "blocker"
# The highest confidence of a finding where a quality rule fired with this severity on its trace.
_HIGHEST_CONFIDENCE = {"warning": "medium", BLOCKER: "low"}

Values = Mapping[str, Mapping[str, ParamValue]]


def judge_quality(evaluator: Evaluator, rules: Sequence[Rule]) -> list[Verdict]:
    """Return the verdicts of the rules about how far to trust the traces."""
    return [verdict for rule in rules if rule.kind == QUALITY for verdict in evaluator.evaluate(rule)]


def run_blocker(quality: Sequence[Verdict], values: Values) -> str | None:
    """Return why the ranks of a run must not be compared, as 'reason: detail'; None: they may."""
    for verdict in quality:
        serious = SEVERITIES.index(verdict.severity or "note") >= SEVERITIES.index("warning")
        if verdict.state == FIRED and (verdict.severity == BLOCKER or (verdict.rule.blocks == RUN and serious)):
            return f"{_reason(verdict)}: {_message(verdict, values)}"
    return None


def abstain_where_blocked(verdicts: Sequence[Verdict], quality: Sequence[Verdict], values: Values) -> list[Verdict]:
    """Return the verdicts; one about time abstains where a blocker says that the times are wrong."""
    blockers = [
        verdict
        for verdict in quality
        if verdict.state == FIRED and verdict.severity == BLOCKER and verdict.rule.blocks != RUN
    ]
    judged = []
    for verdict in verdicts:
        wrong = next((item for item in blockers if item.place.meets(verdict.place)), None)
        if wrong is not None and verdict.state != ABSTAINED and _is_about_time(verdict.rule):
            unlock = wrong.rule.fixes[wrong.fix_order[0]].text if wrong.fix_order else None
            verdict = replace(
                verdict, state=ABSTAINED, reason=_reason(wrong), detail=_message(wrong, values), unlock=unlock
            )
        judged.append(verdict)
    return judged


def lower_confidence(verdicts: Sequence[Verdict], quality: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts with no more confidence than the quality of their trace allows; their state stays."""
    warnings = [verdict for verdict in quality if verdict.state == FIRED and verdict.severity in _HIGHEST_CONFIDENCE]
    lowered = []
    for verdict in verdicts:
        limits = [
            Confidence(_HIGHEST_CONFIDENCE[item.severity or ""], _lower_first(item.rule.title))
            for item in warnings
            if verdict.rule.kind == FINDING and _concerns(item, verdict)
        ]
        lowered.append(replace(verdict, confidence=least([verdict.confidence, *limits])))
    return lowered


def _lower_first(title: str) -> str:
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def _concerns(warning: Verdict, verdict: Verdict) -> bool:
    """Return whether a warning about a trace concerns a finding: one about the run rests on every trace."""
    return warning.place.trace == verdict.place.trace or (verdict.rule.scope == RUN and warning.place.trace is not None)


def _is_about_time(rule: Rule) -> bool:
    return rule.kind == EXPLANATION or not rule.claims.is_empty or "bounds" in rule.requires


def _reason(verdict: Verdict) -> str:
    return f"blocked by {verdict.rule.id}"


def _message(verdict: Verdict, values: Values) -> str:
    return render(verdict.rule.message, {**values[verdict.rule.id], **verdict.row})
