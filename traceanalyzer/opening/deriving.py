"""Attribution of a run, from the store or computed: where it lies there, nothing that computes is imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.attribution.options import AttributionOptions
from traceanalyzer.opening.finding import FoundRun
from traceanalyzer.store.inputs import StoredTrace
from traceanalyzer.store.store import MATCHED, Store


def derived_place(
    opened_store: Store,
    traces: Sequence[StoredTrace],
    options: AttributionOptions,
    captures: Sequence[StoredTrace] = (),
) -> Path:
    """Return where the attribution tables of some traces lie, once they are there."""
    # Ranks, and which traces are recordings of one, may come from the files' names, on which no trace's folder depends.
    ranks = [trace.trace if trace.rank is None else trace.rank for trace in traces]
    asked = f"{options.key()} {ranks}"
    if captures:
        asked += f" captures {[capture.rank for capture in captures]}"
    return opened_store.derived_place([trace.folder for trace in (*traces, *captures)], asked)


def derived_of(found: FoundRun, traces: Sequence[StoredTrace], captures: Sequence[StoredTrace] = ()) -> Path:
    """Return the folder of the attribution tables of a run's traces, computed if the store lacks them.

    The executor of the request runs the tasks, by default threads of this process.
    """
    opened_store, options, executor = found.opened_store, found.options, found.request.executor
    target = derived_place(opened_store, traces, options, captures)

    def compute(scratch: Path) -> None:
        import pyarrow.parquet as pq

        from traceanalyzer.attribution.replay.bounds import HELD_DEVICES
        from traceanalyzer.query import engine
        from traceanalyzer.query.canonical import connect_canonical
        from traceanalyzer.schema import parquet_options

        matched = attributed = folder = scans_of = None
        if executor is not None or len(traces) > 1 or opened_store.find_rank_folder(target.name, MATCHED) is not None:
            from traceanalyzer.opening.attributing import in_processes, in_threads, kept_matched

            matched = kept_matched(opened_store, target.name)
            if executor is not None:
                attributed = in_processes(opened_store, target.name, traces, options, executor)
            else:
                attributed = in_threads(opened_store, target.name, traces, options, found.request.cores)
        if len(traces) > HELD_DEVICES:
            from traceanalyzer.opening.screening import scans_of_run

            folder, scans_of = scratch, scans_of_run(scratch, executor, opened_store.place, target.name)
        with connect_canonical(traces, captures=captures) as connection:
            tables = engine.compute_derived(connection, options, matched, attributed, folder, scans_of)
            for name, table in tables.items():
                pq.write_table(table, scratch / f"{name}.parquet", **parquet_options(table.schema))

    return opened_store.derived_folder(target, [trace.folder for trace in (*traces, *captures)], compute)
