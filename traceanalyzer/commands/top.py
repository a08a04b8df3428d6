"""`traceanalyzer top`: what costs most, one question a word."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import click

from traceanalyzer.commands.opening import RunOptions, opened, run_options, step_options
from traceanalyzer.errors import TraceAnalyzerError

# What is asked: the rows of a metric, and the columns by which they can be ordered, the usual one first.
_QUESTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "kernels": (
        "SELECT name, kernel_count, sum_ns, sum_share, median_ns, max_ns, occupancy_percent FROM kernel_summary",
        {"time": "sum_ns"},
    ),
    "operators": (
        "SELECT operator, input_shapes, call_count, dur_ns, tflops, gb_per_s, floor_share, headroom_ns, limited_by, "
        "status FROM operator_efficiency",
        {"headroom": "headroom_ns", "time": "dur_ns", "flops": "flops"},
    ),
    "modules": (
        "SELECT path, call_count, forward_ns, backward_ns, recomputed_ns, host_sum_ns, flops FROM modules",
        {"time": "forward_ns + backward_ns + recomputed_ns", "flops": "flops"},
    ),
    "lines": (
        "SELECT name, call_count, host_self_ns, device_ns, idle_ns FROM python_lines",
        {"time": "device_ns", "idle": "idle_ns"},
    ),
    "collectives": (
        "SELECT collective_kind, group_size, comm_dtype, size_bytes, call_count, dur_sum_ns, min_ns, "
        "best_bus_gb_per_s, link_share, is_lower_bound FROM collective_efficiency",
        {"time": "dur_sum_ns"},
    ),
    "iterations": (
        "SELECT kind, iteration_count, tokens, p50_ns, p95_ns, p99_ns, busy_share, gap_sum_ns, tokens_per_s "
        "FROM inference_summary",
        {"time": "p50_ns * iteration_count", "idle": "gap_sum_ns"},
    ),
}


@click.command()
@click.argument("what", type=click.Choice(list(_QUESTIONS)))
@run_options
@step_options
@click.option("--by", help="Order: time, or another that WHAT has, such as headroom, idle or flops.")
@click.option("--rank", type=int, metavar="N", help="Only this rank of the job.")
@click.option("-n", "--rows", type=click.IntRange(min=1), default=20, show_default=True, help="Rows to show.")
def top(options: RunOptions, what: str, by: str | None, rank: int | None, rows: int) -> None:
    """Show what costs most: kernels, operators, modules, lines of Python, collectives, or iterations of an engine.

    Operators are in the order of their headroom, the time above what the device's data sheet allows. The rows are those
    of a metric: `traceanalyzer metrics show NAME` has the definitions.
    """
    query, orders = _QUESTIONS[what]
    order = next(iter(orders.values())) if by is None else orders.get(by)
    if order is None:
        raise TraceAnalyzerError(f"{what} have no order '{by}'", "--by", f"there is {', '.join(orders)}")
    with opened(options) as (run, activity):
        parameters: dict[str, Any] = {"rows": rows}
        condition = ""
        if rank is not None:
            condition, parameters["rank"] = " WHERE rank = $rank", rank
        ordered = f"{query}{condition} ORDER BY {order} DESC NULLS LAST, 1, 2 LIMIT $rows"
        result = run.connection.execute(ordered, parameters)
        activity.stop()
        from traceanalyzer.report.screens import result_set

        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        result_set.write_table(result, sys.stdout, width=width)
