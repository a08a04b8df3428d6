"""Where the time goes: the ledger of the run or its slowest device with every bucket, the others as thin bars."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from traceanalyzer.diagnosis import DeviceLedger, HostLedger, RunLedger
from traceanalyzer.diagnosis.verdict import compute_share, has_no_compute, step_ns
from traceanalyzer.report.charts.ledger_bar import LedgerPart, ledger_bar
from traceanalyzer.report.charts.palette import token_of
from traceanalyzer.report.charts.svg import NARROW, WIDE
from traceanalyzer.report.diagnosis_blocks.kernels import classes_words
from traceanalyzer.report.diagnosis_blocks.ledgers import LedgerGroup, alike, group_place
from traceanalyzer.report.diagnosis_blocks.ranks import devices_words
from traceanalyzer.report.diagnosis_blocks.recordings import recordings_table
from traceanalyzer.report.html.document import Part
from traceanalyzer.report.html.markup import bar_markup, blocks_markup, filled
from traceanalyzer.report.html.source import PageSource
from traceanalyzer.text.words import bucket_words, duration, percent, tenths_of_percent

MOST_BARS = 16
# A smaller part of a thin bar is hardly seen.
LEAST_KEY_SHARE = 0.01


def section(source: PageSource) -> Part | None:
    """Return the ledgers, the run's on top where ranks wait for each other."""
    diagnosis = source.diagnosis
    if diagnosis.host_ledgers:
        return _host_part(diagnosis.host_ledgers)
    if not diagnosis.ledgers or has_no_compute(diagnosis):
        return None
    groups = alike(diagnosis.ledgers)
    run, slowest = diagnosis.run_ledger, groups[0].worst
    top: DeviceLedger | RunLedger = slowest if run is None else run
    thin = [] if len(groups) == 1 and run is None else groups[:MOST_BARS]
    longest = max(step_ns(group.worst) for group in groups)
    values = {
        "bar": _bar(top),
        "others": [_thin(group, source, longest) for group in thin],
        "keys": _further_keys(top, thin),
        "more": sum(len(group.members) for group in groups[MOST_BARS:]),
        "classes": classes_words(slowest),
        "recordings": blocks_markup([table] if (table := recordings_table(diagnosis)) is not None else []),
        "rank_words": "" if run is None or run.recording_count > 1 else _rank_words(run),
    }
    note = _window_words(top)
    if run is not None and run.recording_count > 1:
        note += f" · {devices_words(diagnosis.ledgers)} · {run.recording_count} recordings pooled"
    if run is None:
        note += f" · {group_place(groups[0], diagnosis.ledgers)}"
        if len(groups[0].members) > 1:
            note += ", alike within 2 %; this is the slowest"
        note += f" · {slowest.device_name}" if slowest.device_name else ""
    title = "Where the time goes" if run is None or run.recording_count > 1 else "Where the run’s time goes"
    return Part("time", title, filled("ledger.html", values), "Time", note)


def _host_part(ledgers: Sequence[HostLedger]) -> Part:
    """Return what the host does in its steps, in a run without GPU work: of the slowest rank."""
    slowest = max(ledgers, key=step_ns)
    values = {
        "bar": _bar(slowest),
        "others": [],
        "keys": [],
        "more": 0,
        "classes": "",
        "rank_words": "",
        "recordings": "",
    }
    place = "" if slowest.rank is None else f" · rank {slowest.rank}"
    place += f", the slowest of {len(ledgers)}" if len(ledgers) > 1 else ""
    note = f"{_window_words(slowest)}{place} · on the host"
    return Part("time", "Where the time goes", filled("ledger.html", values), "Time", note)


def ledger_parts(ledger: DeviceLedger | RunLedger | HostLedger) -> list[LedgerPart]:
    """Return every bucket that holds time, compute first and then by size; the shares add up."""
    compute = [] if isinstance(ledger, HostLedger) else [("compute", dict(ledger.buckets).get("compute", 0))]
    waits = sorted((b for b in ledger.buckets if b[1] > 0 and b[0] != "compute"), key=lambda b: (-b[1], b[0]))
    buckets = [*compute, *waits]
    tenths = tenths_of_percent([dur_ns for _, dur_ns in buckets])
    per_step = max(ledger.step_count, 1)
    return [
        LedgerPart(
            bucket,
            bucket_words(bucket),
            dur_ns,
            duration(dur_ns / per_step),
            percent(tenth / 1000 or dur_ns / max(ledger.window_ns, 1) / 1000),
        )
        for (bucket, dur_ns), tenth in zip(buckets, tenths, strict=True)
    ]


def ledger_says(ledger: DeviceLedger | RunLedger | HostLedger) -> str:
    """Say a ledger's bar in words."""
    return "; ".join(f"{part.words} {part.share}" for part in ledger_parts(ledger))


def _bar(ledger: DeviceLedger | RunLedger | HostLedger) -> Markup:
    columns = ("time per step" if ledger.step_count else "time", "share")
    return bar_markup(ledger_parts(ledger), columns, ledger_says(ledger))


def _further_keys(top: DeviceLedger | RunLedger, thin: Sequence[LedgerGroup]) -> list[tuple[str, str]]:
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
    parts, says, fill = ledger_parts(ledger), ledger_says(ledger), step_ns(ledger) / max(longest_ns, 1)
    drawings = [ledger_bar(parts, says, width=width, thin=True, fill=fill) for width in (WIDE, NARROW)]
    return {
        "place": group_place(group, source.diagnosis.ledgers),
        "time": duration(step_ns(ledger)),
        "share": percent(compute_share(ledger)),
        "wide": drawings[0],
        "narrow": drawings[1],
    }


def _window_words(ledger: DeviceLedger | RunLedger | HostLedger) -> str:
    return f"step time {duration(step_ns(ledger))}" if ledger.step_count else f"{duration(ledger.window_ns)}, no steps"


def _rank_words(run: RunLedger) -> str:
    waited = [(rank, dur_ns / run.window_ns) for rank, dur_ns in run.ranks if run.window_ns]
    known = [(rank, share) for rank, share in waited[:5] if share >= 0.01 and rank is not None]
    ranks = ", ".join(f"rank {rank} {percent(share)}" for rank, share in known)
    return f"At each moment the time of the latest rank: {ranks}." if ranks else ""
