"""The page of a comparison: the verdict, four numbers, the difference and the steps as drawings, then what changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from markupsafe import Markup

from traceanalyzer import __version__
from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.gate import GateResult
from traceanalyzer.report.blocks import Paragraph, Section
from traceanalyzer.report.charts.ledger_charts import axis_words
from traceanalyzer.report.charts.svg import (
    FILLS,
    NARROW,
    WIDE,
    Svg,
    drawing,
    escaped,
    family_of,
    fitted,
    line,
    part,
    round_scale,
    token_of,
    words,
    words_px,
)
from traceanalyzer.report.diff_blocks.changes import (
    change,
    finding_sections,
    ledger_rows,
    named_sections,
    rank_sections,
    signed_duration,
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
from traceanalyzer.text.words import counted, duration, told_apart

ROW_PX = 30
BAR_PX = 22
MOST_NAMES_PX = 236
GAP_PX = 14
DOT_PX = 4.5
HEAD_PX = 24


@dataclass(frozen=True)
class DifferenceRow:
    """A row of a difference: its times on both sides, and how people read them."""

    bucket: str  # empty: rows that are put together
    name: str
    delta_ns: int
    base: str
    new: str
    difference: str


@dataclass(frozen=True)
class CaptureSteps:
    name: str
    is_base: bool
    steps_ns: tuple[int, ...]
    mean_ns: float


def difference_waterfall(
    base: DifferenceRow,
    changes: Sequence[DifferenceRow],
    new: DifferenceRow,
    says: str,
    *,
    width: int = WIDE,
    alone: bool = False,
) -> Svg:
    """Return bars from the base's time to the new one's: each change begins where the one above ends."""
    narrow = width < WIDE
    rows = [base, *changes, new]
    ends = [base.delta_ns]
    for row in changes:
        ends.append(ends[-1] + row.delta_ns)
    left = 0.0 if narrow else min(max(words_px(row.name, 13) for row in rows) + GAP_PX, MOST_NAMES_PX)
    columns = [0.0, 0.0, 0.0] if narrow else _columns(rows)
    scale = (width - left - sum(columns)) / max([*ends, new.delta_ns, 1])
    row_px, head = (ROW_PX + 20, 0) if narrow else (ROW_PX, HEAD_PX)
    shapes = [] if narrow else _heads(columns, width)
    for at, row in enumerate(rows):
        y = head + at * row_px
        top = y + 20 if narrow else y + (row_px - BAR_PX) / 2
        title = f"{row.name}: {row.difference}"
        if row in (base, new):
            shapes.append(part("left", left, top, max(row.delta_ns * scale, 1), BAR_PX, title=title))
        else:
            low = min(ends[at - 1], ends[at])
            token = "saved" if row.delta_ns < 0 else "slower"
            data = f'data-bucket="{escaped(row.bucket)}" data-delta-ns="{row.delta_ns}"'
            family = family_of(token_of(row.bucket)) if row.bucket else ""
            span = max(abs(row.delta_ns) * scale, 1.5)
            shapes.append(part(token, left + low * scale, top, span, BAR_PX, title=title, data=data, hatch=family))
        shapes += _narrow_words(row, y, width) if narrow else _wide_words(row, left, columns, y + row_px / 2 + 5, width)
    return drawing(width, head + row_px * len(rows), says, shapes, alone=alone)


def _columns(rows: Sequence[DifferenceRow]) -> list[float]:
    """Return the room for the base's times, the new ones, and the differences."""
    times = [[row.base for row in rows], [row.new for row in rows], [row.difference for row in rows]]
    heads = ("base", "new", "difference")
    return [
        max(words_px(text, 13, bold=head == "difference") for text in (head, *texts)) + GAP_PX
        for head, texts in zip(heads, times, strict=True)
    ]


def _heads(columns: Sequence[float], width: int) -> list[str]:
    ends = (width - columns[1] - columns[2], width - columns[2], width)
    return [
        words(x, 14, text, tone="dim", anchor="end", size=12)
        for x, text in zip(ends, ("base", "new", "difference"), strict=True)
    ]


def _wide_words(row: DifferenceRow, left: float, columns: Sequence[float], y: float, width: int) -> list[str]:
    return [
        words(left - GAP_PX / 2, y, fitted(row.name, left - GAP_PX / 2), anchor="end"),
        words(width - columns[1] - columns[2], y, row.base, anchor="end"),
        words(width - columns[2], y, row.new, anchor="end"),
        words(width, y, row.difference, bold=True, anchor="end"),
    ]


def _narrow_words(row: DifferenceRow, y: float, width: int) -> list[str]:
    room = width - words_px(row.difference, 13, bold=True) - GAP_PX
    return [words(0, y + 15, fitted(row.name, room)), words(width, y + 15, row.difference, bold=True, anchor="end")]


def capture_dots(captures: Sequence[CaptureSteps], says: str, *, width: int = WIDE) -> Svg:
    """Return a row a capture: a dot for each step, and a mark at their mean."""
    row_px = 28
    left = min(max(words_px(item.name, 13) for item in captures) + GAP_PX, MOST_NAMES_PX, width * 0.42)
    times = [time for item in captures for time in (*item.steps_ns, item.mean_ns)]
    low, high, marks = _axis(min(times), max(times))
    scale = (width - left - 2 * GAP_PX - DOT_PX) / max(high - low, 1)
    height = row_px * len(captures)
    names = _fitted_apart([item.name for item in captures], left - GAP_PX / 2)
    shapes = []
    for mark in marks:
        x = left + GAP_PX + (mark - low) * scale
        room = words_px(axis_words(mark), 12) / 2
        shapes += [
            line(x, 0, x, height),
            words(min(x, width - room), height + 16, axis_words(mark), tone="dim", anchor="middle", size=12),
        ]
    for at, item in enumerate(captures):
        y = at * row_px + row_px / 2
        token = "dev-unknown" if item.is_base else "compute"
        shapes.append(words(left - GAP_PX / 2, y + 5, names[at], anchor="end"))
        for time in item.steps_ns:
            shapes.append(
                f'<circle class="f-{token}" cx="{left + GAP_PX + (time - low) * scale:.1f}" cy="{y:g}" r="{DOT_PX}" '
                f'fill="{FILLS[token][0]}" fill-opacity=".8"><title>{escaped(duration(time))}</title></circle>'
            )
        x = left + GAP_PX + (item.mean_ns - low) * scale
        shapes.append(line(x, y - 11, x, y + 11, tone="text"))
    return drawing(width, height + 22, says, shapes)


def _fitted_apart(names: Sequence[str], room_px: float) -> list[str]:
    """Return names cut to their room, those that begin alike where they begin to differ."""
    letters = max(map(len, names))
    while letters > 1 and any(words_px(name, 13) > room_px for name in told_apart(names, letters)):
        letters -= 1
    return told_apart(names, letters)


def _axis(least: float, most: float) -> tuple[float, float, list[float]]:
    """Return the ends of an axis around these times, and round times on it."""
    span = max(most - least, 0.05 * most, 1.0)
    low, high = max(least - 0.08 * span, 0.0), most + 0.08 * span
    scale = round_scale(high - low, 4)
    step = scale[1] if len(scale) > 1 else span
    first = math.ceil(low / step)
    return low, high, [step * at for at in range(first, math.floor(high / step) + 1)]


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
    rows = ledger_rows(diff, verbose=not alone)
    if not rows:
        return []
    changes = [
        DifferenceRow(
            row.bucket, words, row.delta_ns, _time(row.base_ns), _time(row.new_ns), signed_duration(row.delta_ns)
        )
        for row, words in rows
        if row.delta_ns
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
