"""The verdict: what was read, the cause as a headline, what it costs, and what limits trust directly below."""

from __future__ import annotations

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.diagnosis.verdict import RunVerdict, leading_finding
from traceanalyzer.report.brief import summary_lines
from traceanalyzer.report.diagnosis_blocks.headline import inventory_words, trust_blocks
from traceanalyzer.report.diagnosis_blocks.recordings import recordings_blocks
from traceanalyzer.report.html.document import Part
from traceanalyzer.report.html.markup import blocks_markup, filled
from traceanalyzer.report.html.source import PageSource

# What a sentence says of its cause behind the cause itself.
_PROMISE = ": fixing "


def section(source: PageSource) -> Part | None:
    """Return the verdict's cause as the headline of the page and the rest below it."""
    headline, lead = headline_of(source.diagnosis, source.verdict)
    values = {
        "inventory": inventory_words(source.diagnosis),
        "state": source.verdict.state,
        "headline": headline,
        "lead": lead,
        "warnings": blocks_markup(
            [*recordings_blocks(source.diagnosis), *trust_blocks(source.diagnosis, verbose=False)]
        ),
        "summary": "\n".join(summary_lines(source.diagnosis)),
    }
    return Part("verdict", "", filled("verdict.html", values))


def headline_of(diagnosis: Diagnosis, verdict: RunVerdict) -> tuple[str, str]:
    """Return the part of a verdict that names what to act on, and the others in their order."""
    sentences = [piece.rstrip(".") for piece in verdict.sentence.split(". ")]
    if len(sentences) == 1:
        sentences = sentences[0].split("; ", 1)
    lead = leading_finding(diagnosis)
    title = lead.title.rstrip(".").lower() if lead else ""
    at = next((at for at, words in enumerate(sentences) if title and words.lower().startswith(title)), 0)
    headline, promise, cost = sentences.pop(at).partition(_PROMISE)
    rest = [f"Fixing {cost}", *sentences] if promise else sentences
    return f"{_upper(headline)}.", " ".join(f"{_upper(words)}." for words in rest)


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]
