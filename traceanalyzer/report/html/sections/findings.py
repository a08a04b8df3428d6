"""The findings as cards in the order of fixes: what was seen and what to do side by side, the place in time below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from traceanalyzer.diagnosis import SEVERITIES, Diagnosis, Evidence, Finding
from traceanalyzer.diagnosis.shares import worth_share
from traceanalyzer.diagnosis.verdict import problems
from traceanalyzer.report.blocks import Link
from traceanalyzer.report.diagnosis_blocks.findings import (
    advice_blocks,
    also_block,
    finding_facts,
    findings_by_rule,
    message_words,
    telling_columns,
    without_repetitions,
    worth_words,
)
from traceanalyzer.report.html.document import CARD_CODE, Part, blocks_markup, filled, shown_name
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.report.html.timelines import Timelines
from traceanalyzer.text.words import column_words, value_words

MOST_CARDS = 12
MOST_COLUMNS = 5
MOST_ROWS = 8
MOST_PLACES = 6
# These columns of evidence stay where there are too many.
_FIRST_COLUMNS = ("at_ms", "ms")


@dataclass(frozen=True)
class EvidenceCell:
    """A value of evidence as it is shown, whole where it is pointed at."""

    words: str
    title: str
    is_number: bool


@dataclass(frozen=True)
class EvidenceRow:
    """A row of evidence; `excerpt` is the timeline that shows its place, None: there is none."""

    cells: tuple[EvidenceCell, ...]
    excerpt: int | None


@dataclass(frozen=True)
class EvidenceTable:
    """Evidence as a small table: `note` is what all rows share, `right` says which columns hold numbers."""

    title: str
    note: str
    columns: tuple[str, ...]
    right: tuple[bool, ...]
    rows: tuple[EvidenceRow, ...]
    more: int


def section(source: PageSource) -> Part | None:
    """Return the cards; harmless findings are rows, and those after the first dozen are folded."""
    diagnosis = source.diagnosis
    findings = problems(diagnosis)
    loud = [finding for finding in findings if SEVERITIES.index(finding.severity) > SEVERITIES.index("info")]
    rules = {finding.rule for finding in loud}
    harmless = list({f.rule: f for f in reversed(findings) if f.rule not in rules}.values())[::-1]
    if not findings:
        return None
    timelines = Timelines(source)
    cards = [_card(source, timelines, at, *group) for at, group in enumerate(findings_by_rule(loud))]
    also = [(f.severity, f.title, f.rule, f.message) for f in harmless]
    values = {
        "cards": cards[:MOST_CARDS],
        "folded": cards[MOST_CARDS:],
        "also": also,
        "has_timelines": bool(timelines.data()),
    }
    body = filled("findings.html", values)
    return Part("findings", "Findings", body, "Findings", data={"excerpts": timelines.data()})


def card_id(finding: Finding) -> str:
    """Return the place of a finding on the page, which links name."""
    rank, device = ("x" if value is None else value for value in (finding.rank, finding.device))
    return f"f-{finding.rule}-{rank}-{device}"


def _card(source: PageSource, timelines: Timelines, at: int, finding: Finding, others: Sequence[Finding]) -> Markup:
    diagnosis = source.diagnosis
    excerpts = timelines.of_finding(at, card_id(finding), finding) if at < MOST_CARDS else {}
    saves = worth_words(finding) if worth_share(finding) else ""
    values = {
        "id": card_id(finding),
        "finding": finding,
        "message": message_words(diagnosis, finding),
        "saves": saves,
        "facts": _facts(diagnosis, finding, saves),
        "tables": [_table(e, excerpts if e is timelines.shown(finding) else {}) for e in finding.evidence if e.rows],
        "advice": blocks_markup([*advice_blocks(diagnosis, finding), *map(Link, finding.references)], width=CARD_CODE),
        "also": blocks_markup([also_block(diagnosis, other) for other in others[:MOST_PLACES]]),
        "more_places": max(0, len(others) - MOST_PLACES),
        "timeline": timelines.markup(excerpts),
    }
    return filled("card.html", values)


def _facts(diagnosis: Diagnosis, finding: Finding, saves: str) -> list[str]:
    items = [item.words.removeprefix(f"{saves}, ") for item in finding_facts(diagnosis, finding).items]
    if saves and items and items[0].startswith(f"{saves} of the "):
        items[0] = items[0].removeprefix(f"{saves} ")
    return [words for words in items if words != finding.severity]


def _table(evidence: Evidence, excerpts: dict[int, int]) -> EvidenceTable:
    rows = without_repetitions(evidence.rows[:MOST_ROWS])
    shown = telling_columns(evidence, rows)
    shared = [i for i in shown if len(rows) > 1 and len({row[i] for row in rows}) == 1 and isinstance(rows[0][i], str)]
    shown = [i for i in shown if i not in shared]
    note = " · ".join(
        f"{column_words(evidence.columns[i])} {shown_name(value_words(evidence.columns[i], rows[0][i]))}"
        for i in shared
    )
    if len(shown) > MOST_COLUMNS:
        kept = [i for i in shown if evidence.columns[i] in _FIRST_COLUMNS]
        shown = sorted(kept + [i for i in shown if i not in kept][: MOST_COLUMNS - len(kept)])
    right = tuple(any(isinstance(row[i], int | float) for row in rows) for i in shown)
    cells = tuple(
        EvidenceRow(tuple(_evidence_cell(evidence.columns[i], row[i]) for i in shown), excerpts.get(at))
        for at, row in enumerate(rows)
    )
    columns = tuple(column_words(evidence.columns[i]) for i in shown)
    return EvidenceTable(
        evidence.title, f"in all rows: {note}" if note else "", columns, right, cells, len(evidence.rows) - len(rows)
    )


def _evidence_cell(column: str, value: object) -> EvidenceCell:
    words = shown_name(value_words(column, value))
    title = shown_name(value) if isinstance(value, str) and value != words else words
    return EvidenceCell(words, title, isinstance(value, int | float))
