"""Evaluates rules on a run, and clears a finding that saves less than two runs of the same job differ by.

Judges the traces: a quality rule that fires as a blocker makes others abstain, a warning lowers their confidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
from msgspec import Struct, field
from msgspec.structs import replace

from traceanalyzer.diagnosis import SEVERITIES
from traceanalyzer.rules.evaluation.confidence import Confidence, least
from traceanalyzer.rules.evaluation.places import RunPlaces
from traceanalyzer.rules.evaluation.removals import Device, RememberedScan, Removal
from traceanalyzer.rules.evaluation.run_savings import Removals, RunSavings
from traceanalyzer.rules.evaluation.sandbox import SharedMetrics
from traceanalyzer.rules.evaluation.verdicts import Question, Verdict, evaluate
from traceanalyzer.rules.rule_file.model import (
    ABSTAINED,
    CLEAR,
    EXPLANATION,
    FINDING,
    FIRED,
    QUALITY,
    RUN,
    ParamValue,
    Rule,
)
from traceanalyzer.rules.rule_file.template import render
from traceanalyzer.text.words import lower_first

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
            Confidence(_HIGHEST_CONFIDENCE[item.severity or ""], lower_first(item.rule.title))
            for item in warnings
            if verdict.rule.kind == FINDING and _concerns(item, verdict)
        ]
        lowered.append(replace(verdict, confidence=least([verdict.confidence, *limits])))
    return lowered


def _concerns(warning: Verdict, verdict: Verdict) -> bool:
    """Return whether a warning about a trace concerns a finding: one about the run rests on every trace."""
    return warning.place.trace == verdict.place.trace or (verdict.rule.scope == RUN and warning.place.trace is not None)


def _is_about_time(rule: Rule) -> bool:
    return rule.kind == EXPLANATION or not rule.claims.is_empty or "bounds" in rule.requires


def _reason(verdict: Verdict) -> str:
    return f"blocked by {verdict.rule.id}"


def _message(verdict: Verdict, values: Values) -> str:
    return render(verdict.rule.message, {**values[verdict.rule.id], **verdict.row})


# A finding that can save less is noise: the same run twice differs by as much.
MIN_IMPACT_SHARE = 0.01
TOO_LITTLE, BELOW_NOISE = "too-little", "below-noise-floor"


class Evaluator(Struct, frozen=True):
    """Evaluates the rules of one diagnosis; `values` holds each rule's parameters."""

    con: duckdb.DuckDBPyConnection
    run: RunPlaces
    scan: RememberedScan
    run_savings: RunSavings
    values: Mapping[str, Mapping[str, ParamValue]]
    min_impact_share: float
    # By rule id, of the rules asked so far: what fixes take away, and whether the run has nothing for a rule to find.
    removals: dict[str, Mapping[Device, Removal]] = field(default_factory=dict)
    idle: dict[str, bool] = field(default_factory=dict)
    metrics: SharedMetrics | None = None

    def evaluate(
        self, rule: Rule, fixed: Removals | None = None, added: Mapping[Device, int] | None = None
    ) -> list[Verdict]:
        """Return a rule's verdicts; with `fixed`, on what its fix adds to that, which is `added` where it is known."""
        question = Question(
            self.scan,
            fixed or {},
            added,
            self.min_impact_share,
            run_savings=self.run_savings,
            removals=self.removals,
            idle=self.idle,
            metrics=self.metrics,
        )
        verdicts = evaluate(self.con, rule, self.run, self.values[rule.id], question)
        return [clear_if_little(verdict, self.min_impact_share) for verdict in verdicts]

    def evaluate_beside(self, rule: Rule, fixed: Removals, beside: Sequence[str]) -> list[Verdict]:
        """Return a rule's verdicts on what its fix adds to `fixed`, and on what the rules `beside` it do not claim."""
        question = Question(
            self.scan, fixed, beside=tuple(beside), removals=self.removals, idle=self.idle, metrics=self.metrics
        )
        return evaluate(self.con, rule, self.run, self.values[rule.id], question)

    def prepare(self, rules: Sequence[Rule]) -> None:
        """Scan each device once for the causes of all rules: one by one takes several times as long."""
        whole = [rule for rule in rules if rule.op_saving is None and not rule.removes_claimed]
        removals = [Removal(frozenset(rule.removes)) for rule in whole]
        self.scan.prepare(dict.fromkeys(self.run.windows, removals))


def fire(evaluator: Evaluator, rules: Sequence[Rule]) -> list[Verdict]:
    """Return the verdicts of the rules that find what costs time, each rule by itself."""
    return [verdict for rule in rules if rule.kind == FINDING for verdict in evaluator.evaluate(rule)]


def clear_if_little(verdict: Verdict, min_impact_share: float) -> Verdict:
    """Return the verdict, or clear where it fired on less time than two runs of the same job differ by."""
    share = verdict.bound_share
    noise_share = verdict.row.get("noise_share") or 0.0
    if verdict.state != FIRED or verdict.rule.kind != FINDING or share is None:
        return verdict
    if share < min_impact_share:
        detail = f"can save {share:.1%}, less than the {min_impact_share:.1%} that is worth a word"
        return replace(verdict, state=CLEAR, reason=TOO_LITTLE, detail=detail.replace("%", " %"))
    if share < noise_share:
        detail = f"can save {share:.1%}, less than the {noise_share:.1%} by which steps differ by chance here"
        return replace(verdict, state=CLEAR, reason=BELOW_NOISE, detail=detail.replace("%", " %"))
    return verdict
