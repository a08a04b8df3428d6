"""How far to trust it: what is wrong with the traces, what was changed about rules, and which were skipped."""

from __future__ import annotations

from traceanalyzer.diagnosis.verdict import has_no_compute
from traceanalyzer.report.blocks import Bullets, Heading, Section, Text
from traceanalyzer.report.diagnosis_blocks.headline import trust_blocks
from traceanalyzer.report.diagnosis_blocks.plan import below_noise_blocks, unexplained_sections
from traceanalyzer.report.diagnosis_blocks.trust import (
    checked_words,
    left_out_sections,
    override_sections,
    skipped_sections,
)
from traceanalyzer.report.html.document import Part, blocks_markup, filled, shown_name
from traceanalyzer.report.html.source import PageSource

LONGEST_EXAMPLE = 240


def section(source: PageSource) -> Part | None:
    """Return everything that limits what the page says; each rule that was skipped, with what to record."""
    diagnosis = source.diagnosis
    defects = _defects(source)
    suppressed = [
        Section(
            (Bullets(tuple(Text(f"{item.title} ({item.rule})") for item in diagnosis.suppressed)),),
            Heading("Suppressed"),
        )
    ]
    changed = [
        *([] if has_no_compute(diagnosis) else unexplained_sections(diagnosis)),
        *override_sections(diagnosis),
        *left_out_sections(diagnosis.left_out, verbose=True),
        *(suppressed if diagnosis.suppressed else []),
        *([Section((Bullets(tuple(defects)),), Heading("Defects of the traces"))] if defects else []),
    ]
    values = {
        "checked": checked_words(diagnosis),
        "quality": blocks_markup([*trust_blocks(diagnosis, verbose=True), *below_noise_blocks(diagnosis)]),
        "changed": [_titled(item) for item in changed],
        "skipped": [_titled(item) for item in skipped_sections(diagnosis, verbose=True)],
    }
    return Part("trust", "How far to trust it", filled("trust.html", values), "Trust")


def _defects(source: PageSource) -> list[Text]:
    """Say each kind of defect: how often, in which trace, what it means, and the first one as an example."""
    examples = {(row["trace"], row["defect"]): row["example"] for row in source.rows("defect_examples")}
    words = []
    for defect in source.diagnosis.defects:
        example = examples.get((defect.trace, defect.defect))
        shown = f"; for example {shown_name(example, LONGEST_EXAMPLE)}" if example else ""
        words.append(Text(f"{defect.defect} ×{defect.count:,} in {defect.trace}: {defect.advice}{shown}", "dim"))
    return words


def _titled(section: Section) -> dict[str, object]:
    heading = section.heading or Heading("")
    notes = " · ".join(item.words for item in heading.notes)
    return {"title": heading.title, "note": notes, "body": blocks_markup(section.blocks)}
