"""The catalogue of a run's store: every table and metric as documented views, for any DuckDB client."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from traceanalyzer.store.store import Store
from traceanalyzer.stored_trace import StoredCounters, StoredTrace


def renew_catalog(
    keeper: Store,
    traces: Sequence[StoredTrace],
    derived: Path | None,
    reused: bool,
    counters: Sequence[StoredCounters],
) -> Future[None] | None:
    """Begin to write the catalogue, unless it already shows what was opened.

    Below a folder with a question mark in its name there is none: DuckDB takes what follows for parameters.
    """
    if "?" in str(keeper.folder.absolute()):
        return None
    beside_traces = f" {_hash_of(counters)}" if counters else ""
    shown_derived, *shown_beside = (keeper.catalog_shows() or "").partition(" ")
    is_shown = keeper.catalog_shows() is not None and "".join(shown_beside) == beside_traces
    if reused and is_shown and (derived is None or shown_derived == derived.name):
        return None
    shows = ("" if derived is None else derived.name) + beside_traces
    beside = ThreadPoolExecutor(1)
    writing = beside.submit(keeper.replace_catalog, shows, lambda file: _write_catalog(file, traces, derived, counters))
    beside.shutdown(wait=False)
    return writing


def _hash_of(counters: Sequence[StoredCounters]) -> str:
    """Return a hash of what tables of counters hold, which their folders are named after, and what they are called."""
    text = "\n".join(f"{stored.folder.parent.name} {stored.folder.name} {stored.file}" for stored in counters)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write_catalog(
    file: Path, traces: Sequence[StoredTrace], derived: Path | None, counters: Sequence[StoredCounters]
) -> None:
    from traceanalyzer import engine

    with engine.connect(traces, derived, file, counters=counters) as connection:
        engine.add_comments(connection)
