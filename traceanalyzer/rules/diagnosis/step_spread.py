"""Measures how evenly a finding's time lies over the steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import numpy as np

from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.places import RunPlaces
from traceanalyzer.rules.evaluation.removals import claim_values, claimed_sql
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
    """Return how the time that a finding claims lies over the kept steps of its device, or of all."""
    sql = claimed_sql(verdict.rule)
    devices = verdict.devices(run)
    count = max((run.windows[key]["step_count"] or 0 for key in devices), default=0)
    if sql is None or not count:
        return StepSpread()
    known = {**claim_values(verdict.rule, values), "places": [f"{trace_id}/{device}" for trace_id, device in devices]}
    try:
        rows = sandbox.query(con, read_query("claimed_steps").replace("SELECT NULL /* claimed */", sql), known).rows
    except sandbox.RuleQueryError as error:
        return StepSpread(error=error.what)
    times = np.zeros(max(count, len(rows)), np.int64)
    times[: len(rows)] = [dur_ns for _, dur_ns in rows]
    if count < LEAST_STEPS:
        return StepSpread(len(rows), count)
    p10_ns, p90_ns = (int(value) for value in np.percentile(times, (10, 90)))
    return StepSpread(len(rows), count, p10_ns, p90_ns)
