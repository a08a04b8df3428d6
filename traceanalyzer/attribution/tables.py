"""The tables of attribution, from the canonical tables of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from traceanalyzer.attribution import DEFAULT_OPTIONS, AttributionOptions
from traceanalyzer.attribution.attributed_device import AttributedDevice, attribute_trace, blame_columns
from traceanalyzer.attribution.columns import (
    BUCKETS,
    CAUSES,
    CODE,
    COMPUTE,
    HOST,
    NO_ROW,
    STRAGGLER_WAIT,
    DeviceKey,
    Ints,
    coded,
    named,
    optional,
    table_of_columns,
)
from traceanalyzer.attribution.ledger.ledger import CONFIDENCES
from traceanalyzer.attribution.matching_collectives import CommWaits, Member, match_collectives, waits_of
from traceanalyzer.attribution.replay.bounds import TRACES, Bounds, ScansOf
from traceanalyzer.attribution.replay.device_bounds import StoredScans, scans_in
from traceanalyzer.attribution.replay.events import NO_LIMIT
from traceanalyzer.attribution.run_tables import Owned, bound_tables, table_of
from traceanalyzer.attribution.steps.steps import check_pattern
from traceanalyzer.attribution.steps.windows import busiest_stream, copy_time, full_device
from traceanalyzer.schema import TableSchema, load_tables, parquet_options

# The tables of attribution with many rows a rank.
PER_RANK = ("steps", "ledger_rows", "replay_events", "replay_costs", "replay_needs")
# The canonical tables that attribution reads of each trace.
READS = frozenset({"async_slices", "devices", "event_args", "gpu_ops", "host_slices", "syncs", "threads", "traces"})
_TRACES = "SELECT DISTINCT trace_id FROM canonical.gpu_ops ORDER BY trace_id"
_Columns = dict[str, Any]
# In the order of the columns; `astuple` would copy every value.
_OF_MEMBER = attrgetter(
    "op_id",
    "match_id",
    "group",
    "present_count",
    "expected_count",
    "synchronises",
    "transfer_ns",
    "wait_ns",
    "last_trace_id",
    "last_rank",
)


class Matched(Struct, frozen=True):
    """The collectives of a run: the table of their members, and how long each device waited in them."""

    members: pa.Table
    waits: Mapping[DeviceKey, CommWaits]
    trace_ids: tuple[int, ...]  # of the traces with GPU work


class RankTables(Struct, frozen=True):
    """What attribution says of one trace alone: rows of its tables, and the time that each cause owns on a device."""

    tables: Mapping[str, pa.Table]
    owned: Mapping[DeviceKey, Mapping[str, Owned]]


def compute(
    con: duckdb.DuckDBPyConnection,
    options: AttributionOptions = DEFAULT_OPTIONS,
    matched: Matched | None = None,
    attributed: Callable[[Matched], Iterable[RankTables]] | None = None,
    folder: Path | None = None,
    scans_of: ScansOf | None = None,
) -> dict[str, pa.Table]:
    """Return every attribution table of the run that a connection holds as canonical.*.

    `matched` are its collectives, where they are known (`match`); `attributed` returns the attribution of each trace in
    their order (`attribute`), by default one after the other over this connection. With a `folder`, tables with many
    rows a rank (PER_RANK) are written there rank by rank instead, and none of them is ever held whole: `scans_of` then
    returns the scans of devices (`Bounds.load`), by default from there.
    """
    check_pattern(con, options.step_pattern)
    matched = match(con) if matched is None else matched
    ranks = (
        (attribute(con, trace_id, options, matched.waits) for trace_id in matched.trace_ids)
        if attributed is None
        else attributed(matched)
    )
    schemas = {name: table.arrow_schema() for name, table in _schemas().items()}
    parts: dict[str, list[pa.Table]] = {
        name: [pa.Table.from_batches([], schema)]
        for name, schema in schemas.items()
        if folder is None or name not in PER_RANK
    }
    owned: dict[DeviceKey, Mapping[str, Owned]] = {}
    with ExitStack() as open_files:
        files: dict[str, pq.ParquetWriter] = {}
        if folder is not None:
            for name in PER_RANK:
                writer = pq.ParquetWriter(folder / f"{name}.parquet", schemas[name], **parquet_options(schemas[name]))
                files[name] = open_files.enter_context(writer)
        for rank in ranks:
            owned |= rank.owned
            for name, part in rank.tables.items():
                if name in files:
                    files[name].write_table(part.cast(schemas[name]))
                else:
                    parts[name].append(part)
    by_table = {name: pa.concat_tables(made) for name, made in parts.items()}
    by_table["collective_members"] = matched.members
    if folder is None:
        return by_table | bound_tables(con, Bounds.of_tables(**_of_bounds(con, by_table)), by_table, owned, schemas)
    with _reading(con, folder, by_table):
        bounds = Bounds.load(con, scans_of or partial(scans_in, StoredScans(lambda _: folder)), held_devices=0)
        return by_table | bound_tables(con, bounds, by_table, owned, schemas)


def _of_bounds(con: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    named = {name: tables[name] for name in ("windows", "replay_events", "replay_costs", "replay_needs")}
    return {**named, "members": tables["collective_members"], "traces": con.sql(TRACES).to_arrow_table()}


@contextmanager
def _reading(con: duckdb.DuckDBPyConnection, folder: Path, tables: Mapping[str, pa.Table]) -> Iterator[None]:
    """Give a connection the tables of attribution that there are: files of ranks, and tables in memory."""
    con.execute("CREATE SCHEMA attribution")
    for name in PER_RANK:
        con.read_parquet(str(folder / f"{name}.parquet")).create_view(f"attribution_{name}")
        con.execute(f"CREATE VIEW attribution.{name} AS FROM attribution_{name}")
    for name in ("windows", "collective_members"):
        con.register(f"attribution_{name}", tables[name])
        con.execute(f"CREATE VIEW attribution.{name} AS FROM attribution_{name}")
    yield
    con.execute("DROP SCHEMA attribution CASCADE")


def match(con: duckdb.DuckDBPyConnection) -> Matched:
    """Return the collectives of the run that a connection holds: the one thing that a rank needs of the others."""
    members = match_collectives(con)
    trace_ids = tuple(trace_id for (trace_id,) in con.execute(_TRACES).fetchall())
    return Matched(_collective_members(_schemas()["collective_members"], members), waits_of(members), trace_ids)


def attribute(
    con: duckdb.DuckDBPyConnection, trace_id: int, options: AttributionOptions, waits: Mapping[DeviceKey, CommWaits]
) -> RankTables:
    """Return the attribution of one trace; the connection may hold others, or this one only (the tables in READS)."""
    devices = list(attribute_trace(con, trace_id, options, waits))
    made = [_device_tables(_schemas(), device) for device in devices]
    return RankTables(
        {name: pa.concat_tables([tables[name] for tables in made]) for name in (made[0] if made else ())},
        {(trace_id, device.ops.device): _owned(device) for device in devices},
    )


def _schemas() -> dict[str, TableSchema]:
    return load_tables(Path(__file__).parent / "schema")


def _device_tables(tables: dict[str, TableSchema], device: AttributedDevice) -> dict[str, pa.Table]:
    costs, more = device.events.costs, device.events.more
    position, code = np.nonzero(costs)
    columns = {
        "windows": _windows(device),
        "steps": _steps(device),
        "ledger_rows": _ledger_rows(device),
        "replay_events": _replay_events(device),
        "replay_costs": {"position": position, "cause": named(code, HOST), "cost_ns": costs[position, code]},
        "replay_needs": {
            "position": more.position,
            "before_position": more.before,
            "slack_ns": more.slack,
            "sure": more.sure,
        },
    }
    return {name: _table(tables[name], device, part) for name, part in columns.items()}


def _collective_members(table: TableSchema, members: list[Member]) -> pa.Table:
    """Return the members; the table holds a list of a thousand ranks once, and not once for each member."""
    groups = {member.group: None for member in members}
    codes = {group: code for code, group in enumerate(groups)}
    schema = table.arrow_schema()
    rows = [(*member.device_key, *_OF_MEMBER(member)) for member in members]
    at = schema.get_field_index("group_key")
    made = table_of([row[:at] + row[at + 1 :] for row in rows], schema.remove(at))
    return made.add_column(at, "group_key", coded(np.asarray([codes[row[at]] for row in rows], np.int64), list(groups)))


def _table(table: TableSchema, device: AttributedDevice, columns: _Columns) -> pa.Table:
    schema = table.arrow_schema()
    count = len(next(iter(columns.values())))
    columns = {"trace_id": np.full(count, device.trace_id), "device": np.full(count, device.ops.device), **columns}
    return table_of_columns(columns, schema)


def _windows(device: AttributedDevice) -> _Columns:
    window = device.window
    computes = device.ledger.bucket[device.pieces.row] == CODE[COMPUTE]
    times = np.asarray([s.end - s.start for s in device.kept if s.start is not None and s.end is not None], np.float64)
    return {
        "start_ns": [window.start],
        "end_ns": [window.end],
        "window_ns": [window.length],
        "compute_ns": [int(device.pieces.dur[device.pieces.kept & computes].sum())],
        "busiest_stream_ns": [busiest_stream(device.ops, window)],
        "full_device_ns": [full_device(device.ops, window)],
        "h2d_ns": [copy_time(device.ops, window, "dev.h2d")],
        "d2h_ns": [copy_time(device.ops, window, "dev.d2h")],
        "step_count": [window.step_count],
        "step_source": [window.source],
        "step_mean_ns": [window.length // window.step_count if window.step_count else None],
        "step_spread": [float(times.std(ddof=1) / times.mean()) if len(times) > 1 else None],
        "launch_link_share": [window.link_share],
        "mode": [device.mode],
        "bound_abstains": [window.abstains],
        "run_abstains": [None],  # known only once all ranks are done
        "first_op_id": [None if window.first_row is None else int(device.ops.op_id[window.first_row])],
        "opening_op_id": [None if window.opening_row is None else int(device.ops.op_id[window.opening_row])],
        "closing_op_id": [None if window.closing_row is None else int(device.ops.op_id[window.closing_row])],
        "runs_in": [window.host_start is not None],
        "measure_at_op_id": [None if window.measure_at_row is None else int(device.ops.op_id[window.measure_at_row])],
        "measure_scale": [window.measure_scale],
        "launch_latency_ns": [window.latency],
    }


def _steps(device: AttributedDevice) -> _Columns:
    steps = device.steps
    return {
        "step": [s.host.number for s in steps],
        "name": [s.host.name for s in steps],
        "host_start_ns": [s.host.start for s in steps],
        "host_end_ns": [s.host.end for s in steps],
        "start_ns": [s.start for s in steps],
        "end_ns": [s.end for s in steps],
        "op_count": [s.op_count for s in steps],
        "kept": [s.drop_reason is None for s in steps],
        "drop_reason": [s.drop_reason for s in steps],
    }


def _ledger_rows(device: AttributedDevice) -> _Columns:
    rows, pieces = device.ledger, device.pieces
    of = pieces.row
    bucket = rows.bucket[of].astype(np.int64)
    removable = np.asarray([name in CAUSES for name in BUCKETS])
    return {
        "row_id": np.arange(len(of)),
        "step": optional(pieces.step),
        "kept": pieces.kept,
        "start_ns": pieces.start,
        "dur_ns": pieces.dur,
        "bucket": named(bucket, BUCKETS),
        "cause": named(np.where(removable[bucket], bucket, NO_ROW), BUCKETS),
        "blame_rank": optional(_blame_rank(device, of)),
        **blame_columns(device, of),
        "confidence": named(rows.confidence[of].astype(np.int64), CONFIDENCES),
        "late_issue": rows.late_issue[of],
    }


def _blame_rank(device: AttributedDevice, rows: Ints) -> Ints:
    ledger = device.ledger
    waits = (ledger.bucket[rows] == CODE[STRAGGLER_WAIT]) & (ledger.blame[rows] != NO_ROW)
    found: Ints = np.where(waits, device.ops.last_rank[np.where(waits, ledger.blame[rows], 0)], NO_ROW)
    return found


def _replay_events(device: AttributedDevice) -> _Columns:
    events, ops = device.events, device.ops
    is_op = events.op != NO_ROW
    producer = np.where(is_op, ops.producer[events.op].astype(np.int64), NO_ROW)
    return {
        "position": np.arange(len(events.op)),
        "op_id": optional(np.where(is_op, ops.op_id[events.op], NO_ROW)),
        "cause": named(events.cause, HOST),
        "in_window": events.in_window,
        "end_ns": events.end,
        "dur_ns": events.dur,
        "host_slack_ns": optional(events.host_slack, NO_LIMIT),
        "shift_limit_ns": optional(events.shift_limit, NO_LIMIT),
        "pred1_position": optional(events.pred1),
        "pred1_slack_ns": optional(events.pred1_slack, NO_LIMIT),
        "pred2_position": optional(events.pred2),
        "pred2_slack_ns": optional(events.pred2_slack, NO_LIMIT),
        "explained_wait_ns": events.explained_wait,
        "removable_ns": events.removable,
        "saving_cause": named(producer, BUCKETS),
        "match_id": optional(np.where(is_op, ops.match_id[events.op], NO_ROW)),
        "wait_ns": np.where(is_op, ops.comm_wait[events.op], 0),
        "dispatch_ns": events.dispatch,
        "dispatch_cause": named(events.dispatch_cause, BUCKETS),
    }


def _owned(device: AttributedDevice) -> dict[str, Owned]:
    """Return the time of a device's window that each cause owns."""
    pieces = device.pieces
    bucket = device.ledger.bucket[pieces.row]
    by_cause = {}
    for code in np.unique(bucket[pieces.kept]).tolist():
        if BUCKETS[code] not in CAUSES:
            continue
        of_cause = np.flatnonzero(pieces.kept & (bucket == code))
        worst = int(of_cause[np.argmax(pieces.dur[of_cause])])
        step = int(pieces.step[worst])
        by_cause[BUCKETS[code]] = Owned(
            int(pieces.dur[of_cause].sum()),
            len(np.setdiff1d(pieces.step[of_cause], [NO_ROW])),
            int(pieces.dur[worst]),
            None if step == NO_ROW else step,
            int(pieces.start[worst]),
        )
    return by_cause
