"""Ranks that stand out: which, by how much and in what, and a map of all ranks and steps that shows them.

The words for the ranks, traces and devices that a part of a report is about are here, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.diagnosis import DeviceLedger, Diagnosis, Finding, RankSteps
from traceanalyzer.diagnosis.verdict import is_recorded_again
from traceanalyzer.report.blocks import Block, Heading, HeatMap, HeatRow, Section, Table, Text
from traceanalyzer.text.words import bucket_words, counted, duration, percent, ranges, short_names


def devices_words(ledgers: Sequence[DeviceLedger], *, alone: bool = False) -> str:
    """Say which devices these are: `ranks 0-7`, `rank 0, devices 0, 1`; the one trace of a run needs no name."""
    ranks = [ledger.rank for ledger in ledgers if ledger.rank is not None]
    devices = sorted({ledger.device for ledger in ledgers})
    device_words = _plural("device", devices)
    if len(ranks) < len(ledgers):
        if alone:
            return device_words
        traces = sorted(short_names([ledger.trace for ledger in ledgers]).values())
        return f"{device_words} of {traces[0]}" if len(traces) == 1 else f"{device_words} of {len(traces)} traces"
    unique = sorted(set(ranks))
    return _plural("rank", unique) if len(unique) > 1 else f"{_plural('rank', unique)}, {device_words}"


def finding_place(diagnosis: Diagnosis, finding: Finding) -> str:
    """Say where a finding holds, and where it is worst; nothing where there is one device."""
    if len(diagnosis.traces) == 1 >= len(diagnosis.ledgers):
        return ""
    if len(finding.same_on_ranks) > 1:
        total = len({trace.rank for trace in diagnosis.traces if trace.rank is not None})
        on = f"on {len(finding.same_on_ranks)} of {total} ranks" if total else f"ranks {ranges(finding.same_on_ranks)}"
        return f"{on}, worst rank {finding.rank}"
    if finding.trace is None:
        return "the run" if finding.rank is None else f"the run, rank {finding.rank}"
    device = f"device {finding.device}" if finding.device is not None else "the host"
    if len(finding.same_on_devices) > 1:
        device = f"devices {ranges(finding.same_on_devices)}, worst {finding.device}"
    names = short_names([trace.trace for trace in diagnosis.traces])
    where = names.get(finding.trace or "", "the run")
    if len(finding.same_on_traces) > 1:
        found, again = len(finding.same_on_traces), is_recorded_again(diagnosis)
        judged = len({ledger.trace for ledger in diagnosis.ledgers} if again and diagnosis.ledgers else names)
        what = "recordings" if again else "traces"
        traces = f"all {what}" if found == judged else f"{found} of {judged} {what}"
        return f"in {traces}, worst in {where}"
    if finding.rank is None:
        return device if len(names) == 1 else f"{device} in {where}"
    if sum(ledger.rank == finding.rank and ledger.device == finding.device for ledger in diagnosis.ledgers) > 1:
        return f"rank {finding.rank}, {device} in {where}"
    only = "only " if len({trace.rank for trace in diagnosis.traces}) > 1 else ""
    return f"{only}rank {finding.rank}, {device}"


def quality_place(diagnosis: Diagnosis, finding: Finding) -> str:
    """Say which ranks (or trace) and devices a finding about the trace names, where the run holds others."""
    places = []
    if len(finding.same_on_ranks) > 1:
        places.append(f"ranks {ranges(finding.same_on_ranks)}")
    elif len(diagnosis.traces) > 1 and (finding.rank is not None or finding.trace):
        # What makes a file worthless has to be found and replaced, so its name says more than its rank.
        by_name = finding.rank is None or (finding.severity == "blocker" and finding.trace)
        places.append(f"{finding.trace}" if by_name else f"rank {finding.rank}")
    several = len({ledger.device for ledger in diagnosis.ledgers if ledger.trace == finding.trace}) > 1
    if several and finding.device is not None:
        places.append(_plural("device", finding.same_on_devices or (finding.device,)))
    return f"{', '.join(places)}: " if places else ""


def _plural(noun: str, numbers: Sequence[int]) -> str:
    return f"{noun}{'' if len(numbers) == 1 else 's'} {ranges(numbers)}"


MOST_OUTLIERS = 6
MOST_CELLS = 48
MOST_ROWS = 6
# Fewer ranks need no map.
LEAST_MAPPED = 8
# The levels of the map begin at these shares above the median.
LEVELS = (0.02, 0.05, 0.10)


def rank_sections(diagnosis: Diagnosis) -> list[Section]:
    """Return the ranks whose own time is longer than that of ranks with the same work; nothing where none is."""
    ranks = diagnosis.ranks
    outliers = sorted((item for item in ranks if item.stands_out), key=lambda item: -_more_share(item))
    if not outliers:
        return []
    alike = len(ranks) - len(outliers)
    note = f"own time of a step, without communication; {alike:,} of {len(ranks):,} {_noun(ranks)}s are as usual"
    roles = len({item.role for item in ranks})
    notes = [note] + ([f"{roles} roles, by the kernels that run"] if roles > 1 else [])
    blocks: list[Block] = [_table(outliers, ranks)]
    if len(ranks) >= LEAST_MAPPED:
        blocks.append(_map(ranks))
    return [Section(tuple(blocks), Heading("Ranks that stand out", tuple(Text(words, "dim") for words in notes)))]


def _more_share(item: RankSteps) -> float:
    return item.stands_out.more_share if item.stands_out else 0.0


def _noun(ranks: Sequence[RankSteps]) -> str:
    return "rank" if _one_device_each(ranks) else "device"


def _one_device_each(ranks: Sequence[RankSteps]) -> bool:
    return len({item.rank for item in ranks if item.rank is not None}) == len(ranks)


def _name(item: RankSteps, ranks: Sequence[RankSteps]) -> str:
    if _one_device_each(ranks):
        return f"rank {item.rank}"
    return f"{item.trace if item.rank is None else f'rank {item.rank}'}, device {item.device}"


def _table(outliers: Sequence[RankSteps], ranks: Sequence[RankSteps]) -> Block:
    rows = []
    for item in outliers[:MOST_OUTLIERS]:
        if item.stands_out is None:
            continue
        found, count = item.stands_out, len(item.own_ns)
        rows.append(
            (
                _name(item, ranks),
                f"+{percent(found.more_share)}",
                f"{duration(found.more_ns)} longer",
                "all steps" if found.step_hits == count else f"{found.step_hits} of {counted(count, 'step')}",
                _because(item),
            )
        )
    hidden = outliers[MOST_OUTLIERS:]
    if hidden:
        named = [item.rank for item in hidden if item.rank is not None]
        words = f"ranks {ranges(named)}" if _one_device_each(ranks) else f"{len(hidden)} more"
        rows.append((words, f"up to +{percent(_more_share(hidden[0]))}", "", "", "fields `ranks` of --format json"))
    columns = (_noun(ranks), "own time", "a step", "seen in", "most of it")
    return Table(columns, tuple(rows), right=frozenset({1, 2}))


def _because(item: RankSteps) -> str:
    found = item.stands_out
    if found is None:
        return ""
    longer = duration(found.bucket_more_ns)
    if found.bucket == "compute":
        share = f" ({percent(found.bucket_more_share)})" if found.bucket_more_share is not None else ""
        return f"its GPU computes {longer} longer{share}"
    return f"{bucket_words(found.bucket)}, {longer} longer"


def _map(ranks: Sequence[RankSteps]) -> Block:
    """Return steps by ranks: a cell of several ranks shows the one most above its role, of several steps the mean."""
    import numpy as np  # few runs have so many ranks

    ordered = sorted(ranks, key=lambda item: (item.rank is None, item.rank or 0, item.trace, item.device))
    more = np.asarray([item.more_share for item in ordered])
    width = 1
    while -(-len(ordered) // width) > MOST_CELLS:
        width *= 2
    height = -(-more.shape[1] // MOST_ROWS)
    rows = []
    for low in range(0, more.shape[1], height):
        of_rows = more[:, low : low + height].mean(axis=1)
        cells = [of_rows[at : at + width].max() for at in range(0, len(of_rows), width)]
        steps = range(low + 1, min(low + height, more.shape[1]) + 1)
        label = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]}-{steps[-1]}"
        rows.append(HeatRow(label, tuple(int(np.searchsorted(LEVELS, cell, side="right")) for cell in cells)))
    first = [ordered[at] for at in range(0, len(ordered), width)]
    columns = tuple(str(at * width) if item.rank is None else str(item.rank) for at, item in enumerate(first))
    usual = "usual" if width == 1 else f"usual ({width} {_noun(ranks)}s in a cell, the slowest counts)"
    return HeatMap(columns, tuple(rows), (usual, *(f"+{share:.0%}".replace("%", " %") for share in LEVELS)))
