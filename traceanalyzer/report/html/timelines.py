"""The timelines of a page: excerpts around the evidence of its findings, as few and as small as a page has room for."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any

from markupsafe import Markup

from traceanalyzer.diagnosis import Evidence, Finding
from traceanalyzer.report.charts.svg import TOKENS
from traceanalyzer.report.diagnosis_blocks import run_name
from traceanalyzer.report.html.document import filled, shown_name
from traceanalyzer.report.html.excerpts import Box, ExcerptPlace, ExcerptWindow, Lane, lanes_of, window_around
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import counted, duration

MOST_EXCERPTS = 18
# The first findings show further rows of their evidence, each with fewer slices.
FURTHER_FINDINGS = 3
FURTHER_ROWS = 2
FURTHER_SLICES_SHARE = 0.4
# The height of a lane that shows a value over time.
LINE_ROWS = 2


class Timelines:
    """Collects the excerpts of findings; `data` is what the page's script draws."""

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
