"""A file of summaries: a line for each capture, and what they say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from traceanalyzer.comparison.summary import Summary
from traceanalyzer.report.blocks import Block, Heading, Section, Table, Text
from traceanalyzer.text.words import counted, duration, gain

MOST_FINDINGS = 8


def sections(summaries: Sequence[Summary], name: str) -> tuple[Section, ...]:
    """Return the captures and their findings."""
    heading = Heading(name, (Text(counted(len(summaries), "capture"), "dim"),))
    rows = tuple(
        (
            item.label,
            item.taken_at or "–",
            _time(item),
            str(max((d.step_count for d in item.devices), default=0)),
            _gpu(item),
        )
        for item in summaries
    )
    columns = ("capture", "taken at", "step time", "steps", "GPU")
    blocks: list[Block] = [heading, Table(columns, rows, right=frozenset({2, 3}))]
    counts = Counter(finding.rule for item in summaries for finding in item.findings)
    titles = {finding.rule: finding for item in summaries for finding in item.findings}
    lines = tuple(
        (titles[rule].title, rule, f"{count} of {len(summaries)}", gain(titles[rule].saving_share or 0.0))
        for rule, count in counts.most_common(MOST_FINDINGS)
    )
    if not lines:
        return (Section(tuple(blocks)),)
    table = Table(("finding", "rule", "captures", "saving"), lines, right=frozenset({3}))
    return (Section(tuple(blocks)), Section((table,), Heading("Findings")))


def _time(item: Summary) -> str:
    slowest = max(item.devices, key=lambda device: (device.step_count > 0, device.step_ns), default=None)
    if slowest is None:
        return "–"
    return duration(slowest.step_ns) + ("" if slowest.step_count else " (no steps)")


def _gpu(item: Summary) -> str:
    names = item.fingerprint.get("gpu")
    return ", ".join(names) if isinstance(names, tuple) and names else "none: host times"
