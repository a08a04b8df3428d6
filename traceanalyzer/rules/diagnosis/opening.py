"""Chooses the ranks of a run that are opened: every rank is screened by every rule, evidence is quoted from a few.

Several recordings of one rank: which of them are judged, and which steps are pooled.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from traceanalyzer.diagnosis import DeviceLedger, Finding, RankSteps, Recording, RunLedger, Screening
from traceanalyzer.errors import TraceAnalyzerError

# An answer that was kept is printed without them.
if TYPE_CHECKING:
    import duckdb

    from traceanalyzer.rules.evaluation.places import RunPlaces
    from traceanalyzer.rules.evaluation.removals import Device

_COLUMNS = (
    "trace, rank, device, rank_id, recording, recording_count, session, step_count, window_ns, step_mean_ns, "
    "step_min_ns, step_max_ns, is_judged, apart_because"
)


def read_recordings(con: duckdb.DuckDBPyConnection) -> tuple[Recording, ...]:
    """Return the recordings of a run in which a rank was recorded several times; of all others nothing."""
    ((most,),) = con.execute("SELECT coalesce(max(recording_count), 1) FROM recordings").fetchall()
    if most == 1:
        return ()
    rows = con.execute(f"SELECT {_COLUMNS} FROM pooled_recordings ORDER BY trace_id, device").fetchall()
    return tuple(Recording(*row) for row in rows)


def with_recordings(run: RunPlaces, recordings: Sequence[Recording]) -> RunPlaces:
    """Return the places of a run without the recordings that are only listed; its pooled ones share their steps.

    Steps are pooled where one device of one rank was recorded several times. Ranks that wait for each other are
    followed in each session by itself.
    """
    unjudged = frozenset(item.trace for item in recordings if not item.is_judged)
    judged = [item for item in recordings if item.is_judged]
    run = replace(
        run,
        devices=tuple(place for place in run.devices if place.trace not in unjudged),
        windows={key: window for key, window in run.windows.items() if window["trace"] not in unjudged},
        unjudged=unjudged,
    )
    of_sessions = Counter(item.session for item in judged)
    is_one_rank = len(run.windows) == len(judged) == len(of_sessions) > 1
    if not is_one_rank or not all(item.step_count for item in judged):
        return run
    pooled = tuple((run.trace_ids[item.trace], item.device) for item in judged)
    steps, spread = sum(item.step_count for item in judged), _spread(run, pooled)
    together = {"steps_in_all": steps, "step_spread": spread}
    return replace(run, windows={key: window | together for key, window in run.windows.items()}, pooled=pooled)


def _spread(run: RunPlaces, pooled: Sequence[Device]) -> float | None:
    """Return the standard deviation of all steps over their mean, from those of each recording."""
    windows: list[dict[str, Any]] = [run.windows[device] for device in pooled]
    steps = sum(window["step_count"] for window in windows)
    mean_ns = sum(window["window_ns"] for window in windows) / steps
    if steps < 2 or not mean_ns:
        return None
    squares = 0.0
    for window in windows:
        count = window["step_count"]
        own_ns = window["window_ns"] / count
        # The spread of one recording is that of a sample.
        within = (count - 1) * ((window["step_spread"] or 0.0) * own_ns) ** 2
        squares += within + count * (own_ns - mean_ns) ** 2
    return float(math.sqrt(squares / (steps - 1)) / mean_ns)


def judged_ledgers(run: RunPlaces, ledgers: Sequence[DeviceLedger]) -> tuple[DeviceLedger, ...]:
    """Return the ledgers of the recordings that the report is about, of the devices that compute.

    Beside devices that compute, one that only sends or receives copies waits for nothing. Where none computes, all are.
    """
    computing = {ledger.trace for ledger in ledgers if dict(ledger.buckets).get("compute")}
    return tuple(
        ledger
        for ledger in ledgers
        if ledger.trace not in run.unjudged and (ledger.trace not in computing or dict(ledger.buckets).get("compute"))
    )


def pooled_ledger(run: RunPlaces, ledgers: Sequence[DeviceLedger]) -> RunLedger | None:
    """Return the ledger of all steps of the pooled recordings; None where nothing is pooled."""
    if not run.pooled:
        return None
    buckets: Counter[str] = Counter()
    ranks: Counter[int | None] = Counter()
    for ledger in ledgers:
        buckets.update(dict(ledger.buckets))
        ranks[ledger.rank] += ledger.window_ns
    steps = sum(ledger.step_count for ledger in ledgers)
    in_order = sorted(buckets.items(), key=lambda item: (-item[1], item[0]))
    return RunLedger(sum(ranks.values()), steps, tuple(in_order), tuple(ranks.items()), len(run.pooled))


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
