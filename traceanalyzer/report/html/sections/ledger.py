"""Where the time goes: the ledger of the run or its slowest device with every bucket, the others as thin bars."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.diagnosis import DeviceLedger, HostLedger, RunLedger
from traceanalyzer.diagnosis.verdict import compute_share, has_no_compute, step_ns
from traceanalyzer.report.charts import ledger_bar as drawn
from traceanalyzer.report.charts.palette import token_of
from traceanalyzer.report.charts.svg import NARROW, WIDE
from traceanalyzer.report.diagnosis_blocks.ledgers import (
    LedgerGroup,
    alike,
    group_place,
    ledger_bar,
    ledger_sections,
    main_ledger,
    slowest_kernels,
)
from traceanalyzer.report.diagnosis_blocks.recordings import recordings_table
from traceanalyzer.report.html.document import Part, part_of
from traceanalyzer.report.html.markup import bar_markup, blocks_markup, filled
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import bucket_words, duration, percent

MOST_BARS = 16
# A smaller part of a thin bar is hardly seen.
LEAST_KEY_SHARE = 0.01


def section(source: PageSource) -> Part | None:
    """Return the ledgers, the run's on top where ranks wait for each other."""
    diagnosis = source.diagnosis
    top = main_ledger(diagnosis)
    if top is None or has_no_compute(diagnosis):
        return None
    first, *_ = ledger_sections(diagnosis, verbose=False)
    groups = alike(diagnosis.ledgers)
    thin = [] if len(groups) == 1 and top is groups[0].worst else groups[:MOST_BARS]
    longest = max((step_ns(group.worst) for group in groups), default=0)
    recordings = recordings_table(diagnosis)
    values = {
        "bar": bar_markup(ledger_bar(top, codes=True, every=True)),
        "others": [_thin(group, source, longest) for group in thin],
        "keys": _further_keys(top, thin),
        "more": sum(len(group.members) for group in groups[MOST_BARS:]),
        "work": blocks_markup(slowest_kernels(diagnosis, most=0)[:1] if groups else first.blocks[1:]),
        "recordings": blocks_markup([recordings] if recordings is not None else []),
    }
    return part_of(first, "time", filled("ledger.html", values), "Time")


def _further_keys(top: DeviceLedger | RunLedger | HostLedger, thin: Sequence[LedgerGroup]) -> list[tuple[str, str]]:
    """Return fill and words of the buckets that the thin bars show and the legend above them does not have."""
    legend = {bucket for bucket, dur_ns in top.buckets if dur_ns}
    sizes: dict[str, int] = {}
    for group in thin:
        for bucket, dur_ns in group.worst.buckets:
            if bucket not in legend and dur_ns > LEAST_KEY_SHARE * group.worst.window_ns:
                sizes[bucket] = sizes.get(bucket, 0) + dur_ns
    return [(token_of(bucket), bucket_words(bucket)) for bucket in sorted(sizes, key=lambda name: (-sizes[name], name))]


def _thin(group: LedgerGroup, source: PageSource, longest_ns: float) -> dict[str, object]:
    """Return the bar of devices that are alike, as long as their step is against the longest."""
    ledger = group.worst
    bar, fill = ledger_bar(ledger, codes=True, every=True), step_ns(ledger) / max(longest_ns, 1)
    drawings = [drawn.ledger_bar(bar, width=width, thin=True, fill=fill) for width in (WIDE, NARROW)]
    return {
        "place": group_place(group, source.diagnosis.ledgers),
        "time": duration(step_ns(ledger)),
        "share": percent(compute_share(ledger)),
        "wide": drawings[0],
        "narrow": drawings[1],
    }
