"""GPU work and synchronisations of each process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from traceanalyzer.ingest.nsys.host_slices import LINKS, Launches
from traceanalyzer.ingest.nsys.masks import above, count, either
from traceanalyzer.ingest.nsys.reading import StagedExport, sql
from traceanalyzer.ingest.nsys.tables import BY_RELATION, GPU_RELATIONS
from traceanalyzer.ingest.nsys.times import find_shared_launches, open_shared_launches, rewrite
from traceanalyzer.ingest.sink import TraceSink

_PAIR = pa.schema([("globalPid", pa.int64()), ("correlationId", pa.int64())])
_LINKS = [pa.field(name, pa.int64()) for name in LINKS]
# Kinds above it are moves of managed memory.
_LAST_COPY_KIND = 10
_DETAILS = ("launchType", "localMemoryPerThread", "greenContextId", "clusterX", "clusterY", "clusterZ")
KERNEL_DETAILS = pa.schema(
    [pa.field(name, pa.int64()) for name in ("event_id", "globalPid")]
    + [pa.field(name, pa.int32()) for name in _DETAILS]
)

# A context lives on one device. Work without a device is that of device 0 only where no work names one.
_PLACED = """
WITH contexts AS (
    SELECT context, min(device) AS context_device
    FROM read_parquet($path)
    GROUP BY context
    HAVING context IS NOT NULL AND min(device) = max(device)
)
SELECT work.* REPLACE (
    coalesce(device, context_device, CASE WHEN $any_device THEN NULL ELSE 0 END)::INTEGER AS device
)
FROM read_parquet($path, file_row_number = true) AS work
LEFT JOIN contexts ON contexts.context = work.context
WHERE coalesce(device, context_device) IS NOT NULL OR NOT $any_device
"""


def own_file(sink: TraceSink, table: str) -> Path:
    """Return the file of a table that DuckDB writes, not the sink."""
    return sink.folder / f"{table}-0.parquet"


class DeviceRows:
    """Makes the tables of GPU work available: streamed where one query reads them, kept where each process does."""

    def __init__(self, stage: StagedExport, scopes: list[int], fill_scope: int | None, launches: Launches) -> None:
        self._stage = stage
        self._scopes = scopes
        self._fill_scope = fill_scope
        self._launches = launches
        self._details: list[pa.RecordBatch] = []
        self._moves: list[pa.RecordBatch] = []

    def prepare(self) -> None:
        """Provide every relation that gpu_ops.sql and syncs.sql read."""
        self._find_graph_nodes()
        for relation in GPU_RELATIONS:
            hook = {"kernel": self._kernel_hook, "memcpy": self._copy_hook}.get(relation, self._linked)
            schema = pa.schema([*BY_RELATION[relation].schema, *_LINKS])
            if len(self._scopes) > 1 or relation == "graph_trace":
                self._stage.put(relation, schema, self._stage.rows(relation, hook))
            else:
                self._stage.stream(relation, hook, schema=schema)
        for relation in ("sync", "cuda_event"):
            self._stage.put(relation, BY_RELATION[relation].schema, self._stage.rows(relation, self._fill))
            self._stage.leave_out_repeated(relation)
        (seen_twice,) = self._one(
            "SELECT count(*) FROM graph_trace SEMI JOIN graph_node_launches USING (globalPid, correlationId)"
        )
        self._stage.defects.add("graph-replay-seen-twice", seen_twice)

    def write(self, sink: TraceSink) -> None:
        """Write the GPU work and the synchronisations of the process that the variables name."""
        path = own_file(sink, "gpu_ops")
        self._stage.write("gpu_ops", path)
        if find_shared_launches(self._stage.connection, path):
            sink.finish("host_slices")
            open_shared_launches(self._stage.connection, path, sink.path("host_slices"))
        self._find_devices(path)
        self.enter(sink)
        (nameless,) = self._one("SELECT count(*) FROM read_parquet($path) WHERE name IS NULL", {"path": str(path)})
        self._stage.defects.add("missing-string", nameless, "of a kernel")
        syncs = self._stage.connection.sql(sql("syncs")).to_arrow_table()
        if syncs.num_rows:
            sink.append("syncs", syncs)
            (orphans,) = self._one(
                "SELECT count(*) FROM sync ANTI JOIN sync_calls ON scope = globalPid AND correlation = correlationId "
                "WHERE belongs(globalPid)"
            )
            self._stage.defects.add("sync-without-call", orphans)

    def _find_devices(self, path: Path) -> None:
        """Find the device of work that names none by its context, and leave out what may be of any device."""
        counted = "SELECT count(*), count(device) FROM read_parquet($path)"
        total, placed = self._one(counted, {"path": str(path)})
        if total == placed:
            return
        rewrite(self._stage.connection, path, _PLACED, {"any_device": placed > 0})
        self._stage.defects.add("device-lost", total - self._one(counted, {"path": str(path)})[0])

    def enter(self, sink: TraceSink) -> None:
        """Note which devices and contexts the process of a written trace used."""
        self._stage.connection.execute(
            "CREATE OR REPLACE TABLE gpu_contexts AS SELECT DISTINCT device, context FROM read_parquet($path)",
            {"path": str(own_file(sink, "gpu_ops"))},
        )

    def keep_details(self) -> None:
        """Provide what kernels say beyond their columns, and moves of managed memory; call it once all were read."""
        self._stage.put("kernel_details", KERNEL_DETAILS, iter(self._details))
        self._stage.put("managed_moves", BY_RELATION["memcpy"].schema, iter(self._moves))

    def _one(self, query: str, parameters: dict[str, str] | None = None) -> tuple[int, ...]:
        row: tuple[int, ...] = self._stage.connection.execute(query, parameters).fetchall()[0]
        return row

    def _fill(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Set the process where the export does not say it."""
        if self._fill_scope is None:
            return rows
        place = rows.schema.get_field_index("globalPid")
        return rows.set_column(
            place, rows.schema.field(place), pa.array([self._fill_scope] * rows.num_rows, pa.int64())
        )

    def _linked(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Add what is known from the launching calls."""
        rows = self._fill(rows)
        if len(self._scopes) > 1:
            self._stage.defects.add("process-lost", rows.column("globalPid").null_count)
        links = self._launches.find(rows.column("globalPid"), rows.column("correlationId"))
        return pa.RecordBatch.from_arrays([*rows.columns, *links], schema=pa.schema([*rows.schema, *_LINKS]))

    def _kernel_hook(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._linked(rows)
        telling = above(rows.column("launchType"), 1)
        for column in ("localMemoryPerThread", "greenContextId", "clusterX"):
            telling = either(telling, above(rows.column(column), 0))
        if count(telling):
            detailed = rows.filter(telling).select(KERNEL_DETAILS.names)
            columns = [
                array.cast(field.type, safe=False)
                for array, field in zip(detailed.columns, KERNEL_DETAILS, strict=True)
            ]
            self._details.append(pa.RecordBatch.from_arrays(columns, schema=KERNEL_DETAILS))
        return rows

    def _copy_hook(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._linked(rows)
        moves = above(rows.column("copyKind"), _LAST_COPY_KIND)
        if count(moves):
            self._moves.append(rows.filter(moves).select(BY_RELATION["memcpy"].schema.names))
        return rows

    def _find_graph_nodes(self) -> None:
        """Note the launches whose graph nodes were recorded one by one, where whole replays were recorded too."""
        self._stage.put("graph_node_launches", _PAIR, self._graph_nodes())
        self._stage.connection.execute(
            "CREATE OR REPLACE TABLE graph_node_launches AS FROM graph_node_launches GROUP BY ALL"
        )

    def _graph_nodes(self) -> Iterator[pa.RecordBatch]:
        if not self._stage.has_rows("graph_trace"):
            return
        for relation in ("kernel", "memcpy", "memset"):
            for rows in self._stage.rows(relation, self._fill):
                yield rows.filter(above(rows.column("graphNodeId"), 0)).select(_PAIR.names)
