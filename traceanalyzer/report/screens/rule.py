"""The page of a rule (what it finds, when it fires, parameters, the fix), and how it reached its verdict on a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from traceanalyzer.report.blocks import Block, Code, Heading, Link, Paragraph, Section, Text
from traceanalyzer.report.diagnosis_blocks.findings import fix_block
from traceanalyzer.rules import builtin_folder
from traceanalyzer.rules.diagnosis.explaining import Explanation, Seen
from traceanalyzer.rules.rule_file.model import CLEAR, EXPERIMENTAL, SCOPE_WORDS, Rule, flowing
from traceanalyzer.text.words import confidence_words

# What is longer is a condition, and has a line of its own.
LONGEST_SEVERITY = len("from what it can save")
KINDS = (
    ("finding", "Problems of the program"),
    ("explanation", "Reasons, shown under the problems that they explain"),
    ("quality", "Problems of the trace"),
)


def list_sections(rules: Sequence[Rule]) -> list[Section]:
    """Return every rule with the problem that it finds, by kind."""
    width = max((len(rule.id) for rule in rules), default=0)
    listed = []
    for kind, title in KINDS:
        lines = [Paragraph(rule.title, label=_label(rule.id, width)) for rule in rules if rule.kind == kind]
        listed.append(Section(tuple(lines), Heading(title)))
    hint = "`traceanalyzer rules show ID` shows what a rule checks and how to fix what it finds."
    return [*listed, Section((Paragraph(hint, role="dim"),))]


def sections(rule: Rule) -> list[Section]:
    is_by_row = not rule.attaches_to and len(rule.severity_words) > LONGEST_SEVERITY
    severity = f"severity {'by its values' if is_by_row else rule.severity_words}"
    facts = [rule.kind, *([] if rule.attaches_to else [severity]), f"{rule.confidence} confidence at most"]
    facts += [rule.status] if rule.status == EXPERIMENTAL else []
    heading = Heading(rule.id, tuple(Text(fact, "dim") for fact in facts))
    return [
        Section((heading, Paragraph(rule.title, role="strong"))),
        *([Section((Paragraph(flowing(rule.why)),))] if rule.why else []),
        Section(tuple(_scope(rule))),
        Section(tuple(_conditions(rule, is_by_row=is_by_row))),
        *_params(rule),
        *(Section((fix_block(fix),)) for fix in rule.fixes),
        Section((Code(rule.select, "sql"),), Heading("Query")),
        Section((*map(Link, rule.references), Link(_place(rule)))),
    ]


def _scope(rule: Rule) -> list[Block]:
    lines = [("says", flowing(rule.message)), ("requires", ", ".join(rule.requires) or "nothing")]
    if rule.kind != "quality":
        lines.append(("looks at", SCOPE_WORDS[rule.scope]))
    lines.append(("explains", ", ".join(rule.attaches_to)) if rule.attaches_to else ("claims", rule.claims_words))
    if rule.refines:
        lines.append(("refines", ", ".join(rule.refines)))
    return _lines(lines)


def _conditions(rule: Rule, *, is_by_row: bool) -> list[Block]:
    lines = [("fires when", flowing(rule.when))]
    lines += [("abstains when", f"{flowing(item.when)}  ({item.reason})") for item in rule.abstain]
    lines += [("severity", rule.severity)] if is_by_row else []
    lines += [("lowers confidence when", f"{flowing(i.when)}  ({i.to}: {i.because})") for i in rule.lower]
    lines += [("tested", test.name) for test in rule.tests if test.expect["state"] == CLEAR]
    return [Paragraph(text, label=_label(name)) for name, text in lines]


def _params(rule: Rule) -> list[Section]:
    if not rule.params:
        return []
    params, names = rule.params.values(), max(map(len, rule.params))
    values = max(len(str(param.default)) for param in params)
    lines = [
        Paragraph(param.why, label=Text(f"{param.name:<{names}}  {param.default!s:<{values}}"))
        for param in rule.params.values()
    ]
    return [Section(tuple(lines), Heading("Parameters", (Text(f"--set {rule.id}.NAME=VALUE", "dim"),)))]


def _lines(lines: Sequence[tuple[str, str]]) -> list[Block]:
    width = max(len(name) for name, _ in lines)
    return [Paragraph(text, label=_label(name, width)) for name, text in lines]


def _label(words: str, width: int = 0) -> Text:
    return Text(f"{words:<{width}}", "label")


def _place(rule: Rule) -> str:
    """Say where the rule's file is: of one that ships with the package, below the folder of them."""
    shipped = rule.path.is_relative_to(builtin_folder())
    return f"rules/{rule.path.relative_to(builtin_folder())}" if shipped else str(rule.path)


_ROLES = {"fired": "bad", "clear": "good", "abstained": "caution"}
_MARKS = {True: ("yes", "good"), False: ("no ", "bad"), None: ("?  ", "caution")}


def explanation_sections(explanations: Sequence[Explanation]) -> list[Section]:
    """Return a section for every place that the rule is about."""
    return [_explanation_section(explanation) for explanation in explanations]


def _explanation_section(explanation: Explanation) -> Section:
    verdict = explanation.verdict
    place = ", ".join(
        f"{name} {value}"
        for name, value in (("trace", verdict.scope.trace), ("device", verdict.scope.device))
        if value is not None
    )
    blocks: list[Block] = [Paragraph(_why_so(explanation))]
    for name, there, detail in explanation.requirements:
        blocks.append(Paragraph(f"{name}{f': {detail}' if detail else ''}", label=_marked("requires  ", there)))
    blocks += _seen_conditions("abstains if", explanation.abstains)
    blocks += _seen_conditions("fires if  ", explanation.when)
    blocks += _seen_conditions("lowered if", explanation.lowers)
    if verdict.state == "fired":
        blocks += _seen_conditions("fix if    ", explanation.fixes)
    if verdict.row:
        values = (Paragraph(_seen_value(value), label=Text(name)) for name, value in verdict.row.items())
        blocks.append(Paragraph("", label=Text("the row", "label"), blocks=tuple(values)))
    notes = (Text(place or "the run", "dim"), Text(verdict.state, _ROLES[verdict.state]))
    return Section(tuple(blocks), Heading(explanation.rule.id, notes))


def _marked(words: str, holds: bool | None) -> Text:
    mark, role = _MARKS[holds]
    return Text(f"{words:<11} {mark}", role)


def _seen_conditions(title: str, group: Sequence[Seen]) -> list[Block]:
    blocks: list[Block] = []
    for seen in group:
        values = ", ".join(f"{name} = {_seen_value(value)}" for name, value in seen.values.items())
        tail = "; ".join(words for words in (values, seen.meaning) if words)
        inner = (Paragraph(tail, role="dim"),) if tail else ()
        blocks.append(Paragraph(seen.text, label=_marked(title, seen.holds), blocks=inner))
    return blocks


def _why_so(explanation: Explanation) -> str:
    verdict = explanation.verdict
    if verdict.state == "abstained":
        why = ": ".join(part for part in (verdict.reason, verdict.detail) if part)
        return f"Skipped. {why}{f'. To record it: {verdict.unlock}' if verdict.unlock else ''}"
    if verdict.state == "fired":
        sure = confidence_words(verdict.confidence.level, verdict.confidence.because)
        return f"Every condition holds: {verdict.severity}, {sure}."
    if verdict.reason in ("too-little", "below-noise-floor", "hidden-by-other-ranks", "hidden-by-other-devices"):
        return f"Every condition holds, but it {verdict.detail}."
    failed = [seen for seen in explanation.when if not seen.holds]
    return f"{len(failed)} of {len(explanation.when)} conditions do not hold." if failed else "It does not hold."


def _seen_value(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
