"""The page of a comparison: the verdict, four numbers, the difference and the steps as drawings, then what changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from markupsafe import Markup

from traceanalyzer import __version__
from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.gate import GateResult
from traceanalyzer.report.blocks import Paragraph, Section
from traceanalyzer.report.charts.difference import CaptureSteps, DifferenceRow, capture_dots, difference_waterfall
from traceanalyzer.report.charts.svg import NARROW, WIDE, Svg
from traceanalyzer.report.diff_blocks.changes import (
    change,
    finding_sections,
    ledger_rows,
    named_sections,
    rank_sections,
    signed_duration,
    together_row,
    unit_words,
    verification_sections,
)
from traceanalyzer.report.diff_blocks.headline import (
    MOST_CAPTURES,
    captures_sections,
    confounder_sections,
    gate_sections,
    headline,
    how_sure,
    inventory_of,
    sentence,
    side_name,
    verdict_role,
)
from traceanalyzer.report.formats import Context
from traceanalyzer.report.html.document import Part, blocks_markup, document, filled, part_of, shown_name
from traceanalyzer.report.html.notebook import blocks_html, blocks_of
from traceanalyzer.report.html.sections.verdict import Tile
from traceanalyzer.text.words import bucket_words, counted, duration

# As a heading of the page has them.
_NAVIGATION = {
    "What the difference is made of": "Difference",
    "Promised and saved": "Promises",
    "Also different": "Also",
}


def write_diff(diff: Diff, stream: TextIO, context: Context) -> None:
    """Write the page of a comparison, with what a gate says where one was asked for."""
    parts = [_verdict(diff), _numbers(diff), *_sections(diff, context.gate)]
    values = {"version": __version__, "cut": "", "command": "traceanalyzer diff BASE NEW --format json"}
    stream.write(document(_name(diff), parts, foot=filled("foot.html", values)))


def diff_html(diff: Diff) -> str:
    """Return a comparison as HTML that stands in another page, for notebooks: drawings and tables without scripts."""
    rest = [*finding_sections(diff), *verification_sections(diff), *named_sections(diff, verbose=False)]
    drawn = map(Markup, _difference(diff, alone=True))
    return blocks_html([*blocks_of([headline(diff)]), *drawn, *blocks_of([*rest, *confounder_sections(diff)])])


def _name(diff: Diff) -> str:
    return shown_name(f"{side_name(diff.base)} → {side_name(diff.new)}")


def _verdict(diff: Diff) -> Part:
    headline, stop, lead = sentence(diff).partition(". ")
    role = verdict_role(diff)
    sure = blocks_markup([Paragraph(words, role="dim") for words in how_sure(diff)])
    values = {
        "inventory": [inventory_of(side, of).words for side, of in (("base", diff.base), ("new", diff.new))],
        "state": diff.judgement.verdict,
        "headline": headline + stop.strip(),
        "lead": lead,
        "warnings": sure if role == "caution" else "",
        "summary": "\n".join([f"{_name(diff)}: {sentence(diff)}", *how_sure(diff)]),
    }
    body = filled("verdict.html", values)
    return Part("verdict", "", body if role == "caution" else body + sure)


def _numbers(diff: Diff) -> Part:
    sides = [
        Tile(side, duration(ns), counted(len(captures), "capture"))
        for side, ns, captures in (("Base", diff.base_ns, diff.base), ("New", diff.new_ns, diff.new))
    ]
    return Part(
        "numbers", "", filled("numbers.html", {"tiles": [*sides, _difference_tile(diff), _findings_tile(diff)]})
    )


def _difference_tile(diff: Diff) -> Tile:
    if diff.judgement.verdict == "not comparable":
        return Tile("Difference", "–", "not comparable")
    share = change(diff.delta_ns / diff.base_ns) if diff.base_ns else "–"
    return Tile("Difference", share, f"{signed_duration(diff.delta_ns)} {unit_words(diff)}")


def _findings_tile(diff: Diff) -> Tile:
    counts: dict[str, int] = {"gone": 0, "new": 0}
    for item in diff.findings:
        counts[item.state] = counts.get(item.state, 0) + 1
    others = [f"{count} {state}" for state, count in counts.items() if state != "gone" and (count or state == "new")]
    return Tile("Findings", f"{counts['gone']} gone", ", ".join(others))


def _sections(diff: Diff, gate: GateResult | None) -> list[Part]:
    parts = [_part(section, at) for at, section in enumerate(gate_sections(gate))]
    drawn = _difference(diff)
    if drawn:
        note = f"{unit_words(diff)}; each row begins where the one above ends, and all add up to the difference"
        title = "What the difference is made of"
        body = filled("drawings.html", {"wide": drawn[0], "narrow": drawn[1], "slowest": ""})
        parts.append(Part("difference", title, body, _NAVIGATION[title], note))
    parts += _captures(diff)
    sections = [
        *finding_sections(diff),
        *verification_sections(diff),
        *rank_sections(diff, verbose=False),
        *named_sections(diff, verbose=True),
        *confounder_sections(diff),
    ]
    return parts + [_part(section, at) for at, section in enumerate(sections, len(parts))]


def _part(section: Section, at: int) -> Part:
    title = section.heading.title if section.heading else ""
    return part_of(section, f"s-{at}", nav=_NAVIGATION.get(title, title))


def _difference(diff: Diff, *, alone: bool = False) -> list[Svg]:
    large, small = ledger_rows(diff, verbose=not alone)
    if not large and not small:
        return []
    rows = [(row, bucket_words(row.bucket)) for row in large]
    together = together_row(small)
    if together.delta_ns:
        rows.append((together, counted(len(small), "smaller one")))
    changes = [
        DifferenceRow(
            row.bucket, words, row.delta_ns, _time(row.base_ns), _time(row.new_ns), signed_duration(row.delta_ns)
        )
        for row, words in rows
    ]
    base, new = (
        DifferenceRow(side, side, ns, "", "", duration(ns))
        for side, ns in (("base", diff.base_ns), ("new", diff.new_ns))
    )
    says = "; ".join(f"{item.name} {item.difference}" for item in (base, *changes, new))
    widths = [WIDE] if alone else [WIDE, NARROW]
    return [difference_waterfall(base, changes, new, says, width=width, alone=alone) for width in widths]


def _time(ns: int) -> str:
    return duration(ns) if ns else "–"


def _captures(diff: Diff) -> list[Part]:
    tables: Sequence[Section] = captures_sections(diff, verbose=False)
    if not tables:
        return []
    sides = [("base", item) for item in diff.base] + [("new", item) for item in diff.new]
    rows = [
        CaptureSteps(f"{side}: {shown_name(item.label)}", side == "base", item.steps_ns, item.time_ns)
        for side, item in sides[:MOST_CAPTURES]
    ]
    says = "; ".join(f"{row.name} {duration(row.mean_ns)}" for row in rows)
    drawings = [capture_dots(rows, says, width=width) for width in (WIDE, NARROW)]
    table = blocks_markup(tables[0].blocks)
    body = filled("drawings.html", {"wide": drawings[0], "narrow": drawings[1], "slowest": table})
    return [Part("captures", "Captures", body, "Captures", "a dot is a step, the line the mean of its capture")]
