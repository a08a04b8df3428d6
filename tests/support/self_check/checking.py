"""Every check of one run, and what each of them found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing as closing_connection
from dataclasses import dataclass
from pathlib import Path

import duckdb

from self_check import bounding, changed_tables, closing, invariance
from self_check.changed_tables import Tables, read_tables, row_count
from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.attribution.replay.bounds import Bounds
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.rule_file.model import FINDING, ParamValue, Rule
from traceanalyzer.rules.rule_set.loading import load_rules

# Telling a run again takes its tables into memory; 2.4 million events need about a gigabyte.
MOST_ROWS = 5_000_000


@dataclass(frozen=True)
class CheckResult:
    """A claim that must hold, and the places where it does not."""

    claim: str
    broken: tuple[str, ...]
    skipped: str | None = None  # why it was not checked; None: it was


def check_run(
    con: duckdb.DuckDBPyConnection,
    diagnosis: Diagnosis,
    rule_paths: Sequence[Path] = (),
    params: Mapping[str, ParamValue] | None = None,
    options: AttributionOptions | None = None,
) -> list[CheckResult]:
    """Run every check on a run and its diagnosis."""
    rules = load_rules(rule_paths, tests=False)
    options = options or AttributionOptions()
    return [*_of_the_answer(con, diagnosis, rules), *_of_changed_tables(con, diagnosis, rules, params or {}, options)]


def _of_the_answer(
    con: duckdb.DuckDBPyConnection, diagnosis: Diagnosis, rules: Sequence[Rule]
) -> Iterator[CheckResult]:
    bounds = Bounds.load(con)
    device_keys = sorted(device_key for device_key in bounds.devices if bounds.abstains(*device_key) is None)
    windows = {
        (trace_id, device): window_ns
        for trace_id, device, window_ns in con.execute(
            "SELECT trace_id, device, window_ns FROM attribution.windows"
        ).fetchall()
    }
    yield CheckResult("the ledger's rows lie end to end and fill each device's span", closing.gaps(con))
    yield CheckResult("the buckets of each window add up to it", closing.open_windows(con))
    yield CheckResult("the run's ledger adds up to the window of its slowest device", closing.open_run(con))
    yield CheckResult("what findings own and what none explains add up", closing.open_claims(diagnosis, rules))
    yield CheckResult(
        "the fixes of a device together save what they save one after the other", closing.marginals(diagnosis)
    )
    yield CheckResult("a bound is no longer than its window", bounding.too_long(bounds, device_keys, windows))
    yield CheckResult("removing nothing saves nothing", bounding.for_nothing(bounds, device_keys))
    yield CheckResult("removing more makes nothing later", bounding.shrinking(bounds, device_keys))


def _of_changed_tables(
    con: duckdb.DuckDBPyConnection,
    diagnosis: Diagnosis,
    rules: Sequence[Rule],
    params: Mapping[str, ParamValue],
    options: AttributionOptions,
) -> Iterator[CheckResult]:
    rows = row_count(con)
    if rows > MOST_ROWS:
        reason = f"{rows:,} rows are too many to diagnose again in memory"
        yield CheckResult("equivalent tables give the same answer", (), reason)
        return
    tables = read_tables(con)
    expected = invariance.summary(con, diagnosis)

    def summary_of(changed: Tables) -> invariance.RunSummary:
        with closing_connection(invariance.connection(changed, rules, options)) as other:
            return invariance.summary(other, diagnose(other, rules, params))

    # Each change by itself takes another diagnosis, which only a difference is worth.
    together = invariance.differences(expected, summary_of(changed_tables.by_all(tables, invariance.SAME_RUN.values())))
    alone = {
        claim: invariance.differences(expected, summary_of(change(tables))) if together else ()
        for claim, change in invariance.SAME_RUN.items()
    }
    yield from (CheckResult(claim, broken) for claim, broken in alone.items())
    yield CheckResult("all of these changes together change nothing", () if any(alone.values()) else together)
    # Rules about the trace itself may change their answer with what is recorded.
    about_the_program = frozenset(rule.id for rule in rules if rule.kind == FINDING)
    for capability, without in invariance.LESS_RECORDED.items():
        less = without(tables)
        if less is None:
            continue
        yield CheckResult(
            f"without {capability} nothing that fired is clear",
            invariance.turned_clear(expected, summary_of(less), about_the_program),
        )
