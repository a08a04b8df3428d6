"""Shares of time as every part of a report says them: those of a ledger add up, and so do fixes and what they leave."""

from __future__ import annotations

import itertools
from collections.abc import Set
from dataclasses import dataclass

from traceanalyzer.diagnosis import DeviceLedger, Diagnosis, FixPlan, HostLedger, RunLedger
from traceanalyzer.text.words import percent, tenths_of_percent

# Buckets below this share, and those after the first few, are added up in one line.
SMALL_SHARE = 0.01
MOST_BUCKETS = 8


def shares_words(ledger: DeviceLedger | RunLedger | HostLedger, *, every: bool = False) -> dict[str, str]:
    """Say the share of each bucket that has a line, so that they add up; what is not nothing never reads 0."""
    whole = ledger_rows(ledger, every=True)
    # A bucket has one share, whether the others have a line each or are added up.
    tenths = _tenths(dict(whole), {bucket for bucket, _ in ledger_rows(ledger)})
    rows = ledger_rows(ledger, every=every)
    rest = sum(tenths.values()) - sum(tenths.get(bucket, 0) for bucket, _ in rows)
    # A bucket that rounds to 0 and holds time keeps a share that is said as less than the least.
    return {
        bucket: percent(tenths.get(bucket, rest) / 1000 or dur_ns / max(ledger.window_ns, 1) / 1000)
        for bucket, dur_ns in rows
    }


def _tenths(whole: dict[str, int], large: Set[str]) -> dict[str, int]:
    """Return shares that add up to 1,000: large ones as they round, so that small ones take up what this leaves."""
    exact = {bucket: 1000 * dur_ns / max(sum(whole.values()), 1) for bucket, dur_ns in whole.items()}
    rounded = {
        bucket: round(float(f"{share / 10:.1f}") * 10) if bucket in large else int(share)
        for bucket, share in exact.items()
    }
    small = sorted(exact.keys() - large, key=lambda bucket: (int(exact[bucket]) - exact[bucket], bucket))
    left = 1000 - sum(rounded.values())
    if 0 <= left <= len(small):
        return rounded | {bucket: rounded[bucket] + 1 for bucket in small[:left]}
    return dict(zip(whole, tenths_of_percent(list(whole.values())), strict=True))


def ledger_rows(ledger: DeviceLedger | RunLedger | HostLedger, *, every: bool = False) -> list[tuple[str, int]]:
    """Return the buckets worth a line, compute first and then by size, and the rest added up, or `every` one."""
    compute = [] if isinstance(ledger, HostLedger) else [("compute", dict(ledger.buckets).get("compute", 0))]
    waits = sorted((b for b in ledger.buckets if b[1] > 0 and b[0] != "compute"), key=lambda b: (-b[1], b[0]))
    if every:
        return [*compute, *waits]
    large = [*compute, *(b for b in waits if b[1] >= SMALL_SHARE * ledger.window_ns)][:MOST_BUCKETS]
    small = [b for b in waits if b not in large]
    if len(small) == 1:
        return large + small
    return large + ([(f"{len(small)} smaller buckets", sum(dur_ns for _, dur_ns in small))] if small else [])


def unexplained_share(diagnosis: Diagnosis, bucket: str, dur_ns: int) -> str:
    """Say a share of time that no rule explains; of a whole bucket as the ledger of the one device says it."""
    only = diagnosis.ledgers[0] if len(diagnosis.ledgers) == 1 else None
    if only is not None and (bucket, dur_ns) in only.buckets and bucket in shares_words(only):
        return shares_words(only)[bucket]
    return percent(dur_ns / sum(ledger.window_ns for ledger in diagnosis.ledgers))


COMPUTE = "compute"


@dataclass(frozen=True)
class UnexplainedRest:
    """Shares of the windows: what is left when all fixes are made, and what goes with them although none owns it."""

    left: float
    gone: float


def unexplained_rest(diagnosis: Diagnosis) -> UnexplainedRest:
    """Return how much of the time that no finding owns is left, and how much goes with the fixes."""
    window_ns = sum(ledger.window_ns for ledger in diagnosis.ledgers)
    if not window_ns:
        return UnexplainedRest(0.0, 0.0)
    not_owned = sum(dur_ns for _, dur_ns in diagnosis.not_explained) / window_ns
    computed = max(dict(ledger.buckets).get(COMPUTE, 0) / max(ledger.window_ns, 1) for ledger in diagnosis.ledgers)
    saved = _saved_waits(diagnosis)
    left = min(not_owned, max(1 - computed - saved, 0.0))
    # Devices that wait for different shares of their windows differ without any fix, too.
    return UnexplainedRest(left, min(not_owned - left, saved))


def _saved_waits(diagnosis: Diagnosis) -> float:
    """Return the share of time without compute that fixes save: of the run, or of the device that saves least."""
    findings = {finding.rule: finding for finding in reversed(diagnosis.findings)}
    shortening = {
        rule
        for rule, finding in findings.items()
        if any(bucket.startswith(COMPUTE) for bucket in finding.owned_buckets)
    }
    # A fix that owns no time saves waits, unless the kernels that it makes shorter may be owned by another one.
    waiting = {
        rule
        for rule, finding in findings.items()
        if finding.owned_buckets or (finding.owned_ns == 0 and not shortening)
    }
    shares = [
        max(
            (
                _share(plan, shortening, waiting)
                for plan in diagnosis.plans
                if _is_of(plan, ledger.trace, ledger.device)
            ),
            default=0.0,
        )
        for ledger in diagnosis.ledgers
    ]
    return min(shares, default=0.0)


def _is_of(plan: FixPlan, trace: str, device: int) -> bool:
    return plan.trace is None or (plan.trace, plan.device) == (trace, device)


def _share(plan: FixPlan, shortening: Set[str], waiting: Set[str]) -> float:
    """Return what a plan saves up to its first fix that makes kernels shorter: behind it, waits take their place."""
    ahead = itertools.takewhile(lambda fix: fix.rule not in shortening, plan.fixes)
    return sum(fix.saving_ns for fix in ahead if fix.rule in waiting) / max(plan.window_ns, 1)


def compute_share(ledger: DeviceLedger | RunLedger) -> float:
    """Return the share of the window in which the device computes."""
    return dict(ledger.buckets).get("compute", 0) / ledger.window_ns if ledger.window_ns else 0.0


def busy_share(ledger: DeviceLedger) -> float:
    """Return for how much of the time a device computes, or its GPU works for any process that shares it."""
    shared = ledger.shared_gpu
    return compute_share(ledger) if shared is None else shared.busy_ns / shared.span_ns
