"""How evenly a finding's time lies over the steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import numpy as np

from traceanalyzer.rules import sandbox
from traceanalyzer.rules.bounds import claim_values, claimed_sql
from traceanalyzer.rules.model import ParamValue
from traceanalyzer.rules.places import Run
from traceanalyzer.rules.verdicts import Verdict

# Percentiles of fewer steps are the steps themselves.
LEAST_STEPS = 8


@dataclass(frozen=True)
class StepSpread:
    """Claimed time by step: of how many steps it is seen in how many, and the tenth and ninetieth percentile of all."""

    hits: int | None = None
    count: int | None = None
    p10_ns: int | None = None
    p90_ns: int | None = None


def step_spread(
    con: duckdb.DuckDBPyConnection, run: Run, verdict: Verdict, values: Mapping[str, ParamValue]
) -> StepSpread:
    """Return how the time that a finding claims lies over the kept steps of its device, or of all."""
    sql = claimed_sql(verdict.rule)
    devices = verdict.devices(run)
    count = max((run.windows[key]["step_count"] or 0 for key in devices), default=0)
    if sql is None or not count:
        return StepSpread()
    known = {**claim_values(verdict.rule, values), "places": [f"{trace_id}/{device}" for trace_id, device in devices]}
    try:
        rows = sandbox.query(con, _text().replace("SELECT NULL /* claimed */", sql), known).rows
    except sandbox.RuleQueryError:
        return StepSpread()  # only a time-out ends here: the finding stands without it
    times = np.zeros(max(count, len(rows)), np.int64)
    times[: len(rows)] = [dur_ns for _, dur_ns in rows]
    if count < LEAST_STEPS:
        return StepSpread(len(rows), count)
    p10_ns, p90_ns = (int(value) for value in np.percentile(times, (10, 90)))
    return StepSpread(len(rows), count, p10_ns, p90_ns)


@cache
def _text() -> str:
    return (Path(__file__).parent / "sql" / "claimed_steps.sql").read_text()
