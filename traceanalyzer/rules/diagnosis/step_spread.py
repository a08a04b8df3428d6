"""Measures how evenly a finding's time lies over the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from traceanalyzer.attribution.vocabulary.buckets import Ints
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.places import RunPlaces
from traceanalyzer.rules.evaluation.removals import Device, claim_values, claimed_sql
from traceanalyzer.rules.evaluation.verdicts import Verdict
from traceanalyzer.rules.rule_file.model import ParamValue
from traceanalyzer.rules.sql import read_query

# Percentiles of fewer steps are the steps themselves.
LEAST_STEPS = 8


@dataclass(frozen=True)
class StepSpread:
    """The claimed time of steps: how many of all steps have some, and the tenth and ninetieth percentile of all."""

    hits: int | None = None
    count: int | None = None
    p10_ns: int | None = None
    p90_ns: int | None = None
    error: str | None = None  # why it could not be worked out


def step_spread(
    con: duckdb.DuckDBPyConnection, run: RunPlaces, verdict: Verdict, values: Mapping[str, ParamValue]
) -> StepSpread:
    """Return how the time that a finding claims lies over the kept steps of its device, or of all.

    Of recordings whose steps are pooled, over the steps of all: where its rule claims none, each has none of the time.
    """
    sql = claimed_sql(verdict.rule)
    recordings: list[Sequence[Device]] = [(device,) for device in run.pooled] or [verdict.devices(run)]
    if sql is None:
        return StepSpread()
    known = claim_values(verdict.rule, values)
    try:
        of_recordings = [_claimed_ns(con, run, sql, known, devices) for devices in recordings]
    except sandbox.RuleQueryError as error:
        return StepSpread(error=error.what)
    times, hits = np.concatenate([times for times, _ in of_recordings]), sum(hits for _, hits in of_recordings)
    if not len(times):
        return StepSpread()
    if len(times) < LEAST_STEPS:
        return StepSpread(hits, len(times))
    p10_ns, p90_ns = (int(value) for value in np.percentile(times, (10, 90)))
    return StepSpread(hits, len(times), p10_ns, p90_ns)


def _claimed_ns(
    con: duckdb.DuckDBPyConnection, run: RunPlaces, sql: str, known: Mapping[str, ParamValue], devices: Sequence[Device]
) -> tuple[Ints, int]:
    """Return the claimed time of each kept step of some devices, and how many steps have some."""
    count = max((run.windows[key]["step_count"] or 0 for key in devices), default=0)
    if not count:
        return np.zeros(0, np.int64), 0
    places = [f"{trace_id}/{device}" for trace_id, device in devices]
    query = read_query("claimed_steps").replace("SELECT NULL /* claimed */", sql)
    rows = sandbox.query(con, query, {**known, "places": places}).rows
    times = np.zeros(max(count, len(rows)), np.int64)
    times[: len(rows)] = [dur_ns for _, dur_ns in rows]
    return times, len(rows)
