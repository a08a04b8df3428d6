"""A diagnosis and tables in a notebook: static HTML without scripts, which notebooks show without trusting it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import has_no_compute, judge, problems
from traceanalyzer.report.blocks import Block, Section
from traceanalyzer.report.charts.ledger_bar import ledger_bar
from traceanalyzer.report.charts.waterfall import waterfall
from traceanalyzer.report.diagnosis_blocks.findings import finding_facts
from traceanalyzer.report.diagnosis_blocks.headline import inventory_words, run_name, trust_blocks
from traceanalyzer.report.diagnosis_blocks.ledgers import alike
from traceanalyzer.report.diagnosis_blocks.plan import leading_plan
from traceanalyzer.report.diagnosis_blocks.skipped_rules import checked_words
from traceanalyzer.report.html.markup import blocks_markup, filled, shown_name
from traceanalyzer.report.html.sections.ledger import ledger_parts, ledger_says
from traceanalyzer.report.html.sections.savings import plan_drops
from traceanalyzer.text.words import value_words

MOST_FINDINGS = 6
MOST_PARTS = 8
LONGEST_NAME = 120


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """Return the verdict, ledger, savings and findings of a diagnosis as HTML that stands in another page."""
    verdict = judge(diagnosis)
    ledgers = [] if has_no_compute(diagnosis) else diagnosis.ledgers
    shown = (diagnosis.run_ledger or alike(ledgers)[0].worst) if ledgers else None
    parts = ledger_parts(shown) if shown else []
    plan = leading_plan(diagnosis)
    drops = plan_drops(diagnosis, plan) if plan is not None and len(plan.fixes) > 1 else None
    firsts = list({finding.rule: finding for finding in reversed(problems(diagnosis))}.values())[::-1]
    values = {
        "name": run_name(diagnosis),
        "inventory": inventory_words(diagnosis),
        "sentence": verdict.sentence,
        "warnings": blocks_markup(trust_blocks(diagnosis, verbose=False)),
        "bar": ledger_bar(parts, ledger_says(shown), alone=True) if shown else "",
        "parts": parts[:MOST_PARTS],
        "waterfall": waterfall(*drops, "Cumulative savings", alone=True) if drops else "",
        "findings": [
            (f, " · ".join(i.words for i in finding_facts(diagnosis, f).items)) for f in firsts[:MOST_FINDINGS]
        ],
        "more": max(0, len(firsts) - MOST_FINDINGS),
        "checked": checked_words(diagnosis),
    }
    return str(filled("notebook.html", values))


def sections_html(sections: Sequence[Section]) -> str:
    """Return sections of a report as HTML that stands in another page."""
    blocks: list[Block] = []
    for section in sections:
        blocks += [section.heading] if section.heading else []
        blocks += section.blocks
    return str(filled("notebook_blocks.html", {"blocks": blocks_markup(blocks)}))


def rows_html(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], more: bool) -> str:
    """Return rows as an HTML table, with values as people read them; `more` says that these are not all."""
    cells = [[shown_name(value_words(c, v), LONGEST_NAME) for c, v in zip(columns, row, strict=True)] for row in rows]
    right = [any(isinstance(row[at], int | float) for row in rows) for at in range(len(columns))]
    values = {"name": name, "columns": columns, "rows": cells, "right": right, "more": more}
    return str(filled("notebook_table.html", values))
