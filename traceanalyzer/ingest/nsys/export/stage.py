"""An export loaded for the SQL of the mapping: a DuckDB connection with one relation per table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.export.reading import Hook, Stream, read_table
from traceanalyzer.ingest.nsys.export.source import ExportSource
from traceanalyzer.ingest.nsys.export.tables import BY_RELATION, GPU_RELATIONS, TABLES

# These may hold most of the file: they pass through one query each and are never kept.
STREAMED = ("kernel", "memcpy", "memset", "runtime", "nvtx", "osrt", "gpu_metric", "nic_metric")
# Sorting and joining spill to disk beyond this.
_MEMORY_LIMIT = "400MB"
# Up to this many host slices are sorted within that limit; a range with text counts as three. More are sorted by one
# thread in less memory: each thread of a sort that spills needs memory of its own, and two sometimes find too little.
_SLICES_IN_MEMORY = 4_000_000
_SPILLING_LIMIT = "250MB"
# Not of the host, or in other tables than its slices.
_NO_SLICES = frozenset(("string_ids", *GPU_RELATIONS, "sync", "cuda_event", "gpu_metric", "nic_metric"))


@cache
def sql(name: str) -> str:
    """Return the text of one of the mapping's SQL files."""
    return (Path(__file__).parents[1] / "sql" / f"{name}.sql").read_text(encoding="utf-8")


class StagedExport:
    """Holds the connection, gives every row its id, and keeps count of what was read."""

    def __init__(self, source: ExportSource, scratch: Path, jobs: int, defects: Defects) -> None:
        self.source = source
        self.defects = defects
        self._jobs = max(jobs, 1)
        self._read: set[str] = set()
        self.connection = duckdb.connect(
            config={
                "threads": self._jobs,
                "memory_limit": _MEMORY_LIMIT,
                "temp_directory": str(scratch),
                "preserve_insertion_order": False,
                # A stream's length is unknown, and the guess would hold the stream in memory instead of the other side:
                # every join here is written with its small side last.
                "disabled_optimizers": "join_order,build_side_probe_side",
            }
        )
        self.first_ids, self.row_count = self._number_rows()

    @contextmanager
    def sorted_slices(self) -> Iterator[duckdb.DuckDBPyRelation]:
        """Give all host slices by thread and start, with room for their sort."""
        counts = {
            relation: self.source.row_counts[layout.stored_name]
            for relation, layout in self.source.layouts.items()
            if relation not in _NO_SLICES
        }
        slices = sql("host_slices").rstrip().removesuffix(";")
        if sum(counts.values()) + 2 * counts.get("nvtx", 0) <= _SLICES_IN_MEMORY:
            yield self.connection.sql(f"FROM ({slices}) ORDER BY thread, start_ns")
            return
        self.connection.execute(f"SET threads = 1; SET memory_limit = '{_SPILLING_LIMIT}'")
        # A sort of several sources (UNION ALL) does not spill those after the first: of a table, it does.
        self.connection.execute(f"CREATE TABLE unsorted_slices AS {slices}")
        yield self.connection.sql("FROM unsorted_slices ORDER BY thread, start_ns")
        self.connection.execute("DROP TABLE unsorted_slices")
        self.connection.execute(f"SET memory_limit = '{_MEMORY_LIMIT}'; SET threads = {self._jobs}")

    def _number_rows(self) -> tuple[dict[str, int], int]:
        first, firsts = 0, {}
        for table in TABLES:
            layout = self.source.layouts.get(table.relation)
            firsts[table.relation] = first
            first += self.source.row_counts[layout.stored_name] if layout else 0
        return firsts, first

    @property
    def event_count(self) -> int:
        """Return the number of rows that are events."""
        return sum(
            self.source.row_counts[layout.stored_name]
            for layout in self.source.layouts.values()
            if {"start", "timestamp"} & set(layout.stored)
        )

    def has_rows(self, relation: str) -> bool:
        """Return whether the export holds rows of a table that can be read."""
        layout = self.source.layouts.get(relation)
        return layout is not None and not layout.unreadable and self.source.row_counts[layout.stored_name] > 0

    def rows(self, relation: str, hook: Hook | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in the mapping's schema; none where the export lacks it."""
        if self.has_rows(relation):
            layout = self.source.layouts[relation]
            # Some tables are read twice, and a defect of theirs is one.
            defects = Defects() if relation in self._read else self.defects
            self._read.add(relation)
            yield from read_table(self.source, layout, self.first_ids[relation], defects, hook)

    def last_end(self, relation: str) -> int | None:
        """Return when the last row of a table ends; None: it has no rows with ends."""
        layout = self.source.layouts.get(relation)
        if not self.has_rows(relation) or layout is None or "end" not in layout.stored:
            return None
        ends = (pc.max(batch.column(0)).as_py() for batch in self.source.batches(layout, ["end"], Defects()))
        return max((end for end in ends if isinstance(end, int)), default=None)

    def stream(
        self,
        relation: str,
        hook: Hook | None = None,
        last: Iterable[pa.RecordBatch] = (),
        schema: pa.Schema | None = None,
    ) -> None:
        """Make a table available to one query, which reads it as it comes; `last` is drawn after its last row.

        `schema` is that of the rows if the hook gives them other columns.
        """
        batches = chain(self.rows(relation, hook), last)
        self.connection.register(relation, Stream(schema or BY_RELATION[relation].schema, batches))

    def load(self, relation: str) -> None:
        """Make a small table available to any number of queries."""
        self.put(relation, BY_RELATION[relation].schema, self.rows(relation))

    def put(self, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Create a table from batches."""
        self.connection.register("incoming", Stream(schema, batches))
        # The name is one of ours.
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS FROM incoming")
        self.connection.unregister("incoming")

    def run(self, name: str) -> None:
        """Execute one of the mapping's SQL files."""
        self.connection.execute(sql(name))

    def write(self, name: str, path: Path) -> None:
        """Write what one of the mapping's SELECTs returns as a Parquet file."""
        # Version 2 packs numbers as differences: a third less work than version 1 and a fraction of the size.
        rows = sql(name).rstrip().removesuffix(";")
        self.connection.execute(
            f"COPY ({rows}) TO $path (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2)", {"path": str(path)}
        )

    def set(self, **variables: object) -> None:
        """Set variables that the SQL files read with getvariable."""
        for name, value in variables.items():
            self.connection.execute(f"SET VARIABLE {name} = $value", {"value": value})

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
