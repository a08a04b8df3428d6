"""The verdict: what was read, the state of the run as a headline, and what limits trust directly below."""

from __future__ import annotations

from traceanalyzer.report.diagnosis_blocks.headline import inventory_words, trust_blocks
from traceanalyzer.report.diagnosis_blocks.recordings import recordings_blocks
from traceanalyzer.report.html.document import Part
from traceanalyzer.report.html.markup import blocks_markup, filled
from traceanalyzer.report.html.source import PageSource


def section(source: PageSource) -> Part | None:
    """Return the verdict's first sentence as the headline of the page and the rest below it."""
    headline, stop, rest = source.verdict.sentence.partition(". ")
    if not rest:
        headline, stop, rest = headline.partition("; ")
        headline, stop, rest = headline + "." * bool(stop), "", rest[:1].upper() + rest[1:]
    values = {
        "inventory": inventory_words(source.diagnosis),
        "state": source.verdict.state,
        "headline": headline + stop.strip(),
        "lead": rest,
        "warnings": blocks_markup(
            [*recordings_blocks(source.diagnosis), *trust_blocks(source.diagnosis, verbose=False)]
        ),
    }
    return Part("verdict", "", filled("verdict.html", values))
