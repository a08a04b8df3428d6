"""Which ranks, traces and devices a part of a report is about."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.diagnosis import DeviceLedger, Diagnosis, Finding
from traceanalyzer.report.verdict import is_recorded_again
from traceanalyzer.report.words import ranges, short_names


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
    if len(diagnosis.ledgers) == len(diagnosis.traces) == 1:
        return ""
    if len(finding.same_on_ranks) > 1:
        total = len({trace.rank for trace in diagnosis.traces if trace.rank is not None})
        on = f"on {len(finding.same_on_ranks)} of {total} ranks" if total else f"ranks {ranges(finding.same_on_ranks)}"
        return f"{on}, worst rank {finding.rank}"
    if finding.trace is None:
        return "the run" if finding.rank is None else f"the run, rank {finding.rank}"
    device = f"device {finding.device}" if finding.device is not None else "the whole trace"
    if len(finding.same_on_devices) > 1:
        device = f"devices {ranges(finding.same_on_devices)}, worst {finding.device}"
    names = short_names([trace.trace for trace in diagnosis.traces])
    where = names.get(finding.trace or "", "the run")
    if len(finding.same_on_traces) > 1:
        found, again = len(finding.same_on_traces), is_recorded_again(diagnosis)
        judged = len({ledger.trace for ledger in diagnosis.ledgers}) if again else len(names)
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
