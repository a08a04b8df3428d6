"""Finds the ranks that stand out: whose own time is longer, step after step, than that of ranks with the same work.

Joins ranks that hold up the others in turn into one finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb
import numpy as np

from traceanalyzer.attribution.buckets import Ints
from traceanalyzer.diagnosis import DeviceLedger, RankSteps, StandsOut
from traceanalyzer.rules.evaluation.places import Place
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.fix_plan.fix_order import Candidate
from traceanalyzer.rules.fix_plan.plan_context import (
    PlanContext,
    Reevaluate,
    fired_after,
    group_by_rule,
    waiting_for_fixes,
)
from traceanalyzer.rules.rule_file.model import FIRED
from traceanalyzer.rules.sql import read_query


def join_ranks(context: PlanContext, verdicts: Sequence[Verdict], evaluate: Reevaluate) -> list[Verdict]:
    """Return the verdicts; a clear one fires where its rank has a part in what fired on another rank.

    Ranks that hold up the others in turn save little one by one. Where a rule fired on one rank, its fix is due on
    every rank on which the rule would fire if that rank saved what the run saves by fixing all of them, as long as
    these ranks add to it. Each keeps its own bound, and the report merges them.
    """
    run_savings = context.run_savings
    if run_savings is None:
        return list(verdicts)
    in_turn: dict[str, set[Place]] = {}
    groups = []
    for rule, own in group_by_rule(verdicts).items():
        fired = [verdict for verdict in own if verdict.state == FIRED]
        clear = waiting_for_fixes(context, own)
        if fired and clear:
            groups.append((rule, fired, clear))
    after = fired_after(context, [[*fired, *clear] for _, fired, clear in groups], {}, evaluate)
    for (rule, fired, clear), of_rule in zip(groups, after, strict=True):
        places = {verdict.place for verdict in of_rule.get(Place(), ())}
        late = [verdict for verdict in clear if verdict.place in places]
        alone, with_late = (Candidate(tuple(ranks), 0).removals for ranks in (fired, [*fired, *late]))
        if late and run_savings.saved_ns(with_late) - run_savings.saved_ns(alone) >= context.floor_ns(Place()):
            in_turn[rule] = {verdict.place for verdict in (*fired, *late)}
    return [
        replace(verdict, state=FIRED, reason=None, detail=None, in_turn=True)
        if verdict.place in in_turn.get(verdict.rule.id, ())
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
