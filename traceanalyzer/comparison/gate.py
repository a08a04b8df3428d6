"""Whether a run or a comparison passes: budgets, no slowdown, no new finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction

from traceanalyzer.comparison import statistics
from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.comparison.summary import DEFAULT_COMPARE_OPTIONS, CompareOptions, Summary, ledger_of
from traceanalyzer.diagnosis import SEVERITIES
from traceanalyzer.settings.budgets import MILLI_NS, Budget

PASSED, FAILED, UNSURE, NOT_JUDGED = STATES = ("passed", "failed", "unsure", "not judged")
FAIL_ON = ("slower", "budget", "new-finding", "any")
EXIT_FAILED, EXIT_NOT_JUDGED = 1, 3


@dataclass(frozen=True)
class Check:
    """One check of a gate: what was measured, the limit, and their unit."""

    name: str  # step.slower, verdict, new findings …
    state: str  # one of STATES
    unit: str  # ms, share, change (a share of the base), launches, findings or verdict
    limit: float | str
    measured: float | str | None = None
    low: float | None = None  # lower end of the 95 % interval of a change
    because: str = ""
    exception: str | None = None


@dataclass(frozen=True)
class GateResult:
    checks: tuple[Check, ...]

    def exit_code(self, unsure: str | None = None) -> int:
        """Return 0, 1 for a failure, or 3 where something cannot be judged; `unsure` may be fail or pass."""
        states = {check.state for check in self.checks}
        if FAILED in states or (UNSURE in states and unsure == "fail"):
            return EXIT_FAILED
        return EXIT_NOT_JUDGED if NOT_JUDGED in states or (UNSURE in states and unsure != "pass") else 0


def check_diff(diff: Diff, budgets: Sequence[Budget], fail_on: Sequence[str]) -> GateResult:
    """Return the checks that FAIL_ON asks of a comparison."""
    requested = set(FAIL_ON) if "any" in fail_on else set(fail_on)
    checks: list[Check] = []
    if "slower" in requested:
        checks.append(_verdict(diff))
    if "new-finding" in requested:
        checks.append(_new_findings("new findings", diff, SEVERITIES[0]))
    if "budget" in requested:
        new = diff.sides[1]
        checks += [
            _relative(item, diff) if item.is_relative else _absolute(item, new, diff.options) for item in budgets
        ]
    return GateResult(tuple(checks))


def check_run(summary: Summary, budgets: Sequence[Budget]) -> GateResult:
    return GateResult(
        tuple(_absolute(item, [summary], DEFAULT_COMPARE_OPTIONS) for item in budgets if not item.is_relative)
    )


def _verdict(diff: Diff) -> Check:
    judgement = diff.judgement
    limit = diff.options.min_effect_share
    states = {"slower": FAILED, "faster": PASSED, "same": PASSED, "not comparable": NOT_JUDGED}
    state = states.get(judgement.verdict) or (UNSURE if judgement.could_be_slower(limit) else PASSED)
    return Check("step time", state, "verdict", limit, judgement.verdict, judgement.low_share, judgement.because)


def _new_findings(name: str, diff: Diff, floor: str, exception: str | None = None) -> Check:
    """Return whether findings came that the base could have shown."""
    level = SEVERITIES.index(floor)
    found = [
        item
        for item in diff.findings
        if item.state == "new" and item.is_looked_for and SEVERITIES.index(item.severity) >= level
    ]
    blocked = diff.judgement.verdict == "not comparable"
    state = NOT_JUDGED if blocked else FAILED if found else PASSED
    rules = ", ".join(item.rule for item in found)
    why = diff.judgement.because if blocked else rules
    return Check(name, state, "findings", floor, float(len(found)), None, why, exception)


def _absolute(budget: Budget, side: Sequence[Summary], options: CompareOptions) -> Check:
    """Return whether the mean of a side keeps a budget."""
    blocked = next((item.blocked for item in side if item.blocked), None)
    ledgers = [ledger_of(item, options) for item in side]
    known = [ledger for ledger in ledgers if ledger is not None and ledger.window_ns]
    if blocked or len(known) < len(side):
        return _check(budget, NOT_JUDGED, "ms", None, because=blocked or "no GPU work")
    if budget.subject == "findings":
        return _any_finding(budget, side)
    steps_ns = [ledger.window_ns / max(ledger.step_count, 1) for ledger in known]
    if budget.limit == "max_ms" and not all(ledger.step_count for ledger in known):
        return _check(budget, NOT_JUDGED, "ms", None, because="no steps are known, so a time is as long as recorded")
    kind, _, name = budget.subject.partition(".")
    if kind == "kernel":
        if not _matching(name, [side]):
            return _check(budget, NOT_JUDGED, "ms", None, because=f"no kernel matches {name}")
        measured = _mean(_kernel_values([side], name, lambda row: row.dur_ns)[0]) / MILLI_NS
    elif kind == "step":
        measured = _mean(steps_ns) / MILLI_NS
    else:
        bucket = "compute" if kind == "compute_share" else name
        held = [ledger.buckets.get(bucket, 0) for ledger in known]
        shares = [part / ledger.window_ns for part, ledger in zip(held, known, strict=True)]
        times = [part / max(ledger.step_count, 1) / MILLI_NS for part, ledger in zip(held, known, strict=True)]
        measured = _mean(times if budget.limit == "max_ms" else shares)
    limit = float(budget.value)
    over = measured < limit if budget.limit == "min" else measured > limit
    return _check(budget, FAILED if over else PASSED, "ms" if budget.limit == "max_ms" else "share", measured)


def _any_finding(budget: Budget, side: Sequence[Summary]) -> Check:
    level = SEVERITIES.index(str(budget.value))
    rules = {
        finding.rule
        for item in side
        for finding in item.findings
        if finding.status != "suppressed" and SEVERITIES.index(finding.severity) >= level
    }
    state = FAILED if rules else PASSED
    return _check(budget, state, "findings", float(len(rules)), because=", ".join(sorted(rules)))


def _relative(budget: Budget, diff: Diff) -> Check:
    """Return whether a change keeps a budget: it fails where the whole interval is beyond it."""
    if budget.subject == "findings":
        return _new_findings(budget.name, diff, str(budget.value), budget.exception)
    judgement = diff.judgement
    unit = "launches" if budget.limit == "more_launches" else "change"
    if judgement.verdict == "not comparable":
        return _check(budget, NOT_JUDGED, unit, None, because=judgement.because)
    kind, _, name = budget.subject.partition(".")
    if kind == "step":
        return _judged(budget, judgement.change_share or 0.0, judgement.low_share)
    if kind == "ledger":
        return _judged(budget, *_bucket_change(diff, name))
    if not _matching(name, diff.sides):
        return _check(budget, NOT_JUDGED, unit, None, because=f"no kernel matches {name}")
    if budget.limit == "more_launches":
        launches = [_mean(side) for side in _kernel_values(diff.sides, name, lambda row: row.launch_count)]
        more = launches[1] - launches[0]
        return _check(budget, FAILED if more > float(budget.value) + 1e-9 else PASSED, unit, more)
    values = _kernel_values(diff.sides, name, lambda row: row.dur_ns)
    whole = _mean(values[0])
    if not whole:
        return _check(budget, NOT_JUDGED, unit, None, because="the base has no such kernel")
    return _judged(budget, *_change_of(values, whole))


def _judged(budget: Budget, change: float, low: float | None) -> Check:
    limit = float(budget.value)
    state = PASSED if change <= limit else FAILED if low is not None and low > limit else UNSURE
    because = "more captures are needed" if state == UNSURE else ""
    return _check(budget, state, "change", change, low, because)


def _check(
    budget: Budget, state: str, unit: str, measured: float | None, low: float | None = None, because: str = ""
) -> Check:
    return Check(budget.name, state, unit, budget.value, measured, low, because, budget.exception)


def _bucket_change(diff: Diff, bucket: str) -> tuple[float, float | None]:
    """Return the change of a bucket as a share of the base's step, and the lower end of its interval."""
    scales = diff.alignment.base_scales, diff.alignment.new_scales
    values = []
    for side, scale in zip(diff.sides, scales, strict=True):
        ledgers = [ledger_of(item, diff.options) for item in side]
        values.append(
            [
                float((ledger.buckets.get(bucket, 0) if ledger else 0) * unit)
                for ledger, unit in zip(ledgers, scale, strict=True)
            ]
        )
    return _change_of(values, float(diff.base_ns))


def _change_of(values: Sequence[Sequence[float]], whole: float) -> tuple[float, float | None]:
    change = _mean(values[1]) - _mean(values[0])
    # A run without time has a verdict only against itself: nothing changed.
    if not whole:
        return 0.0, None
    if min(map(len, values)) < 2:
        return change / whole, None
    return change / whole, statistics.welch(values[0], values[1]).low / whole


def _matching(pattern: str, sides: Sequence[Sequence[Summary]]) -> bool:
    return any(fnmatchcase(row.name, pattern) for side in sides for item in side for row in item.kernels.rows)


def _kernel_values(sides: Sequence[Sequence[Summary]], pattern: str, value: Callable[..., int]) -> list[list[float]]:
    """Return what the matching kernels of each capture come to, a step and device."""
    return [
        [
            float(
                Fraction(
                    sum(value(row) for row in item.kernels.rows if fnmatchcase(row.name, pattern)),
                    item.kernels.step_count,
                )
            )
            for item in side
        ]
        for side in sides
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
