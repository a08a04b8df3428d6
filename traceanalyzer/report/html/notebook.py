"""A diagnosis and tables in a notebook: static HTML without scripts, which notebooks show without trusting it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from traceanalyzer.attribution.replay.what_if import Answer
from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.diagnosis.verdict import has_no_compute, judge, problems
from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section
from traceanalyzer.report.charts.ledger_charts import waterfall
from traceanalyzer.report.diagnosis_blocks import headline, leading_plan, trust_blocks
from traceanalyzer.report.diagnosis_blocks.findings import finding_facts, fix_block, message_words
from traceanalyzer.report.diagnosis_blocks.ledgers import ledger_sections
from traceanalyzer.report.diagnosis_blocks.trust import checked_words
from traceanalyzer.report.html.document import blocks_markup, filled, shown_name
from traceanalyzer.report.html.sections.ledger import plan_drops
from traceanalyzer.report.screens.what_if import sections
from traceanalyzer.text.words import counted, value_words

MOST_FINDINGS = 6
LONGEST_NAME = 120


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """Return the verdict, ledger, savings and findings of a diagnosis as HTML that stands in another page."""
    blocks: list[Block | Markup] = [*blocks_of([headline(diagnosis, judge(diagnosis))])]
    blocks += trust_blocks(diagnosis, verbose=False)
    if not has_no_compute(diagnosis):
        blocks += blocks_of(
            Section(item.blocks[:1], item.heading) for item in ledger_sections(diagnosis, verbose=False)
        )
    plan = leading_plan(diagnosis)
    if plan is not None and len(plan.fixes) > 1:
        blocks.append(Heading("Cumulative savings (fixes applied in this order)"))
        blocks.append(Markup(waterfall(*plan_drops(diagnosis, plan), "Cumulative savings", alone=True)))
    firsts = list({finding.rule: finding for finding in reversed(problems(diagnosis))}.values())[::-1]
    blocks += [block for finding in firsts[:MOST_FINDINGS] for block in _finding(diagnosis, finding)]
    more = counted(len(firsts) - MOST_FINDINGS, "more finding") if len(firsts) > MOST_FINDINGS else ""
    blocks.append(Paragraph(f"{f'And {more}. ' if more else ''}{checked_words(diagnosis)}.", role="dim"))
    return blocks_html(blocks)


def what_if_html(answer: Answer, run_name: str) -> str:
    """Return the screen of a what-if question as HTML that stands in another page."""
    return blocks_html(blocks_of(sections(answer, run_name)))


def blocks_html(blocks: Sequence[Block | Markup]) -> str:
    """Return blocks as HTML that stands in another page, which has none of the styles of ours."""
    return str(filled("notebook_blocks.html", {"blocks": blocks_markup(blocks, alone=True)}))


def blocks_of(sections: Iterable[Section]) -> list[Block]:
    return [block for item in sections for block in ((item.heading,) if item.heading else ()) + item.blocks]


def _finding(diagnosis: Diagnosis, finding: Finding) -> list[Block]:
    head = Heading(finding.title, tag=finding.rule)
    return [
        head,
        finding_facts(diagnosis, finding),
        Paragraph(message_words(diagnosis, finding)),
        *map(fix_block, finding.fixes[:1]),
    ]


def rows_html(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], more: bool) -> str:
    """Return rows as an HTML table, with values as people read them; `more` says that these are not all."""
    cells = [[shown_name(value_words(c, v), LONGEST_NAME) for c, v in zip(columns, row, strict=True)] for row in rows]
    right = [any(isinstance(row[at], int | float) for row in rows) for at in range(len(columns))]
    values = {"name": name, "columns": columns, "rows": cells, "right": right, "more": more}
    return str(filled("notebook_table.html", values))
