"""The findings as cards in the order of fixes: what was seen and what to do side by side, the place in time below."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any

from markupsafe import Markup

from traceanalyzer.diagnosis import SEVERITIES, Diagnosis, Evidence, Finding
from traceanalyzer.diagnosis.findings import worth_share
from traceanalyzer.diagnosis.verdict import problems
from traceanalyzer.report.blocks import Link
from traceanalyzer.report.charts.svg import TOKENS
from traceanalyzer.report.diagnosis_blocks import run_name
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
from traceanalyzer.report.html.excerpts import Box, ExcerptPlace, ExcerptWindow, Lane, lanes_of, window_around
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import column_words, counted, duration, value_words

MOST_CARDS = 12
MOST_COLUMNS = 5
MOST_ROWS = 8
MOST_PLACES = 6
# These columns of evidence stay where there are too many.
_FIRST_COLUMNS = ("at_ms", "ms")


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


def _table(evidence: Evidence, excerpts: dict[int, int]) -> dict[str, Any]:
    """Return evidence as `card.html` shows it: `note` is what all rows share, `excerpt` the timeline of a row."""
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
    return {
        "title": evidence.title,
        "note": f"in all rows: {note}" if note else "",
        "columns": [column_words(evidence.columns[i]) for i in shown],
        "right": right,
        "rows": [
            {"cells": [_cell(evidence.columns[i], row[i]) for i in shown], "excerpt": excerpts.get(at)}
            for at, row in enumerate(rows)
        ],
        "more": len(evidence.rows) - len(rows),
    }


def _cell(column: str, value: object) -> dict[str, Any]:
    """Return a value as it is shown, and whole where it is pointed at."""
    words = shown_name(value_words(column, value))
    title = shown_name(value) if isinstance(value, str) and value != words else words
    return {"words": words, "title": title, "is_number": isinstance(value, int | float)}


MOST_EXCERPTS = 18
# The first findings show further rows of their evidence, each with fewer slices.
FURTHER_FINDINGS = 3
FURTHER_ROWS = 2
FURTHER_SLICES_SHARE = 0.4
# The height of a lane that shows a value over time.
LINE_ROWS = 2


class Timelines:
    """Collects excerpts around the evidence of findings, as few and as small as a page has room for.

    `data` is what the page's script draws.
    """

    def __init__(self, source: PageSource) -> None:
        self._source = source
        self._excerpts: list[dict[str, Any]] = []
        self._traces = {row["trace"]: row for row in source.rows("run_traces")}

    def shown(self, finding: Finding) -> Evidence | None:
        """Return the evidence whose rows are shown in time: the first that has places."""
        return next((e for e in finding.evidence if "start_ns" in e.columns and e.rows), None)

    def of_finding(self, at: int, card: str, finding: Finding) -> dict[int, int]:
        """Return the number of the excerpt of each row of evidence that has one; `at` counts findings from 0."""
        evidence = self.shown(finding)
        if evidence is None:
            return {}
        excerpts: dict[int, int] = {}
        most = 1 + (FURTHER_ROWS if at < FURTHER_FINDINGS else 0)
        for row_number, row in enumerate(evidence.rows):
            if len(excerpts) == most or len(self._excerpts) == MOST_EXCERPTS:
                break
            place = self._place(finding, dict(zip(evidence.columns, row, strict=True)))
            share = FURTHER_SLICES_SHARE if excerpts else 1
            if place is not None and self._add(place, card, evidence.title, int(self._source.limits.slices * share)):
                excerpts[row_number] = len(self._excerpts) - 1
        return excerpts

    def markup(self, excerpts: dict[int, int]) -> Markup:
        """Return the figure that shows the first of these excerpts; nothing where there are none."""
        if not excerpts:
            return Markup("")
        first = min(excerpts.values())
        excerpt = self._excerpts[first]
        lanes = ", ".join(lane["label"] for lane in excerpt["lanes"])
        says = f"Timeline of {excerpt['caption']}: {lanes}. The table above names the places."
        return filled(
            "timeline.html",
            {
                "first": first,
                "title": excerpt["title"],
                "caption": excerpt["caption"],
                "says": says,
                "perfetto": excerpt["perfetto"],
            },
        )

    def data(self) -> list[dict[str, Any]]:
        """Return the excerpts in the order of their numbers."""
        return self._excerpts

    def _place(self, finding: Finding, row: dict[str, Any]) -> ExcerptPlace | None:
        start_ns, dur_ns = row.get("start_ns"), row.get("dur_ns")
        trace = self._trace(finding, row)
        if not isinstance(start_ns, int) or trace is None:
            return None
        device = row.get("device", finding.device)
        return ExcerptPlace(
            trace["trace_id"],
            device if isinstance(device, int) else None,
            start_ns,
            start_ns + (dur_ns if isinstance(dur_ns, int) and dur_ns > 0 else 0),
        )

    def _trace(self, finding: Finding, row: dict[str, Any]) -> dict[str, Any] | None:
        """Return the trace that a row of evidence is about; None: neither it nor its finding names one."""
        if row.get("trace") in self._traces:
            return self._traces[row["trace"]]
        of_rank = [t for t in self._traces.values() if row.get("rank") is not None and t["rank"] == row["rank"]]
        if len(of_rank) == 1:
            return of_rank[0]
        if finding.trace in self._traces:
            return self._traces[finding.trace]
        return next(iter(self._traces.values())) if len(self._traces) == 1 else None

    def _add(self, place: ExcerptPlace, card: str, title: str, most_slices: int) -> bool:
        trace = next(row for row in self._traces.values() if row["trace_id"] == place.trace_id)
        first_ns, last_ns = trace["first_ns"], trace["last_ns"]
        if first_ns is None or last_ns is None or not first_ns <= place.start_ns <= last_ns:
            return False
        window = window_around(place, first_ns, last_ns)
        lanes = lanes_of(self._source, place, window, most_slices)
        if not lanes:
            return False
        self._excerpts.append(self._plain(place, window, lanes, card, title, first_ns))
        return True

    def _plain(
        self, place: ExcerptPlace, window: ExcerptWindow, lanes: Sequence[Lane], card: str, title: str, first_ns: int
    ) -> dict[str, Any]:
        start_ns = window.start_ns - first_ns
        caption = (
            f"{duration(window.length_ns)} from {f'{start_ns / 1e6:,.3f} ms' if start_ns else 'the trace’s start'} on"
        )
        if window.cut_end_ns > window.cut_start_ns:
            caption += f", without {duration(window.cut_end_ns - window.cut_start_ns)} in the middle"
        links = _links([box for lane in lanes for box in lane.boxes])
        return {
            "card": card,
            "title": title,
            "caption": caption,
            "perfetto": self._perfetto(place, window, first_ns),
            "at": window.start_ns - first_ns,
            "length": window.length_ns,
            "mark": [window.at(place.start_ns), window.at(place.end_ns)],
            "cut": [window.at(window.cut_start_ns), window.cut_end_ns - window.cut_start_ns],
            "lanes": [self._plain_lane(lane, links) for lane in lanes],
        }

    def _perfetto(self, place: ExcerptPlace, window: ExcerptWindow, first_ns: int) -> str:
        """Return the command that opens an excerpt in Perfetto; empty where no option of it names the trace."""
        ranks = {row["trace_id"]: row["rank"] for row in self._traces.values()}
        rank = ranks[place.trace_id]
        if len(ranks) > 1 and (rank is None or list(ranks.values()).count(rank) > 1):
            return ""
        which = f" --rank {rank}" if len(ranks) > 1 else ""
        start, end = (
            f"{(at_ns - first_ns) / 1e6:.6f}".rstrip("0").rstrip(".") for at_ns in (window.start_ns, window.end_ns)
        )
        return f"traceanalyzer view {quote(run_name(self._source.diagnosis))} --perfetto{which} --at {start}-{end}"

    def _plain_lane(self, lane: Lane, links: dict[int, int]) -> dict[str, Any]:
        numbers: list[int] = []
        for box in lane.boxes:
            few = f"{counted(box.count, 'short one')}: {box.name}" if box.name else counted(box.count, "short one")
            name = self._source.names.number(box.name if box.count == 1 else few)
            link = links.get(box.link, 0) if box.link is not None else 0
            numbers += [box.row, box.start, box.end - box.start, name, TOKENS.index(box.token), link]
        rows = 1 + max((box.row for box in lane.boxes), default=LINE_ROWS - 1)
        line = {"line": list(lane.line), "unit": lane.unit} if lane.line else {}
        return {"label": shown_name(lane.label, 64), "note": lane.note, "rows": rows, "boxes": numbers, **line}


def _links(boxes: Sequence[Box]) -> dict[int, int]:
    """Number the calls that are in the excerpt together with work that they launched, from 1."""
    seen: dict[int, int] = {}
    for box in boxes:
        if box.link is not None:
            seen[box.link] = seen.get(box.link, 0) + 1
    return {link: at for at, link in enumerate((link for link, count in seen.items() if count > 1), 1)}
