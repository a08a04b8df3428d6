"""Puts our numbers beside HTA's, with the reason for each difference where it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb

from hta_crosscheck.deviations import DEVIATIONS, DeviatingTrace, Numbers, Reasons
from hta_crosscheck.hta_numbers import hta_numbers, require_hta
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.run import Run
from traceanalyzer.store.inputs import StoredTrace

# In the order of the page: HTA's name of the analysis, the unit, and the numbers.
_PAGE = (
    ("temporal breakdown", "us", ("kernel time", "idle time", "compute time", "non-compute time")),
    ("communication overlap", "%", ("overlap",)),
    ("kernel breakdown", "us", ("compute kernels", "communication kernels", "copies and memsets")),
    ("kernel breakdown", "us", ("longest compute kernel",)),
    ("launch statistics", "", ("launches",)),
    ("launch statistics", "us", ("time in launching calls", "launch delay")),
    ("queue length", "", ("longest queue",)),
    ("queue length", "us", ("time at full queue",)),
    ("memory bandwidth", "GB/s", tuple(f"bandwidth {kind}" for kind in ("HtoD", "DtoH", "DtoD", "PtoP", "HtoH"))),
)
# HTA shows the overlap with two decimals; other numbers are whole, or sums of doubles.
_SLACK = {"%": 0.00501, "us": 0.0005, "": 0.0, "GB/s": 1e-6}

# Equal; different for a known reason; different for no known reason; HTA has no number.
Agreement = Literal["equal", "explained", "differs", "missing"]


@dataclass(frozen=True)
class Comparison:
    """One number of ours beside HTA's."""

    trace: str
    rank: int | None
    analysis: str  # HTA's name for it
    name: str
    unit: str
    ours: float | None
    theirs: float | None  # None: HTA has no number
    reasons: Reasons  # deviations that make ours theirs; empty: equal as they are; None: unexplained
    failure: str | None = None  # why HTA has no number, where it says so

    @property
    def agreement(self) -> Agreement:
        """How our number and HTA's agree."""
        if (self.ours is None and self.theirs is None) or self.reasons == ():
            return "equal"
        if self.theirs is None:
            return "missing"
        return "differs" if self.reasons is None else "explained"

    @property
    def why(self) -> str:
        """What HTA does differently, in words; empty where the numbers are equal or no reason is known."""
        if self.agreement == "missing":
            return self.failure or "HTA gives no number"
        return "; ".join(DEVIATIONS[reason] for reason in self.reasons or ())


def crosscheck(run: Run, note: Callable[[str], None] = lambda _: None) -> list[Comparison]:
    """Return our numbers beside HTA's for every PyTorch trace of a run with GPU work.

    `note` is called with the name of each trace before HTA reads it. Raises TraceAnalyzerError where HTA is not
    installed, or where the run has no trace that HTA reads.
    """
    kind_of = require_hta()
    readable = run.connection.execute(
        """
        SELECT trace, trace_id
        FROM canonical.traces
        SEMI JOIN gpu_ops USING (trace_id)
        WHERE format = 'kineto'
        """
    ).fetchall()
    if not readable:
        raise TraceAnalyzerError("no trace to compare", str(run.root), "HTA reads PyTorch traces with GPU work only")
    stored = {trace.trace: trace for trace in run.traces}
    comparisons: list[Comparison] = []
    for name, trace_id in readable:
        note(name)
        comparisons += _compare(run.connection, stored[name], trace_id, kind_of)
    return comparisons


def _compare(
    connection: duckdb.DuckDBPyConnection, trace: StoredTrace, trace_id: int, kind_of: Callable[[str], str]
) -> Iterator[Comparison]:
    if not (isinstance(trace.path, Path) and trace.path.is_file()):
        hint = "unpack the archive, or download the run, and give the folder"
        raise TraceAnalyzerError("HTA reads files only", str(trace.path), hint)
    theirs = hta_numbers(trace.path)
    deviating = DeviatingTrace(connection, trace_id, kind_of)
    ours = deviating.numbers() | _bandwidths(connection, trace_id)
    for analysis, unit, names in _PAGE:
        for name in names:
            our, their = ours.get(name), theirs.values.get(name)
            if our is None and their is None:
                continue
            reasons = None if their is None else _reasons(deviating, name, unit, our, their)
            yield Comparison(trace.trace, trace.rank, analysis, name, unit, our, their, reasons, theirs.failure)


def _reasons(deviating: DeviatingTrace, name: str, unit: str, ours: float | None, theirs: float) -> Reasons:
    def agrees(one: float | None, other: float | None) -> bool:
        if one is None or other is None:
            return one is other
        return abs(one - other) <= max(_SLACK[unit], 1e-9 * abs(other))

    if agrees(ours, theirs):
        return ()
    if name.startswith("bandwidth"):
        return ("points",)
    return deviating.explain(name, theirs, agrees)


def _bandwidths(connection: duckdb.DuckDBPyConnection, trace_id: int) -> Numbers:
    """Return the bandwidth of copies by direction, in GB/s."""
    rows = connection.execute(
        """
        SELECT 'bandwidth ' || copy_kind, sum(copies.size_bytes) / nullif(sum(sum_ns), 0)
        FROM copies
        JOIN canonical.traces USING (trace)
        WHERE trace_id = $1 AND copy_kind IS NOT NULL
        GROUP BY copy_kind
        """,
        [trace_id],
    ).fetchall()
    return dict(rows)
