"""What a rule's finding looks like: the report of its own first fired test."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace

from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.report.blocks import Paragraph, Section
from traceanalyzer.report.diagnosis_blocks import trust_blocks
from traceanalyzer.report.diagnosis_blocks.findings import finding_sections
from traceanalyzer.report.renderers import markdown
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.rule_file.model import EXPLANATION, FIRED, QUALITY, Rule, RuleTest, render
from tracesim import in_memory, simulate_job
from tracesim.rule_tests import run_rule_test


@dataclass(frozen=True)
class Example:
    """A finding as a reader sees it, and the test that it is from."""

    test: str
    text: str


def example_of(rule: Rule, rules: Mapping[str, Rule]) -> Example:
    """Return the example of a rule's page: of its first fired test whose simulated run gives a finding.

    Literal rows are no run to diagnose: where no other test fires, the example is the message alone. `rules` are all
    rules by id.
    """
    fired = [test for test in rule.tests if test.expect.get("state") == FIRED]
    for test in fired:
        if test.sim is not None and not test.tables:
            text = example_finding(rule, test, [rules[name] for name in rule.attaches_to if name in rules])
            if text:
                return Example(test.name, text)
    message = render(rule.message, {**rule.values(fired[0].params), **run_rule_test(rule, fired[0]).row})
    return Example(fired[0].name, _rendered([Section((Paragraph(message),))]))


def example_finding(rule: Rule, test: RuleTest, explained: list[Rule]) -> str:
    """Return what a report says of a rule's finding on the simulated run of a test; '' where it says nothing.

    A rule that explains others stands under a finding of theirs. The page lists fixes and reasons itself.
    """
    params = {f"{rule.id}.{name}": value for name, value in test.params.items()}
    evaluated = [rule, *explained]
    tables = simulate_job(test.sim or {}).canonical_tables()
    with in_memory.connect_tables(tables, readers=readers(evaluated)) as connection:
        diagnosis = diagnose(connection, evaluated, params)
    findings = tuple(_shortened(finding) for finding in diagnosis.findings if _shows(finding, rule))
    if not findings:
        return ""
    return _rendered(_sections(rule, replace(diagnosis, findings=findings)))


def _sections(rule: Rule, diagnosis: Diagnosis) -> list[Section]:
    if rule.kind == QUALITY:
        return [Section(trust_blocks(diagnosis, verbose=True)[:1])]
    # The page has the title: a section's heading would stand above those of the page.
    return [Section(section.blocks) for section in finding_sections(diagnosis, verbose=False)[:1]]


def _shortened(finding: Finding) -> Finding:
    reasons = tuple(replace(reason, fixes=()) for reason in finding.explanations)
    return replace(finding, fixes=(), why="", explanations=reasons)


def _shows(finding: Finding, rule: Rule) -> bool:
    if rule.kind == EXPLANATION:
        return any(reason.rule == rule.id for reason in finding.explanations)
    return finding.rule == rule.id


def _rendered(sections: list[Section]) -> str:
    stream = io.StringIO()
    markdown.render(sections, stream)
    return stream.getvalue()
