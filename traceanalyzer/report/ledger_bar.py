"""The time ledger as a stacked bar with a legend that adds up; devices whose ledgers are alike share one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traceanalyzer.diagnosis import DeviceLedger, RunLedger
from traceanalyzer.report.ledger_shares import SMALL_SHARE, ledger_rows, shares_words
from traceanalyzer.report.page import Page
from traceanalyzer.report.verdict import compute_share, step_ns
from traceanalyzer.report.words import (
    apportion,
    bucket_words,
    counted,
    duration,
    ranges,
    short_names,
)

# Ledgers whose buckets all differ by less than this share are told as one.
ALIKE_SHARE = 0.02
MOST_BARS = 3

_COLORS = {
    "compute": "green",
    "host.dataloader": "yellow",
    "host.sync": "red",
    "host.launch_api": "magenta",
    "host.op": "bright_magenta",
    "host.python": "bright_yellow",
    "dev.comm_transfer": "blue",
    "dev.comm_skew": "bright_blue",
    "dev.h2d": "cyan",
    "dev.d2h": "bright_cyan",
}
_FALLBACK = {
    "host": ("bright_red", "dark_orange", "yellow3", "pink3"),
    "dev": ("deep_sky_blue1", "turquoise2", "steel_blue1"),
}
# Without colours the fill tells the buckets apart.
_FILLS = "█▒░▓╱+=:·"


@dataclass(frozen=True)
class LedgerGroup:
    """Devices with ledgers alike; the slowest of them stands for all."""

    worst: DeviceLedger
    members: tuple[DeviceLedger, ...]


def alike(ledgers: Sequence[DeviceLedger]) -> list[LedgerGroup]:
    """Group ledgers that differ by little, the group with the slowest device first."""
    groups: list[list[DeviceLedger]] = []
    for ledger in sorted(ledgers, key=lambda x: (-step_ns(x), compute_share(x), x.trace, x.device)):
        for group in groups:
            if _distance(group[0], ledger) < ALIKE_SHARE:
                group.append(ledger)
                break
        else:
            groups.append([ledger])
    return [LedgerGroup(group[0], tuple(group)) for group in groups]


def write_ledgers(page: Page, ledgers: Sequence[DeviceLedger], *, verbose: bool) -> None:
    """Write a bar and its legend for every group of ledgers that are alike."""
    groups = alike(ledgers) if not verbose else [LedgerGroup(ledger, (ledger,)) for ledger in ledgers]
    shown = groups if verbose else groups[:MOST_BARS]
    # Two traces of one rank: then only their names tell them apart.
    named = short_names([x.trace for x in ledgers]) if len({(x.rank, x.device) for x in ledgers}) < len(ledgers) else {}
    for group in shown:
        _write_group(page, group, named, alone=len({ledger.trace for ledger in ledgers}) == 1)
    hidden = sum(len(group.members) for group in groups[len(shown) :])
    if hidden:
        page.line((f"  and {counted(hidden, 'faster device')} that differ; -v shows all", "dim"))
        page.blank()


def write_run_ledger(page: Page, ledger: RunLedger) -> None:
    """Write where the run's time goes: a bar and its legend, and which ranks the others wait for."""
    window = (
        f"one step of {duration(step_ns(ledger))}" if ledger.step_count else f"{duration(ledger.window_ns)}, no steps"
    )
    waited = [(rank, dur_ns / ledger.window_ns) for rank, dur_ns in ledger.ranks if ledger.window_ns]
    told = ", ".join(
        f"rank {rank} {share:.0%}".replace("%", " %") for rank, share in waited[:3] if share >= SMALL_SHARE
    )
    title = [("Where the run's time goes", "bold"), ("  " + window, "bold")]
    page.flow([*title, (f"  that of the rank which the others wait for: {told}", "dim")])
    _write_bar(page, ledger)


def places(ledgers: Sequence[DeviceLedger], *, alone: bool = False) -> str:
    """Say which devices these are: `ranks 0-7`, `rank 0, devices 0, 1`; the one trace of a run needs no name."""
    ranks = [ledger.rank for ledger in ledgers if ledger.rank is not None]
    devices = sorted({ledger.device for ledger in ledgers})
    device_words = f"device{'' if len(devices) == 1 else 's'} {ranges(devices)}"
    if len(ranks) < len(ledgers):
        if alone:
            return device_words
        traces = sorted(short_names([ledger.trace for ledger in ledgers]).values())
        return f"{device_words} of {traces[0]}" if len(traces) == 1 else f"{device_words} of {len(traces)} traces"
    unique = sorted(set(ranks))
    rank_words = f"rank{'' if len(unique) == 1 else 's'} {ranges(unique)}"
    return rank_words if len(unique) > 1 else f"{rank_words}, {device_words}"


def _write_group(page: Page, group: LedgerGroup, named: Mapping[str, str], *, alone: bool) -> None:
    ledger = group.worst
    window = (
        f"one step of {duration(step_ns(ledger))}" if ledger.step_count else f"{duration(ledger.window_ns)}, no steps"
    )
    where = [places(group.members, alone=alone)]
    if named and len(group.members) == 1 and ledger.rank is not None:
        where.append(named[ledger.trace])
    if len(group.members) > 1:
        where.append(f"alike; the slowest, {places([ledger], alone=alone)}, is shown")
    if ledger.device_name:
        where.append(ledger.device_name)
    title = [("Where the time goes", "bold"), ("  " + window, "bold"), ("  " + where[0], "dim")]
    page.flow([*title, *((" · " + words, "dim") for words in where[1:])])
    _write_bar(page, ledger)


def _write_bar(page: Page, ledger: DeviceLedger | RunLedger) -> None:
    rows = ledger_rows(ledger)
    cells = apportion([dur_ns for _, dur_ns in rows], page.width - 2)
    looks = _looks(page, [bucket for bucket, _ in rows])
    page.line("  ", *((fill * count, color) for (fill, color), count in zip(looks, cells, strict=True)))
    shares = shares_words(ledger)
    labels = [bucket_words(bucket) for bucket, _ in rows]
    width = max(map(len, labels))
    for (bucket, dur_ns), (fill, color), label in zip(rows, looks, labels, strict=True):
        time = duration(dur_ns / max(ledger.step_count, 1))
        name = bucket if label != bucket else ""
        page.line("  ", (fill, color), f" {label:<{width}}  {time:>9}  {shares[bucket]:>7}  ", (name, "dim"))
    page.blank()


def _looks(page: Page, buckets: Sequence[str]) -> list[tuple[str, str]]:
    """Return fill and colour for each bucket: colours where they are shown, else fills that differ."""
    if not page.colored:
        return [(_FILLS[min(i, len(_FILLS) - 1)], "") for i in range(len(buckets))]
    spare = {family: list(colors) for family, colors in _FALLBACK.items()}
    looks = []
    for bucket in buckets:
        color = _COLORS.get(bucket)
        if color is None:
            colors = spare.get(bucket.split(".")[0], [])
            color = colors.pop(0) if colors and "unresolved" not in bucket else "bright_black"
        looks.append(("█", color))
    return looks


def _distance(a: DeviceLedger, b: DeviceLedger) -> float:
    shares_a, shares_b = ({name: ns / x.window_ns for name, ns in x.buckets if x.window_ns} for x in (a, b))
    names = shares_a.keys() | shares_b.keys()
    buckets = max((abs(shares_a.get(name, 0.0) - shares_b.get(name, 0.0)) for name in names), default=0.0)
    longer = max(step_ns(a), step_ns(b), 1.0)
    return max(buckets, abs(step_ns(a) - step_ns(b)) / longer)
