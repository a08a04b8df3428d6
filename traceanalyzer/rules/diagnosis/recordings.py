"""Several recordings of one rank: which of them are judged, and which steps are pooled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb

from traceanalyzer.diagnosis import DeviceLedger, Recording, RunLedger
from traceanalyzer.rules.evaluation.places import RunPlaces
from traceanalyzer.rules.evaluation.removals import Device

_COLUMNS = (
    "trace, rank, device, rank_id, recording, recording_count, session, step_count, window_ns, step_mean_ns, "
    "step_min_ns, step_max_ns, is_judged, apart_because"
)


def read_recordings(con: duckdb.DuckDBPyConnection) -> tuple[Recording, ...]:
    """Return the recordings of a run in which a rank was recorded several times; of all others nothing."""
    ((most,),) = con.execute("SELECT coalesce(max(recording_count), 1) FROM recordings").fetchall()
    if most == 1:
        return ()
    rows = con.execute(f"SELECT {_COLUMNS} FROM pooled_recordings ORDER BY trace_id, device").fetchall()
    return tuple(Recording(*row) for row in rows)


def with_recordings(run: RunPlaces, recordings: Sequence[Recording]) -> RunPlaces:
    """Return the places of a run without the recordings that are only listed; its pooled ones share their steps.

    Steps are pooled where one device of one rank was recorded several times. Ranks that wait for each other are
    followed in each session by itself.
    """
    unjudged = frozenset(item.trace for item in recordings if not item.is_judged)
    judged = [item for item in recordings if item.is_judged]
    run = replace(
        run,
        devices=tuple(place for place in run.devices if place.trace not in unjudged),
        windows={key: window for key, window in run.windows.items() if window["trace"] not in unjudged},
        unjudged=unjudged,
    )
    of_sessions = Counter(item.session for item in judged)
    is_one_rank = len(run.windows) == len(judged) == len(of_sessions) > 1
    if not is_one_rank or not all(item.step_count for item in judged):
        return run
    pooled = tuple((run.trace_ids[item.trace], item.device) for item in judged)
    steps, spread = sum(item.step_count for item in judged), _spread(run, pooled)
    together = {"steps_in_all": steps, "step_spread": spread}
    return replace(run, windows={key: window | together for key, window in run.windows.items()}, pooled=pooled)


def _spread(run: RunPlaces, pooled: Sequence[Device]) -> float | None:
    """Return the standard deviation of all steps over their mean, from those of each recording."""
    windows: list[dict[str, Any]] = [run.windows[device] for device in pooled]
    steps = sum(window["step_count"] for window in windows)
    mean_ns = sum(window["window_ns"] for window in windows) / steps
    if steps < 2 or not mean_ns:
        return None
    squares = 0.0
    for window in windows:
        count = window["step_count"]
        own_ns = window["window_ns"] / count
        # The spread of one recording is that of a sample.
        within = (count - 1) * ((window["step_spread"] or 0.0) * own_ns) ** 2
        squares += within + count * (own_ns - mean_ns) ** 2
    return float(math.sqrt(squares / (steps - 1)) / mean_ns)


def judged_ledgers(run: RunPlaces, ledgers: Sequence[DeviceLedger]) -> tuple[DeviceLedger, ...]:
    """Return the ledgers of the recordings that the report is about."""
    return tuple(ledger for ledger in ledgers if ledger.trace not in run.unjudged)


def pooled_ledger(run: RunPlaces, ledgers: Sequence[DeviceLedger]) -> RunLedger | None:
    """Return the ledger of all steps of the pooled recordings; None where nothing is pooled."""
    if not run.pooled:
        return None
    buckets: Counter[str] = Counter()
    ranks: Counter[int | None] = Counter()
    for ledger in ledgers:
        buckets.update(dict(ledger.buckets))
        ranks[ledger.rank] += ledger.window_ns
    steps = sum(ledger.step_count for ledger in ledgers)
    in_order = sorted(buckets.items(), key=lambda item: (-item[1], item[0]))
    return RunLedger(sum(ranks.values()), steps, tuple(in_order), tuple(ranks.items()), len(run.pooled))
