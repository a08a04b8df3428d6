"""Times of devices in an export, as the records prove them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from traceanalyzer.ingest.device_check import CORRECTED, SLOT_NS, Slot, check_device_records, recording_of
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.reading import sql
from traceanalyzer.ingest.sink import define_calls

_WITHOUT_WAITS = """
UPDATE device_work SET is_read_back = FALSE;
CREATE OR REPLACE TEMP TABLE device_waits (device INTEGER, stream BIGINT, start_ns BIGINT, end_ns BIGINT)
"""

# What moves managed memory is of no stream.
_MAY_REPEAT = "dur_ns > 0 AND stream IS NOT NULL AND name NOT LIKE 'Memcpy UVM %'"
_ANY_REPEATED = (
    "SELECT count(*) > count(DISTINCT hash(device, context, stream, start_ns, dur_ns)) FROM read_parquet($ops) "
    f"WHERE {_MAY_REPEAT}"
)
# The columns by which two rows are of different launches. Rows of an RPD file have them from calls.
ALIKE = (
    ", correlation, graph_id, graph_node_id, size_bytes, copy_kind, grid_x, grid_y, grid_z, block_x, block_y, block_z"
)


def check_times_of_devices(
    database: duckdb.DuckDBPyConnection,
    operations: Path,
    slices: Path,
    defects: Defects,
    waits: str | None = "device_waits",
) -> None:
    """Rewrite the GPU work of one trace where its times contradict its streams or the host; `slices` are finished.

    `waits` names the query for the calls that wait for the device; None: no call waits, and several threads launch.
    """
    paths = {"ops": str(operations), "slices": str(slices)}
    _leave_out_far_work(database, operations, defects)
    database.execute(sql("device_work"), paths)
    if waits is None:
        database.execute(_WITHOUT_WAITS)
    else:
        database.execute(sql(waits), {"slices": paths["slices"]})
    found = check_device_records(database, launched_in_order=waits is not None)
    database.execute("DROP TABLE device_work; DROP TABLE device_waits")
    for defect, (count, example) in found.defects.items():
        defects.add(defect, count, example)
    if not found:
        return
    target = operations.with_name(f".new-{operations.name}")
    with found.corrections(database):
        database.execute(
            f"COPY (SELECT ops.* EXCLUDE (file_row_number) REPLACE ({CORRECTED}) "
            "FROM read_parquet($ops, file_row_number = true) AS ops LEFT JOIN device_fixes USING (op_id) "
            "LEFT JOIN device_shifts ON shifted = device ORDER BY ops.file_row_number) TO $target (FORMAT parquet)",
            {"ops": paths["ops"], "target": str(target)},
        )
    target.replace(operations)


def leave_out_repeated_work(
    database: duckdb.DuckDBPyConnection, operations: Path, defects: Defects, arguments: Path | None, alike: str
) -> int:
    """Rewrite the GPU work of one trace without what the file holds twice, and return how much that is.

    A stream runs no launch twice at one time. `alike` are the columns in which records of one event are equal, besides
    stream, times and name; `arguments` is the file of what has no column.
    """
    values = {"ops": str(operations)}
    if not database.execute(_ANY_REPEATED, values).fetchall()[0][0]:
        return 0
    said = "" if arguments is None else " LEFT JOIN read_parquet($args) ON event_id = op_id"
    database.execute(
        "CREATE OR REPLACE TEMP TABLE repeated AS "
        f"SELECT op_id, name FROM read_parquet($ops){said} WHERE {_MAY_REPEAT} QUALIFY row_number() OVER ("
        f"PARTITION BY device, context, stream, kind, start_ns, dur_ns, name{alike} ORDER BY launch_id IS NULL, op_id"
        ") > 1",
        values | ({} if arguments is None else {"args": str(arguments)}),
    )
    count, example = database.execute("SELECT count(*), min(name) FROM repeated").fetchall()[0]
    if count:
        defects.add("repeated-record", count, example or "")
        target = operations.with_name(f".new-{operations.name}")
        database.execute(
            "COPY (FROM read_parquet($ops) WHERE op_id NOT IN (SELECT op_id FROM repeated)) "
            "TO $target (FORMAT parquet)",
            values | {"target": str(target)},
        )
        target.replace(operations)
    database.execute("DROP TABLE repeated")
    return int(count)


def _leave_out_far_work(database: duckdb.DuckDBPyConnection, operations: Path, defects: Defects) -> None:
    """Rewrite the GPU work of one trace without what lies far outside of it."""
    values = {"ops": str(operations)}
    query = (
        "SELECT count(*), min(start_ns), max(start_ns) FROM read_parquet($ops) "
        "WHERE start_ns IS NOT NULL GROUP BY start_ns // $slot"
    )
    slots = [Slot(*row) for row in database.execute(query, values | {"slot": SLOT_NS}).fetchall()]
    span = recording_of(slots)
    if span is None or sum(slot.count for slot in slots if slot.first_ns < span[0] or slot.last_ns > span[1]) == 0:
        return
    bounds = {"first": span[0], "last": span[1]}
    far = "SELECT count(*), min(name) FROM read_parquet($ops) WHERE start_ns NOT BETWEEN $first AND $last"
    count, example = database.execute(far, values | bounds).fetchall()[0]
    defects.add("far-timestamp", count, example or "")
    target = operations.with_name(f".new-{operations.name}")
    database.execute(
        "COPY (FROM read_parquet($ops) WHERE start_ns BETWEEN $first AND $last) TO $target (FORMAT parquet)",
        values | bounds | {"target": str(target)},
    )
    target.replace(operations)


# Nodes of a graph share the call that replays it.
_SHARED_LAUNCHES = """
CREATE OR REPLACE TEMP TABLE shared_launches AS
SELECT launch_id AS slice_id
FROM read_parquet($path)
WHERE launch_id IS NOT NULL AND graph_id IS NULL AND graph_node_id IS NULL AND (kind = 'kernel' OR NOT $kernels)
GROUP BY launch_id
HAVING min(hash(stream, start_ns)) <> max(hash(stream, start_ns))
"""
_PLAIN_LAUNCHES = """
CREATE OR REPLACE TEMP TABLE plain_launches AS
SELECT slice_id AS launch_id
FROM read_parquet($slices)
WHERE slice_id IN (FROM shared_launches)
    AND calls_to(name, 'launch')
    AND NOT contains(name, 'MultiDevice')
"""
_OPENED = """
SELECT
    * EXCLUDE (is_known) REPLACE (
        CASE WHEN is_known THEN launch_id END AS launch_id,
        CASE WHEN is_known THEN cpu_op_id END AS cpu_op_id,
        CASE WHEN is_known THEN annotation_id END AS annotation_id,
        CASE WHEN is_known THEN python_id END AS python_id,
        CASE WHEN is_known THEN link_source END AS link_source
    )
FROM (
    SELECT *, launch_id IS NULL OR launch_id NOT IN (FROM plain_launches) AS is_known
    FROM read_parquet($path, file_row_number = true)
)
"""


def find_shared_launches(database: duckdb.DuckDBPyConnection, operations: Path, *, kernels_alone: bool = False) -> bool:
    """Note the calls that several operations (or kernels) name as their launch; return whether there are any."""
    database.execute(_SHARED_LAUNCHES, {"path": str(operations), "kernels": kernels_alone})
    return database.execute("SELECT count(*) FROM shared_launches").fetchall() != [(0,)]


def open_shared_launches(database: duckdb.DuckDBPyConnection, operations: Path, slices: Path) -> None:
    """Remove the links of work that shares a plain launch call with other work: it launches one kernel."""
    define_calls(database)
    database.execute(_PLAIN_LAUNCHES, {"slices": str(slices)})
    if database.execute("SELECT count(*) FROM plain_launches").fetchall() != [(0,)]:
        rewrite(database, operations, _OPENED, {})


def rewrite(database: duckdb.DuckDBPyConnection, path: Path, query: str, parameters: Mapping[str, object]) -> None:
    """Put the rows of a query in the place of a table's, in their order in it."""
    written = path.with_suffix(".written")
    database.execute(
        f"COPY (SELECT * EXCLUDE (file_row_number) FROM ({query}) ORDER BY file_row_number) "
        "TO $written (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2)",
        {"path": str(path), "written": str(written), **parameters},
    )
    written.replace(path)
