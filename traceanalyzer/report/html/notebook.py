"""A diagnosis and tables in a notebook: static HTML without scripts, which notebooks show without trusting it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from traceanalyzer.attribution.replay.what_if import Answer
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import has_no_compute, judge
from traceanalyzer.report.blocks import Block, Paragraph, Section
from traceanalyzer.report.charts.ledger_charts import waterfall
from traceanalyzer.report.diagnosis_blocks import headline, plan_rows, plan_sections, trust_blocks
from traceanalyzer.report.diagnosis_blocks.findings import finding_sections
from traceanalyzer.report.diagnosis_blocks.ledgers import ledger_sections
from traceanalyzer.report.diagnosis_blocks.trust import checked_words
from traceanalyzer.report.html.document import blocks_markup, filled, shown_name
from traceanalyzer.report.screens.what_if import sections
from traceanalyzer.text.words import value_words

LONGEST_NAME = 120


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """Return the verdict, ledger, savings and findings of a diagnosis as HTML that stands in another page."""
    blocks: list[Block | Markup] = [*blocks_of([headline(diagnosis, judge(diagnosis))])]
    blocks += trust_blocks(diagnosis, verbose=False)
    if not has_no_compute(diagnosis):
        blocks += blocks_of(
            Section(item.blocks[:1], item.heading) for item in ledger_sections(diagnosis, verbose=False)
        )
    for section in plan_sections(diagnosis):
        now, *drops = plan_rows(diagnosis)
        heading, _, *notes = blocks_of([section])
        blocks += [heading, Markup(waterfall(now, drops, "Cumulative savings", alone=True)), *notes]
    blocks += blocks_of(finding_sections(diagnosis, verbose=False))
    return blocks_html([*blocks, Paragraph(f"{checked_words(diagnosis)}.", role="dim")])


def what_if_html(answer: Answer, run_name: str) -> str:
    """Return the screen of a what-if question as HTML that stands in another page."""
    return blocks_html(blocks_of(sections(answer, run_name)))


def blocks_html(blocks: Sequence[Block | Markup]) -> str:
    """Return blocks as HTML that stands in another page, which has none of the styles of ours."""
    return str(filled("notebook_blocks.html", {"blocks": blocks_markup(blocks, alone=True)}))


def blocks_of(sections: Iterable[Section]) -> list[Block]:
    return [block for item in sections for block in ((item.heading,) if item.heading else ()) + item.blocks]


def rows_html(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], more: bool) -> str:
    """Return rows as an HTML table, with values as people read them; `more` says that these are not all."""
    cells = [[shown_name(value_words(c, v), LONGEST_NAME) for c, v in zip(columns, row, strict=True)] for row in rows]
    right = [any(isinstance(row[at], int | float) for row in rows) for at in range(len(columns))]
    values = {"name": name, "columns": columns, "rows": cells, "right": right, "more": more}
    return str(filled("notebook_table.html", values))
