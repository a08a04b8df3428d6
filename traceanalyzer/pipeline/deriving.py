"""Attribution of a run, and its last diagnosis: where the store has them, nothing that computes is imported.

A diagnosis is made from the stored tables, the rules, this package, what the caller and the settings file say, and the
day, on which a suppression may end. Its file holds it as JSON, behind a hash that needs the user's key.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.diagnosis import LIMIT_REACHED, DetailRanks, Diagnosis
from traceanalyzer.pipeline.finding import FoundRun
from traceanalyzer.process import give_memory_back
from traceanalyzer.rules import builtin_folder, rules_digest
from traceanalyzer.settings.settings import Settings
from traceanalyzer.store.inputs import StoredTrace, engine_key
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
    question = f"{options.key()} {ranks}"
    if captures:
        question += f" captures {[capture.rank for capture in captures]}"
    return opened_store.derived_place([trace.folder for trace in (*traces, *captures)], question)


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
            from traceanalyzer.pipeline.attributing import in_processes, in_threads, kept_matched

            matched = kept_matched(opened_store, target.name)
            if executor is not None:
                attributed = in_processes(opened_store, target.name, traces, options, executor)
            else:
                attributed = in_threads(opened_store, target.name, traces, options, found.request.cores)
        if len(traces) > HELD_DEVICES:
            from traceanalyzer.pipeline.attributing import scans_of_run

            folder, scans_of = scratch, scans_of_run(scratch, executor, opened_store.place, target.name)
        give_memory_back()
        with connect_canonical(traces, captures=captures) as connection:
            tables = engine.compute_derived(connection, options, matched, attributed, folder, scans_of)
            for name, table in tables.items():
                pq.write_table(table, scratch / f"{name}.parquet", **parquet_options(table.schema))

    return opened_store.derived_folder(target, [trace.folder for trace in (*traces, *captures)], compute)


def diagnosis_key(
    tables: Sequence[object],
    project: Settings,
    rule_paths: Sequence[Path],
    params: Mapping[str, Any],
    opening: DetailRanks,
) -> str:
    """Return all that a diagnosis depends on, as text; `tables` say which run it is and where its tables lie."""
    facts = (
        *tables,
        project,
        sorted(params.items()),
        opening,
        rules_digest([builtin_folder(), *project.rule_paths, *rule_paths]),
        engine_key(("*",)),
        datetime.date.today(),
    )
    return "\n".join(map(repr, facts))


def kept_diagnosis(store: Store, question: str) -> Diagnosis | None:
    """Return the diagnosis that was kept under a question; None where there is none."""
    content = store.answers.get(question)
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=Diagnosis)
    except msgspec.DecodeError:
        return None


def keep_diagnosis(store: Store, question: str, diagnosis: Diagnosis) -> None:
    """Keep a diagnosis for the next time, if it is whole and JSON can hold it."""
    if any(outcome.reason == LIMIT_REACHED for outcome in diagnosis.outcomes):
        return
    try:
        content = msgspec.json.encode(diagnosis)
        if msgspec.json.decode(content, type=Diagnosis) == diagnosis:
            store.answers.keep(question, content)
    except (TypeError, UnicodeError, msgspec.MsgspecError):
        return
