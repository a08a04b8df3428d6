"""Builds the page of a rule as data for reporters."""

from __future__ import annotations

from msgspec import Struct

from traceanalyzer.rules.rule_file.model import DEVICE, HOST, RUN, TRACE, Param, Rule, RuleFix

_SCOPES = {
    DEVICE: "each device",
    RUN: "each rank against the others",
    HOST: "each trace of a run without GPU work",
    TRACE: "each trace",
}


class RulePage(Struct, frozen=True):
    """A rule as a page: what it says, why it matters, when it fires, what it needs, its knobs and its fixes."""

    id: str
    title: str
    kind: str
    scope: str
    severity: str
    status: str
    confidence: str
    why: str
    when: str
    requires: tuple[str, ...]
    claims: str
    attaches_to: tuple[str, ...]
    refines: tuple[str, ...]
    lowered: tuple[tuple[str, str], ...]  # (to which confidence and why, condition)
    abstains: tuple[tuple[str, str], ...]  # (reason, condition)
    params: tuple[Param, ...]
    fixes: tuple[RuleFix, ...]
    references: tuple[str, ...]
    example: str  # what a fired test reads like
    stays_silent: tuple[str, ...]  # names of the tests that must not fire
    path: str


def rule_page(rule: Rule) -> RulePage:
    silent = tuple(test.name for test in rule.tests if test.expect.get("state") == "clear")
    return RulePage(
        id=rule.id,
        title=rule.title,
        kind=rule.kind,
        scope=_SCOPES[rule.scope],
        severity="from what it can save" if rule.severity == "auto" else rule.severity,
        status=rule.status,
        confidence=rule.confidence,
        why=" ".join(rule.why.split()),
        when=" ".join(rule.when.split()),
        requires=rule.requires,
        claims=_claims(rule),
        attaches_to=rule.attaches_to,
        refines=rule.refines,
        lowered=tuple((f"{item.to}: {item.because}", " ".join(item.when.split())) for item in rule.lower),
        abstains=tuple((item.reason, " ".join(item.when.split())) for item in rule.abstain),
        params=tuple(rule.params.values()),
        fixes=rule.fixes,
        references=rule.references,
        example=" ".join(rule.message.split()),
        stays_silent=silent,
        path=str(rule.path),
    )


def _claims(rule: Rule) -> str:
    if rule.claims.compute_ops is not None:
        return f"kernels where {' '.join(rule.claims.compute_ops.split())}"
    if not rule.claims.causes:
        return "none"
    causes = ", ".join(rule.claims.causes)
    return causes if rule.claims.where is None else f"{causes} where {' '.join(rule.claims.where.split())}"
