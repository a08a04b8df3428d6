"""Findings: each with what it saves, where, the evidence and the fix; why and what else there is on demand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.diagnosis import SEVERITIES, AttachedExplanation, Diagnosis, Evidence, Finding, Fix, plan_of_finding
from traceanalyzer.diagnosis.findings import asks_for_recording, worth_share
from traceanalyzer.diagnosis.verdict import ledger_of, pooled_ledger, problems
from traceanalyzer.report.blocks import Block, Code, Facts, Heading, Link, Paragraph, Section, Table, Text
from traceanalyzer.report.diagnosis_blocks.ranks import finding_place
from traceanalyzer.text.words import (
    column_words,
    confidence_words,
    counted,
    duration,
    gain,
    listed,
    percent,
    value_words,
)

if TYPE_CHECKING:
    from traceanalyzer.rules.rule_file.model import RuleFix

MOST_FINDINGS = 6
# Rows of evidence of the first findings; others show theirs with -v.
MOST_ROWS = (3, 2)
MOST_PLACES = 2
# A finding in fewer of the steps says so.
FEW_STEPS_SHARE = 0.3
# Times of steps that differ by less are alike.
ALIKE_SHARE = 0.05
# A finding shows its time today beside its saving where the saving is at least this share of that time.
LIKE_SAVING_SHARE = 0.5
# A fix that saves less than another by this much of it saves a part of its time, and not the same.
LIKE_RIVAL_SHARE = 0.2
# What a rank and the run save are both shown where they differ by more.
SAME_SHARE = 0.005
# In a message that says how much of the rank's saving is sure.
_SURE = "is sure to be saved"
# Of a finding where the trace speaks against each fix of its rule.
NO_FIX = "None of the known fixes fits this program."
_FIX = Text("fix", "good")
_BECAUSE = Text("because", "caution")
_ALSO = Text("also", "dim")
# Columns of evidence that others say for people.
_FOR_PROGRAMS = ("start_ns", "dur_ns")


def finding_sections(diagnosis: Diagnosis, *, verbose: bool) -> list[Section]:
    """Return the findings about the program in the order of fixes; the harmless ones take a line each."""
    findings = problems(diagnosis)
    loud = [finding for finding in findings if verbose or SEVERITIES.index(finding.severity) > SEVERITIES.index("info")]
    shown = findings_by_rule(loud)[: None if verbose else MOST_FINDINGS]
    rules = {finding.rule for finding, _ in shown}
    sections = []
    for number, (finding, others) in enumerate(shown, 1):
        shown_rows = MOST_ROWS[number - 1] if number <= len(MOST_ROWS) else 0
        heading = Heading(finding.title, mark=Text(str(number), finding.severity), tag=finding.rule)
        blocks = _detailed(diagnosis, finding, others) if verbose else _short(diagnosis, finding, others, shown_rows)
        sections.append(Section(tuple(blocks), heading))
    rest = [finding for finding in findings if finding not in loud or finding.rule not in rules]
    if rest:
        minor = [
            Paragraph(
                f"{worth_words(finding)}: {finding.message}" if worth_share(finding) else finding.message,
                label=Text(finding.severity, finding.severity),
            )
            for finding in rest
        ]
        sections.append(Section(tuple(minor), Heading("Minor findings", (Text("details with -v", "dim"),))))
    return sections


def findings_by_rule(findings: Sequence[Finding]) -> list[tuple[Finding, list[Finding]]]:
    """Return the first finding of each rule, and the others; what explains several stands under the first."""
    explained: set[tuple[str, str]] = set()
    groups = []
    for rule in dict.fromkeys(finding.rule for finding in findings):
        first, *others = [finding for finding in findings if finding.rule == rule]
        news = tuple(item for item in first.explanations if (item.rule, item.message) not in explained)
        explained |= {(item.rule, item.message) for item in news}
        groups.append((replace(first, explanations=news), others))
    return groups


def left_out(diagnosis: Diagnosis) -> list[str]:
    """Say what of the findings is shown only with `verbose`."""
    findings = {finding.rule: finding for finding in reversed(problems(diagnosis))}.values()
    fixes = sum(len(finding.fixes[1:]) for finding in findings)
    fixes += sum(len(explanation.fixes[1:]) for finding in findings for explanation in finding.explanations)
    rivals = sum(len(finding.alternatives) for finding in findings if finding.status != "alternative")
    places = sum(
        max(0, count - 1 - MOST_PLACES) for count in Counter(item.rule for item in problems(diagnosis)).values()
    )
    counts = (
        (fixes, "more fix", "more fixes"),
        (rivals, "overlapping finding", "overlapping findings"),
        (places, "more place", "more places"),
    )
    more_evidence = ["evidence"] if len(findings) > len(MOST_ROWS) else []
    return (["definitions", *more_evidence] if findings else []) + [
        counted(n, one, many) for n, one, many in counts if n
    ]


def _short(diagnosis: Diagnosis, finding: Finding, others: Sequence[Finding], most_rows: int) -> list[Block]:
    """Return what holds, what shows it and what to do.

    What pays only after other fixes, or is covered by one, waits for its turn with its evidence.
    """
    blocks: list[Block] = [finding_facts(diagnosis, finding), Paragraph(message_words(diagnosis, finding))]
    if most_rows and finding.status not in ("latent", "alternative"):
        blocks += _tables(finding.evidence, most_rows)
    blocks += fix_blocks(finding, 1)
    for explanation in finding.explanations:
        advice = tuple(fix_block(fix, with_code=False) for fix in explanation.fixes[:1])
        blocks.append(Paragraph(because_words(explanation), label=_BECAUSE, blocks=advice))
    return [*blocks, *(also_block(diagnosis, other) for other in others[:MOST_PLACES])]


def also_block(diagnosis: Diagnosis, other: Finding) -> Paragraph:
    """Return where else a rule fired."""
    return Paragraph(other_place_words(diagnosis, other), role="dim", label=_ALSO)


def _detailed(diagnosis: Diagnosis, finding: Finding, others: Sequence[Finding]) -> list[Block]:
    """Return everything about a finding, and the other places where its rule fired."""
    blocks: list[Block] = [
        finding_facts(diagnosis, finding, verbose=True),
        Paragraph(message_words(diagnosis, finding)),
    ]
    if finding.why:
        blocks.append(Paragraph(finding.why, label=Text("why", "dim")))
    blocks += _tables(finding.evidence, None)
    blocks += advice_blocks(diagnosis, finding)
    for other in others:
        facts = " · ".join(item.words for item in finding_facts(diagnosis, other).items)
        message = Paragraph(other.message, role="dim")
        blocks.append(Paragraph(facts, label=_ALSO, blocks=(message,)))
    return [*blocks, *map(Link, finding.references)]


def advice_blocks(diagnosis: Diagnosis, finding: Finding) -> list[Block]:
    """Return every fix of a finding, which fixes save the same time, and why the problem exists."""
    because = [
        Paragraph(
            because_words(item), label=_BECAUSE, blocks=(*_tables(item.evidence, None), *map(fix_block, item.fixes))
        )
        for item in finding.explanations
    ]
    return [*fix_blocks(finding, None), *rival_blocks(diagnosis, finding), *because]


def message_words(diagnosis: Diagnosis, finding: Finding) -> str:
    """Return what a finding says, behind its rank where the numbers are the rank's and the saving is the run's.

    The sentence then promises what its heading does: the run's saving in place of the rank's.
    """
    is_of_rank = finding.rank is not None and len(diagnosis.ledgers) > 1 and pooled_ledger(diagnosis) is None
    if not is_of_rank or finding.run_saving_share is None or _saves_alike(finding):
        return finding.message
    promise = rf"\bup to {re.escape(percent(finding.saving_share or 0.0))} of the (?:time|window|step)\b"
    said, count = re.subn(promise, f"up to {percent(finding.run_saving_share)} of the run", finding.message)
    if count and _SURE not in finding.message:
        return f"Rank {finding.rank}: {said}"
    return f"Rank {finding.rank} alone: {finding.message}"


def _saves_alike(finding: Finding) -> bool:
    """Tell whether a fix saves the same share of its rank and of the run."""
    return abs((finding.run_saving_share or 0.0) - (finding.saving_share or 0.0)) <= SAME_SHARE


def because_words(explanation: AttachedExplanation) -> str:
    """Say an explanation, which rule gave it, and how sure it is where it is not sure."""
    sure = ""
    if explanation.confidence != "high":
        sure = f", {confidence_words(explanation.confidence, explanation.confidence_because)}"
    return f"{explanation.message} ({explanation.rule}{sure})"


def fix_blocks(finding: Finding, most: int | None) -> list[Block]:
    """Return the first fixes, or that none fits."""
    if finding.fixes or any(item.fixes for item in finding.explanations):
        return [fix_block(fix) for fix in finding.fixes[:most]]
    return [Paragraph(NO_FIX, label=_FIX)]


def fix_block(fix: Fix | RuleFix, *, with_code: bool = True) -> Paragraph:
    """Return advice, and the code to paste below it."""
    code = (Code(fix.code, fix.lang),) if fix.code and with_code else ()
    return Paragraph(fix.text, label=_FIX, blocks=code)


def finding_facts(diagnosis: Diagnosis, finding: Finding, *, verbose: bool = False) -> Facts:
    """Return what a finding saves, how severe and how sure it is, where it holds and how often."""
    saving = saving_words(diagnosis, finding, verbose=verbose)
    dim = [
        confidence_words(finding.confidence, finding.confidence_because),
        "experimental" if finding.is_experimental else "",
        finding_place(diagnosis, finding),
        _often(finding),
        _overlap_words(diagnosis, finding),
    ]
    severity = Text(finding.severity, finding.severity)
    items = ([Text(saving, "strong")] if saving else []) + [severity, *(Text(words, "dim") for words in dim if words)]
    return Facts(tuple(items))


def other_place_words(diagnosis: Diagnosis, other: Finding) -> str:
    """Say where else a rule found its problem and what its fix saves there: now, or only once others are made."""
    saving = worth_words(other) if worth_share(other) else other.severity
    overlap = _overlap_words(diagnosis, other)
    plan = plan_of_finding(diagnosis.plans, other)
    before = next((fix.after for fix in plan.fixes if fix.rule == other.rule), ()) if plan is not None else ()
    if other.status == "latent":
        saving += (
            f" once {listed(before)} {'is' if len(before) == 1 else 'are'} fixed" if before else " after other fixes"
        )
    return f"{finding_place(diagnosis, other) or 'here'}: {', '.join(filter(None, (saving, overlap)))}"


def _overlap_words(diagnosis: Diagnosis, finding: Finding) -> str:
    """Say which fixes save the same time as one that is an alternative; nothing of others."""
    if finding.status != "alternative":
        return ""
    rivals = " or ".join(finding.alternatives) or "a fix above"
    return f"{'already covered by' if _is_smaller(diagnosis, finding) else 'overlaps with'} {rivals}"


def _rival_savings(diagnosis: Diagnosis, finding: Finding) -> dict[str, float]:
    """Return what each fix that saves the same time is worth."""
    worth: dict[str, float] = {}
    for item in problems(diagnosis):
        if item.rule in finding.alternatives:
            worth[item.rule] = max(worth_share(item), worth.get(item.rule, 0.0))
    return worth


def _is_smaller(diagnosis: Diagnosis, finding: Finding) -> bool:
    worth = _rival_savings(diagnosis, finding)
    return bool(worth) and worth_share(finding) < (1 - LIKE_RIVAL_SHARE) * min(worth.values())


def rival_blocks(diagnosis: Diagnosis, finding: Finding) -> list[Block]:
    """Say which fixes save the same time: of equals one is enough, else the larger one includes the smaller."""
    worth = _rival_savings(diagnosis, finding)
    rivals = " or ".join(finding.alternatives)
    if finding.status == "alternative":
        if _is_smaller(diagnosis, finding):
            return [Paragraph(f"by {rivals}, which saves this time too", label=Text("already covered", "dim"))]
        words = f"of {rivals or 'a fix above'}: they save mostly the same time, and one is enough"
        return [Paragraph(words, label=Text("instead", "dim"))]
    like = (1 - LIKE_RIVAL_SHARE) * worth_share(finding)
    equals = [rule for rule in finding.alternatives if worth.get(rule, 0.0) >= like]
    smaller = [rule for rule in finding.alternatives if rule not in equals]
    blocks: list[Block] = []
    if equals:
        words = f"{' or '.join(equals)}, which {'saves' if len(equals) == 1 else 'save'} mostly the same time"
        blocks.append(Paragraph(words, label=Text("or", "dim")))
    if smaller:
        words = f"{listed(smaller)}: most of what {'it' if len(smaller) == 1 else 'they'} would save is saved by this"
        blocks.append(Paragraph(words, label=Text("includes", "dim")))
    return blocks


def _often(finding: Finding) -> str:
    """Say how a finding's time spreads over the steps: in how few it lies, or within which range in nearly all."""
    if not finding.step_hits or not finding.step_count:  # in none: its time shows elsewhere today
        return ""
    if finding.step_hits < FEW_STEPS_SHARE * finding.step_count:
        return f"in {finding.step_hits} of {finding.step_count} steps"
    if finding.step_p10_ns is None or finding.step_p90_ns is None or not finding.step_p90_ns:
        return ""
    low, high = duration(finding.step_p10_ns), duration(finding.step_p90_ns)
    if finding.step_p90_ns < LIKE_SAVING_SHARE * (finding.saving_ns or 0) / finding.step_count:
        return ""  # most of the saving is time that shows elsewhere today
    alike = finding.step_p90_ns <= (1 + ALIKE_SHARE) * finding.step_p10_ns
    return "about the same in every step" if alike else f"{low} to {high} in 80 % of the steps"


def worth_words(finding: Finding) -> str:
    """Say what a finding is worth in short: what its fix saves, or what a new recording does without."""
    share = worth_share(finding)
    return f"up to {percent(share) if asks_for_recording(finding) else gain(share)}"


def saving_words(diagnosis: Diagnosis, finding: Finding, *, verbose: bool = False) -> str:
    """Say the bound of a finding per step: what removing its cause alone can save, of the run where ranks wait.

    With `verbose`, say also what the rank saves that it is about.
    """
    ledger = ledger_of(diagnosis, finding)
    if finding.saving_ns is None or finding.saving_share is None or ledger is None:
        return ""
    unit = " per step" if ledger.step_count else ""
    when = _latent_words(diagnosis, finding) if finding.status == "latent" else ""
    # What a recording of the steady state does not have is no saving.
    sign, of_time = ("", " of the time") if asks_for_recording(finding) else ("−", "")
    own = f"{sign}{percent(finding.saving_share)}"
    run_share = finding.run_saving_share
    pooled = pooled_ledger(diagnosis)
    if pooled is not None and run_share is not None:
        run_ns = (finding.run_saving_ns or 0) / pooled.step_count
        return f"{when}up to {sign}{percent(run_share)}{of_time}, {duration(run_ns)}{unit}"
    if run_share is None or _saves_alike(finding):
        return f"{when}up to {own}{of_time}, {duration(finding.saving_ns / max(ledger.step_count, 1))}{unit}"
    run_ns = (finding.run_saving_ns or 0) / max(ledger.step_count, 1)
    alone = f" ({own} of its rank alone)" if verbose else ""
    return f"{when}up to {sign}{percent(run_share)} of the run, {duration(run_ns)}{unit}{alone}"


def _latent_words(diagnosis: Diagnosis, finding: Finding) -> str:
    """Say when a latent fix saves time: after those before it, or together with one that limits as much."""
    plan = plan_of_finding(diagnosis.plans, finding)
    of_pair = plan.fixes[:2] if plan is not None and plan.fixes[0].status == "latent" else ()
    after = next((fix.after for fix in of_pair if fix.rule == finding.rule), ())
    return f"with {listed(after)}: " if after else "next bottleneck: "


def _tables(evidences: Sequence[Evidence], most_rows: int | None) -> list[Table]:
    return [_evidence_table(evidence, evidence.rows[:most_rows]) for evidence in evidences if evidence.rows]


def _evidence_table(evidence: Evidence, rows: Sequence[tuple[object, ...]]) -> Table:
    note = f"{len(evidence.rows) - len(rows)} more with -v" if len(rows) < len(evidence.rows) else ""
    rows = without_repetitions(rows)
    shown = telling_columns(evidence, rows)
    columns = tuple(column_words(evidence.columns[i]) for i in shown)
    cells = tuple(tuple(value_words(evidence.columns[i], row[i]) for i in shown) for row in rows)
    right = frozenset(at for at, i in enumerate(shown) if any(isinstance(row[i], int | float) for row in rows))
    return Table(columns, cells, right=right, title=evidence.title, note=note)


def without_repetitions(rows: Sequence[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Return rows without texts that an earlier column of the row says, alone or as an example of many."""
    return [
        tuple(
            None
            if isinstance(value, str) and any(said in row[:i] for said in (value, f"many, such as {value}"))
            else value
            for i, value in enumerate(row)
        )
        for row in rows
    ]


def telling_columns(evidence: Evidence, rows: Sequence[tuple[object, ...]]) -> list[int]:
    """Return the columns worth showing: not those without values, for programs only, or that repeat another column."""
    for_people = any(column.endswith("ms") for column in evidence.columns)
    shown: list[int] = []
    seen: list[tuple[object, ...]] = []
    for i, column in enumerate(evidence.columns):
        values = tuple(row[i] for row in rows)
        if all(value is None for value in values) or (for_people and column in _FOR_PROGRAMS):
            continue
        if all(isinstance(value, str | None) for value in values) and any(_repeats(values, other) for other in seen):
            continue
        shown.append(i)
        seen.append(values)
    return shown


def _repeats(values: Sequence[object], other: Sequence[object]) -> bool:
    """Return whether a column says nothing that another one does not: equal wherever it has a value."""
    return all(value is None or value == same for value, same in zip(values, other, strict=True))
