"""What XLA's profiler means in its own JSON, which shows each plane as a process and each line as a thread.

Names of the host's slices and operations of TPUs mean what they mean to the reader of profiles.
"""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from msgspec import Struct

from traceanalyzer.ingest.nesting import NONE, id_column
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.xla.ingester import FRAMEWORKS, recorder_shown
from traceanalyzer.ingest.xla.naming import CATEGORIES, category_of_name
from traceanalyzer.ingest.xla.stats import indices
from traceanalyzer.ingest.xla.tpu import ProgramRuns, meanings_of, time_inside
from traceanalyzer.ingest.xla.wire import Int

_DEVICES = r"""
SELECT CAST(regexp_extract(process, '/device:[GT]PU:(\d{1,6})$', 1) AS INTEGER), contains(process, '/device:TPU:')
FROM process_names
WHERE regexp_matches(process, '/device:[GT]PU:\d{1,6}$')
"""
_NAMES = """
SELECT DISTINCT coalesce(long_name, name) FROM xla_slices WHERE is_host AND coalesce(long_name, name) IS NOT NULL
"""
# What shows the recorder: names of events and lanes, and of programs, which JAX calls after its functions.
_SHOWING = """
SELECT DISTINCT unnest([name, lane]) FROM xla_slices
UNION
SELECT DISTINCT args ->> '$.hlo_module' FROM read_parquet($args) WHERE contains(args, '"hlo_module"')
"""
_UNSET = r"""
SELECT count(*), any_value(args ->> '$.kernel_details')
FROM read_parquet($gpu_events)
WHERE TRY_CAST(regexp_extract(args, '\bregs:(\d+)', 1) AS BIGINT) > 1024
"""
_TPU = "FROM xla_slices WHERE on_tpu AND lane = 'XLA Ops'"
_TPU_OPS = f"""
SELECT event_id, device, start_ns, dur_ns, device_offset_ps, device_duration_ps,
    dense_rank() OVER (ORDER BY name, hlo_category, long_name) - 1 AS place
{_TPU} ORDER BY device, event_id
"""
_TPU_NAMES = f"SELECT DISTINCT name, hlo_category, long_name {_TPU} ORDER BY name, hlo_category, long_name"
_PROGRAMS_AS_WORK = f"""
SELECT count(*), min(name) {_TPU} AND event_id IN (SELECT event_id FROM xla_slices WHERE lane = 'XLA Modules')
"""
_TPU_RUNS = """
SELECT event_id, device, start_ns, start_ns + dur_ns AS end_ns FROM xla_slices WHERE on_tpu AND lane = 'XLA Modules'
"""


class Described(Struct, frozen=True):
    """What the slices show beside themselves."""

    recorder: str | None  # None: nothing shows it
    framework: str | None
    vendor: str | None
    devices: tuple[int, ...]  # those that have a process, also without work


def describe_slices(
    database: duckdb.DuckDBPyConnection, args: list[str], gpu_events: list[str], losses: Losses
) -> Described:
    """Make the tables `xla_names`, of what names of the host mean, and `xla_ops`, of a TPU's operations."""
    names = [name for (name,) in database.execute(_NAMES).fetchall()]
    meaning = {"name": names, "category": [CATEGORIES[category_of_name(name)] for name in names]}
    _keep(database, "xla_names", pa.table(meaning, pa.schema([("name", pa.string()), ("category", pa.string())])))
    _keep(database, "xla_ops", _tpu_ops(database, losses))
    programs, example = database.execute(_PROGRAMS_AS_WORK).fetchall()[0]
    if programs:
        losses.add("programs-as-work", None, example, programs)
    unset, example = database.execute(_UNSET, {"gpu_events": gpu_events}).fetchall()[0]
    if unset:
        losses.add("unset-launch-values", None, example, unset)
    recorder = _recorder_of(database, args)
    devices = database.execute(_DEVICES).fetchall()
    return Described(
        recorder,
        FRAMEWORKS.get(recorder or ""),
        "google" if any(on_tpu for _, on_tpu in devices) else None,
        tuple(sorted({device for device, _ in devices})),
    )


def _recorder_of(database: duckdb.DuckDBPyConnection, args: list[str]) -> str | None:
    showing = [name for (name,) in database.execute(_SHOWING, {"args": args}).fetchall() if name]
    if not showing:  # no event at all: JAX writes this JSON beside each profile, TensorFlow none
        return "jax"
    return recorder_shown(showing, showing)


def _keep(database: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    database.register("described", rows)
    database.execute(f"CREATE OR REPLACE TABLE {name} AS FROM described")
    database.unregister("described")


def _tpu_ops(database: duckdb.DuckDBPyConnection, losses: Losses) -> pa.Table:
    """Return the operations of all TPUs, by the device's clock where they have its times."""
    ops = database.sql(_TPU_OPS).to_arrow_table()
    event_id, device, starts, lengths, place = (
        ops[name].to_numpy().astype(np.int64) for name in ("event_id", "device", "start_ns", "dur_ns", "place")
    )
    offset, measured = ops["device_offset_ps"], ops["device_duration_ps"]
    has_own = offset.is_valid().to_numpy() & measured.is_valid().to_numpy()
    offset_ps, measured_ps = offset.fill_null(0).to_numpy(), measured.fill_null(0).to_numpy()
    own_start = offset_ps // 1000
    own_length = np.maximum((offset_ps + measured_ps) // 1000 - own_start, 0)
    run = _runs_of(database, device, starts)
    far = np.maximum(np.abs(own_start - starts), np.abs(own_length - lengths))[has_own]
    if len(far):
        losses.add("device-clock-mapped", None, f"{int(far.max()) / 1e6:.1f} ms", len(far))
    starts, lengths = np.where(has_own, own_start, starts), np.where(has_own, own_length, lengths)
    inside = np.zeros(len(event_id), np.int64)
    for number in np.unique(device).tolist():
        rows = np.flatnonzero(device == number)
        inside[rows] = time_inside(event_id[rows], starts[rows], lengths[rows])
    columns: dict[str, Any] = {
        "event_id": pa.array(event_id),
        "start_ns": pa.array(starts),
        "dur_ns": pa.array(lengths),
        "self_ns": pa.array(np.maximum(lengths - inside, 0), mask=inside == 0),
        "run_id": id_column(run),
    }
    for name, values in _meanings(database).items():
        columns[name] = values.take(indices(place))
    return pa.table(columns)


def _runs_of(database: duckdb.DuckDBPyConnection, device: Int, starts: Int) -> Int:
    """Return the run of a program in which each operation began, or NONE."""
    found = np.full(len(starts), NONE, np.int64)
    runs = database.sql(_TPU_RUNS).to_arrow_table()
    ids, of_device, begins, ends = (column.to_numpy().astype(np.int64) for column in runs.columns)
    for number in np.unique(of_device).tolist():
        own, rows = of_device == number, np.flatnonzero(device == number)
        found[rows] = ProgramRuns([(ids[own], begins[own], ends[own])]).find(starts[rows])
    return found


def _meanings(database: duckdb.DuckDBPyConnection) -> dict[str, pa.Array[Any]]:
    """Return what the operations of each name and text are, in the order of their places."""
    rows = database.execute(_TPU_NAMES).fetchall()
    labels = [(name or "").removeprefix("%").partition(" = ")[0] for name, _, _ in rows]
    is_comm, collectives, moves = meanings_of(
        [(category, label, text or name or "") for (name, category, text), label in zip(rows, labels, strict=True)]
    )
    return {
        "name": pa.array(labels, pa.string()),
        "is_comm": pa.array(is_comm, pa.bool_()),
        "collective": pa.array(collectives, pa.string()),
        "copy_kind": pa.array([moved.copy_kind if moved else None for moved in moves], pa.string()),
        "size_bytes": pa.array([moved.size_bytes if moved else None for moved in moves], pa.int64()),
    }
