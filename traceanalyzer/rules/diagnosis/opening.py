"""Chooses the ranks of a run that are opened: every rank is screened by every rule, evidence is quoted from a few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from traceanalyzer.diagnosis import Finding, RankSteps, RunLedger, Screening
from traceanalyzer.errors import TraceAnalyzerError

# Runs of so many ranks are opened whole.
OPENED_RANKS = 64
_LEAST_OWNED_SHARE = 0.01
_MOST_OUTLIERS = 8


@dataclass(frozen=True)
class Opening:
    """How many ranks are opened at most, or which: by default those of which a report says most."""

    most: int = OPENED_RANKS
    ranks: tuple[int, ...] = ()


def choose_opened(
    opening: Opening,
    ranks: Mapping[str, int | None],
    steps: Sequence[RankSteps],
    run_ledger: RunLedger | None,
    findings: Iterable[Finding],
) -> Screening | None:
    """Return which traces are opened; None: all of them. `ranks` are those of all traces.

    In this order, as far as there is room: ranks for which the run waits 1 % of its time or more, those that stand out
    most, of each role the rank with the usual own time, and the worst rank of each finding.
    """
    check_ranks(opening, ranks)
    if not opening.ranks and len(ranks) <= opening.most:
        return None
    trace_of = {rank: trace for trace, rank in reversed([*ranks.items()]) if rank is not None}
    if opening.ranks:
        return Screening(len(ranks), tuple(trace_of[rank] for rank in dict.fromkeys(opening.ranks)))
    owners = [] if run_ledger is None else run_ledger.ranks
    least_ns = 0 if run_ledger is None else _LEAST_OWNED_SHARE * run_ledger.window_ns
    chosen = [trace_of[rank] for rank, ns in owners if rank in trace_of and ns >= least_ns]
    outliers = sorted((item for item in steps if item.stands_out), key=lambda item: -_more_share(item))
    chosen += [item.trace for item in outliers[:_MOST_OUTLIERS]]
    chosen += _usual(steps)
    chosen += [finding.trace for finding in findings if finding.trace is not None]
    return Screening(len(ranks), tuple(dict.fromkeys(chosen))[: opening.most])


def check_ranks(opening: Opening, ranks: Mapping[str, int | None]) -> None:
    """Raise TraceAnalyzerError for a rank to be opened that the run does not have."""
    known = {rank for rank in ranks.values() if rank is not None}
    for rank in opening.ranks:
        if rank not in known:
            hint = f"it has {len(known)}, from {min(known)} to {max(known)}" if known else "the traces name no ranks"
            raise TraceAnalyzerError(f"the run has no rank {rank}", "--open-ranks", hint)


def _more_share(item: RankSteps) -> float:
    return item.stands_out.more_share if item.stands_out else 0.0


def _usual(steps: Sequence[RankSteps]) -> Iterator[str]:
    roles: dict[int, list[RankSteps]] = {}
    for item in steps:
        roles.setdefault(item.role, []).append(item)
    for members in roles.values():
        own_ns = [sum(item.own_ns) for item in members]
        usual_ns = median(own_ns)
        yield min(zip(members, own_ns, strict=True), key=lambda member: abs(member[1] - usual_ns))[0].trace
