"""The ranks that stand out, and those that are opened: all are screened by every rule, evidence is quoted from a few.

A rank stands out whose own time is longer, step after step, than that of ranks with the same work. Ranks that hold up
the others in turn become one finding.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import duckdb
import numpy as np
from msgspec.structs import replace

from traceanalyzer.attribution.columns import Ints
from traceanalyzer.diagnosis import (
    DetailRanks,
    DeviceLedger,
    Finding,
    RankSteps,
    Recording,
    RunLedger,
    Screening,
    StandsOut,
)
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.rules.evaluation.interventions import Device
from traceanalyzer.rules.evaluation.sandbox import read_query
from traceanalyzer.rules.evaluation.scopes import RunScopes, Scope
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import (
    Candidate,
    PlanContext,
    Reevaluate,
    fired_after,
    group_by_rule,
    waiting_for_fixes,
)
from traceanalyzer.rules.rule_file.model import FIRED


def join_ranks(context: PlanContext, verdicts: Sequence[Verdict], evaluate: Reevaluate) -> list[Verdict]:
    """Return the verdicts; a clear one fires where its rank has a part in what fired on another rank.

    Ranks that hold up the others in turn save little one by one. Where a rule fired on one rank, its fix is due on
    every rank on which the rule would fire if that rank saved what the run saves by fixing all of them, as long as
    these ranks add to it. Each keeps its own bound, and the report merges them.
    """
    run_savings = context.run_savings
    if run_savings is None:
        return list(verdicts)
    in_turn: dict[str, set[Scope]] = {}
    groups = []
    for rule, own in group_by_rule(verdicts).items():
        fired = [verdict for verdict in own if verdict.state == FIRED]
        clear = waiting_for_fixes(context, own)
        if fired and clear:
            groups.append((rule, fired, clear))
    after = fired_after(context, [[*fired, *clear] for _, fired, clear in groups], {}, evaluate)
    for (rule, fired, clear), of_rule in zip(groups, after, strict=True):
        scopes = {verdict.scope for verdict in of_rule.get(Scope(), ())}
        late = [verdict for verdict in clear if verdict.scope in scopes]
        alone, with_late = (Candidate(tuple(ranks), 0).interventions for ranks in (fired, [*fired, *late]))
        if late and run_savings.saved_ns(with_late) - run_savings.saved_ns(alone) >= context.floor_ns(Scope()):
            in_turn[rule] = {verdict.scope for verdict in (*fired, *late)}
    return [
        replace(verdict, state=FIRED, reason=None, detail=None, in_turn=True)
        if verdict.scope in in_turn.get(verdict.rule.id, ())
        else verdict
        for verdict in verdicts
    ]


# Fewer devices have no usual time.
LEAST_DEVICES = 4
# A step is clearly longer from this share of the median on, and from this many median distances from the median.
LEAST_SHARE = 0.02
LEAST_DISTANCES = 4
# A rank that is late only now and then does not stand out.
LEAST_STEPS_SHARE = 0.6
LEAST_STEPS = 2
# Kernels below this share of the window do not show what a device does: loggers and the first rank have some.
TELLING_KERNEL_SHARE = 0.05
_COMMUNICATION = ("dev.comm", "dev.straggler_wait", "host.comm_cpu")

_Device = tuple[str, int]  # trace, device


def rank_steps(con: duckdb.DuckDBPyConnection, ledgers: Sequence[DeviceLedger]) -> tuple[RankSteps, ...]:
    """Return the own time of each device step by step, compared with the devices that run the same kernels.

    Own time is all time without communication; a rank that waits for others is not slow. Empty where there are few
    devices, or where devices have no steps or different ones.
    """
    own = _own_times(con)
    roles: dict[frozenset[tuple[str, int]], list[DeviceLedger]] = {}
    for ledger in ledgers:
        if (ledger.trace, ledger.device) in own:
            roles.setdefault(_work(ledger), []).append(ledger)
    lengths = {len(times) for times in own.values()}
    if sum(map(len, roles.values())) < LEAST_DEVICES or len(lengths) != 1:
        return ()
    compared = [steps for number, members in enumerate(roles.values()) for steps in _compare(number, members, own)]
    position = {(ledger.trace, ledger.device): at for at, ledger in enumerate(ledgers)}
    return tuple(sorted(compared, key=lambda steps: position[steps.trace, steps.device]))


def _own_times(con: duckdb.DuckDBPyConnection) -> dict[_Device, list[int]]:
    own: dict[_Device, list[int]] = {}
    for trace, device, _, own_ns in con.execute(read_query("own_time_of_steps")).fetchall():
        own.setdefault((trace, device), []).append(own_ns)
    return own


def _work(ledger: DeviceLedger) -> frozenset[tuple[str, int]]:
    """Return the kernels that a device computes with, and how often in a step: the same in the same role."""
    telling = (kernel for kernel in ledger.top_kernels if kernel.share >= TELLING_KERNEL_SHARE)
    return frozenset((kernel.name, round(kernel.call_count / max(ledger.step_count, 1))) for kernel in telling)


def _compare(role: int, members: Sequence[DeviceLedger], own: Mapping[_Device, Sequence[int]]) -> list[RankSteps]:
    times: Ints = np.asarray([own[ledger.trace, ledger.device] for ledger in members], np.int64)
    usual = np.median(times, axis=0)
    distance = np.median(np.abs(times - usual), axis=0)
    more_share = (times - usual) / np.maximum(usual, 1)
    is_longer = (more_share > LEAST_SHARE) & (times - usual > LEAST_DISTANCES * distance)
    hits = is_longer.sum(axis=1)
    stand_out = (hits >= max(LEAST_STEPS, LEAST_STEPS_SHARE * times.shape[1])) & (len(members) >= LEAST_DEVICES)
    steps = []
    for at, ledger in enumerate(members):
        more_ns = float((times[at] - usual).mean())
        standing_out = None
        if stand_out[at]:
            standing_out = _stands_out(ledger, members, int(hits[at]), more_ns, more_ns / max(float(usual.mean()), 1))
        steps.append(
            RankSteps(
                *(ledger.trace, ledger.rank, ledger.device, role),
                tuple(times[at].tolist()),
                tuple(more_share[at].tolist()),
                standing_out,
            )
        )
    return steps


def _stands_out(
    ledger: DeviceLedger, members: Sequence[DeviceLedger], hits: int, more_ns: float, more_share: float
) -> StandsOut:
    """Return how a device differs, with the bucket of its ledger that is longer than its role's median by most."""
    own = _buckets_of_a_step(ledger)
    others = [_buckets_of_a_step(member) for member in members]
    usual = {bucket: float(np.median([other.get(bucket, 0.0) for other in others])) for bucket in own}
    bucket = max(own, key=lambda name: (own[name] - usual[name], name))
    share = own[bucket] / usual[bucket] - 1 if usual[bucket] else None
    return StandsOut(hits, round(more_ns), more_share, bucket, round(own[bucket] - usual[bucket]), share)


def _buckets_of_a_step(ledger: DeviceLedger) -> dict[str, float]:
    steps = max(ledger.step_count, 1)
    return {bucket: ns / steps for bucket, ns in ledger.buckets if not bucket.startswith(_COMMUNICATION)}


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


def with_recordings(run: RunScopes, recordings: Sequence[Recording]) -> RunScopes:
    """Return the scopes of a run without the recordings that are only listed; its pooled ones share their steps.

    Steps are pooled where one device of one rank was recorded several times. Ranks that wait for each other are
    followed in each session by itself.
    """
    unjudged = frozenset(item.trace for item in recordings if not item.is_judged)
    judged = [item for item in recordings if item.is_judged]
    run = replace(
        run,
        devices=tuple(scope for scope in run.devices if scope.trace not in unjudged),
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


def _spread(run: RunScopes, pooled: Sequence[Device]) -> float | None:
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


def judged_ledgers(run: RunScopes, ledgers: Sequence[DeviceLedger]) -> tuple[DeviceLedger, ...]:
    """Return the ledgers of the recordings that the report is about, of the devices that compute.

    Beside devices that compute, one that only sends or receives copies waits for nothing. Where none computes, all are.
    """
    computing = {ledger.trace for ledger in ledgers if dict(ledger.buckets).get("compute")}
    return tuple(
        ledger
        for ledger in ledgers
        if ledger.trace not in run.unjudged and (ledger.trace not in computing or dict(ledger.buckets).get("compute"))
    )


def pooled_ledger(run: RunScopes, ledgers: Sequence[DeviceLedger]) -> RunLedger | None:
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


_LEAST_OWNED_SHARE = 0.01
_MOST_OUTLIERS = 8


def choose_detail_ranks(
    detail_ranks: DetailRanks,
    ranks: Mapping[str, int | None],
    steps: Sequence[RankSteps],
    run_ledger: RunLedger | None,
    findings: Iterable[Finding],
) -> Screening | None:
    """Return which traces are opened; None: all of them. `ranks` are those of all traces.

    In this order, as far as there is room: ranks for which the run waits 1 % of its time or more, those that stand out
    most, of each role the rank with the usual own time, and the worst rank of each finding.
    """
    check_ranks(detail_ranks, ranks)
    if not detail_ranks.ranks and len(ranks) <= detail_ranks.most:
        return None
    trace_of = {rank: trace for trace, rank in reversed([*ranks.items()]) if rank is not None}
    if detail_ranks.ranks:
        return Screening(len(ranks), tuple(trace_of[rank] for rank in dict.fromkeys(detail_ranks.ranks)))
    owners = [] if run_ledger is None else run_ledger.ranks
    least_ns = 0 if run_ledger is None else _LEAST_OWNED_SHARE * run_ledger.window_ns
    chosen = [trace_of[rank] for rank, ns in owners if rank in trace_of and ns >= least_ns]
    outliers = [(-item.stands_out.more_share, at) for at, item in enumerate(steps) if item.stands_out]
    chosen += [steps[at].trace for _, at in sorted(outliers)[:_MOST_OUTLIERS]]
    chosen += _usual(steps)
    chosen += [finding.trace for finding in findings if finding.trace is not None]
    return Screening(len(ranks), tuple(dict.fromkeys(chosen))[: detail_ranks.most])


def check_ranks(detail_ranks: DetailRanks, ranks: Mapping[str, int | None]) -> None:
    """Raise TraceAnalyzerError for a rank to be opened that the run does not have."""
    known = {rank for rank in ranks.values() if rank is not None}
    for rank in detail_ranks.ranks:
        if rank not in known:
            hint = f"it has {len(known)}, from {min(known)} to {max(known)}" if known else "the traces name no ranks"
            raise TraceAnalyzerError(f"the run has no rank {rank}", "--open-ranks", hint)


def _usual(steps: Sequence[RankSteps]) -> Iterator[str]:
    roles: dict[int, list[RankSteps]] = {}
    for item in steps:
        roles.setdefault(item.role, []).append(item)
    for members in roles.values():
        own_ns = [sum(item.own_ns) for item in members]
        usual_ns = median(own_ns)
        yield min(zip(members, own_ns, strict=True), key=lambda member: abs(member[1] - usual_ns))[0].trace
