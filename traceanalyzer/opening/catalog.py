"""The catalogue of a run's store: every table and metric as documented views, for any DuckDB client.

It is written when it is asked for, and renewed while it is there: binding every metric takes as long as a diagnosis.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from traceanalyzer.opening.ncu_tables import hash_of
from traceanalyzer.store.store import Store
from traceanalyzer.store.stored_trace import NcuTable, StoredTrace


def renew_catalog(
    keeper: Store,
    traces: Sequence[StoredTrace],
    derived: Path | None,
    reused: bool,
    ncu_tables: Sequence[NcuTable],
    captures: Sequence[StoredTrace] = (),
    *,
    asked: bool,
) -> Future[None] | None:
    """Begin to write the catalogue if it was `asked` for or is there, unless it already shows what was opened.

    Below a folder with a question mark in its name there is none: DuckDB takes what follows for parameters.
    """
    if "?" in str(keeper.folder.absolute()) or not (asked or keeper.catalog.exists()):
        return None
    beside_traces = f" {hash_of(ncu_tables)}" if ncu_tables else ""
    shown_derived, *shown_beside = (keeper.catalog.shows() or "").partition(" ")
    is_shown = keeper.catalog.shows() is not None and "".join(shown_beside) == beside_traces
    if reused and is_shown and (derived is None or shown_derived == derived.name):
        return None
    shows = ("" if derived is None else derived.name) + beside_traces
    beside = ThreadPoolExecutor(1)
    writing = beside.submit(
        keeper.catalog.replace, shows, lambda file: _write_catalog(file, traces, derived, ncu_tables, captures)
    )
    beside.shutdown(wait=False)
    return writing


def _write_catalog(
    file: Path,
    traces: Sequence[StoredTrace],
    derived: Path | None,
    ncu_tables: Sequence[NcuTable],
    captures: Sequence[StoredTrace],
) -> None:
    from traceanalyzer.query import engine

    with engine.connect(traces, derived, file, ncu_tables=ncu_tables, captures=captures) as connection:
        engine.add_comments(connection)
