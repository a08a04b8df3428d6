"""The charts of a report one by one, as SVG: notebooks show them, `.save(path)` writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.process import dicts_of
from traceanalyzer.report.charts.ledger_charts import ledger_bar, step_columns
from traceanalyzer.report.charts.ledger_charts import waterfall as draw_waterfall
from traceanalyzer.report.charts.svg import Svg
from traceanalyzer.report.diagnosis_blocks import plan_rows
from traceanalyzer.report.diagnosis_blocks.ledgers import alike
from traceanalyzer.report.diagnosis_blocks.ledgers import ledger_bar as bar_of
from traceanalyzer.report.html.sections.ledger import step_times
from traceanalyzer.report.html.sections.ranks import rank_map
from traceanalyzer.report.html.source import query
from traceanalyzer.text.words import counted

if TYPE_CHECKING:
    from traceanalyzer.run import Run

__all__ = ["heat_map", "ledger", "steps", "waterfall"]


def ledger(diagnosis: Diagnosis) -> Svg:
    """Return where the time goes, of the run or of its slowest device, as a bar.

    Raises TraceAnalyzerError where no device has a window.
    """
    if not diagnosis.ledgers:
        raise TraceAnalyzerError("there is no time ledger, as no GPU work could be analyzed", diagnosis.run)
    shown = diagnosis.run_ledger or alike(diagnosis.ledgers)[0].worst
    return ledger_bar(bar_of(shown, codes=False, every=True), alone=True)


def waterfall(diagnosis: Diagnosis) -> Svg:
    """Return what the fixes save one after the other. Raises TraceAnalyzerError where no fix saves time."""
    rows = plan_rows(diagnosis)
    if not rows:
        raise TraceAnalyzerError("no finding saves time", diagnosis.run)
    now, *drops = rows
    return draw_waterfall(now, drops, "; ".join(f"{d.name}: {d.time} left, {d.saves}" for d in drops), alone=True)


def steps(run: Run, trace: str | None = None, device: int | None = None) -> Svg:
    """Return the steps of a device by what they were spent on; by default those of the slowest device.

    Raises TraceAnalyzerError where it has no steps.
    """
    if trace is None or device is None:
        slowest = run.connection.execute(
            "SELECT trace, device FROM attribution.windows JOIN canonical.traces USING (trace_id) "
            "WHERE ($1 IS NULL OR trace = $1) AND ($2 IS NULL OR device = $2) "
            "ORDER BY step_mean_ns DESC NULLS LAST, trace_id, device LIMIT 1",
            [trace, device],
        ).fetchone()
        trace, device = slowest if slowest is not None else (trace or "", device or 0)
    times = step_times(dicts_of(run.connection.execute(query("step_ledgers"), [trace, device])))
    if not times:
        raise TraceAnalyzerError(f"device {device} has no steps", trace)
    return step_columns(times, f"{counted(len(times), 'step')} of device {device}", alone=True)


def heat_map(run: Run) -> Svg:
    """Return how long each rank works in each step before it waits for others; darker is slower.

    Raises TraceAnalyzerError for a run without several ranks that have steps.
    """
    cells = {(rank, step): own_ns for rank, step, own_ns in run.connection.execute(query("rank_steps")).fetchall()}
    drawn = rank_map(cells)
    if drawn is None:
        raise TraceAnalyzerError("a heat map needs two ranks with steps", str(run.root))
    return drawn
