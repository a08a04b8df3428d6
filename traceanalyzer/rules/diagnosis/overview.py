"""Reads what a diagnosis shows besides the findings: traces, the ledger of each device, defects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import duckdb

from traceanalyzer.diagnosis import (
    DeviceLedger,
    HostFunction,
    HostLedger,
    KernelClass,
    RunLedger,
    SharedGpu,
    TopKernel,
    TopOperator,
    TraceDefect,
    TraceSummary,
)
from traceanalyzer.rules.sql import read_query


def traces(con: duckdb.DuckDBPyConnection) -> tuple[TraceSummary, ...]:
    """Return what each trace of the run is, in the run's order."""
    return tuple(TraceSummary(*row) for row in con.execute(read_query("trace_summaries")).fetchall())


def ledgers(con: duckdb.DuckDBPyConnection) -> tuple[DeviceLedger, ...]:
    """Return the analysis window of each device, cut into buckets that add up to it, with what computes in it."""
    kernels = {(row["trace"], row["device"]): row for row in _rows(con, "device_kernels")}
    shared = {(row.pop("trace"), row.pop("device")): SharedGpu(**row) for row in _rows(con, "shared_gpu_times")}
    devices = []
    for row in _rows(con, "device_ledgers"):
        buckets = tuple(zip(row.pop("names"), row.pop("durations"), strict=True))
        found = kernels[(row["trace"], row["device"])]
        devices.append(
            DeviceLedger(
                **row,
                buckets=buckets,
                kernel_classes=_kernel_classes(found["kernel_classes"]),
                top_kernels=_top_kernels(found["top_kernels"], row["window_ns"]),
                peaks_known=found["peaks_known"],
                unjudged_share=found["unjudged_share"],
                shared_gpu=shared.get((row["trace"], row["device"])),
            )
        )
    return tuple(devices)


def _kernel_classes(classes: Sequence[dict[str, Any]]) -> tuple[KernelClass, ...]:
    kernels_ns = sum(row["wall_ns"] for row in classes)
    return tuple(
        KernelClass(row["class"], row["wall_ns"], row["wall_ns"] / kernels_ns, row["call_count"]) for row in classes
    )


def _top_kernels(kernels: Sequence[dict[str, Any]], window_ns: int) -> tuple[TopKernel, ...]:
    return tuple(
        TopKernel(
            row["name"], row["class"], row["wall_ns"], row["wall_ns"] / window_ns, row["call_count"], row["mean_ns"]
        )
        for row in kernels
    )


def _rows(con: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = con.sql(read_query(query)).to_arrow_table().to_pylist()
    return rows


def run_ledger(con: duckdb.DuckDBPyConnection, devices: Sequence[DeviceLedger]) -> RunLedger | None:
    """Return where the run's time went, if its ranks wait for each other and can be followed."""
    rows = con.execute(read_query("run_path")).fetchall()
    if not rows or not devices:
        return None
    buckets: Counter[str] = Counter()
    ranks: Counter[int | None] = Counter()
    for rank, bucket, dur_ns in rows:
        buckets[bucket] += dur_ns
        ranks[rank] += dur_ns
    slowest = max(devices, key=lambda device: device.window_ns)
    return RunLedger(slowest.window_ns, slowest.step_count, tuple(buckets.most_common()), tuple(ranks.most_common()))


def host_ledgers(con: duckdb.DuckDBPyConnection) -> tuple[HostLedger, ...]:
    """Return what the threads that run the steps do, in a run without GPU work."""
    rows = con.sql("FROM host_ledger").to_arrow_table().to_pylist()
    operators: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(con, "host_operators") if rows else ():
        operators.setdefault(row["trace"], []).append(row)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["trace"], []).append(row)
    return tuple(
        HostLedger(
            trace,
            buckets[0]["rank"],
            buckets[0]["window_ns"],
            buckets[0]["step_count"],
            tuple((row["bucket"], row["dur_ns"]) for row in buckets),
            tuple(
                TopOperator(row["name"], row["self_ns"], row["self_ns"] / buckets[0]["window_ns"], row["call_count"])
                for row in operators.get(trace, ())
            ),
        )
        for trace, buckets in found.items()
    )


def defects(con: duckdb.DuckDBPyConnection) -> tuple[TraceDefect, ...]:
    """Return the kinds of defects found in each trace, losses first."""
    return tuple(TraceDefect(*row) for row in con.execute(read_query("trace_defects")).fetchall())


def host_hint(con: duckdb.DuckDBPyConnection) -> str | None:
    """Return how to record what the host does between recorded calls, in the words of each profiler of the run."""
    hints = [hint for (hint,) in con.execute(read_query("host_hints")).fetchall()]
    return "; ".join(dict.fromkeys(hints)) or None


def host_functions(con: duckdb.DuckDBPyConnection) -> tuple[HostFunction, ...]:
    """Return what CPU samples found where a device waited for a host of which nothing else was recorded."""
    return tuple(HostFunction(*row) for row in con.execute(read_query("host_functions")).fetchall())
