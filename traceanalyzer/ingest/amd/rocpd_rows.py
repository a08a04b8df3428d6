"""The rows of one process's tables in a rocpd database.

The tables of a rocpd database that are read, and their columns; each process has its own, by the suffix of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.amd.agents import RANK_KEYS, SIZE_KEYS
from traceanalyzer.ingest.amd.recording import AmdDefects, Lookup, integers, taken
from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.masks import Column
from traceanalyzer.ingest.nsys.reading import read_table
from traceanalyzer.ingest.nsys.source import SqliteSource
from traceanalyzer.ingest.nsys.tables import TableLayout, match_columns, table_of

METADATA = "rocpd_metadata"
# A process's suffix is its guid, with underscores (or, of older writers, bare hexadecimal digits).
_SUFFIX = re.compile(rf"{METADATA}(?P<suffix>_?[0-9a-fA-F]{{8}}(?:_?[0-9a-fA-F]{{4}}){{3}}_?[0-9a-fA-F]{{12}})")
_SIDES = "{0}_x {0}_y {0}_z"

# The order gives every row its id in the trace.
TABLES = (
    table_of("strings", "rocpd_string", "id! string:text!"),
    table_of("metadata", METADATA, "tag:text! value:text"),
    table_of("node", "rocpd_info_node", "id machine_id:text hostname:text system_name:text release:text"),
    table_of("process", "rocpd_info_process", "id pid ppid nid init fini command:text extdata:text"),
    table_of("thread", "rocpd_info_thread", "id! pid tid name:text"),
    table_of(
        "agent",
        "rocpd_info_agent",
        "id! pid type:text absolute_index logical_index type_index name:text product_name:text extdata:text",
    ),
    table_of("symbol", "rocpd_info_kernel_symbol", "id! kernel_name:text display_name:text arch_vgpr_count"),
    table_of("pmc", "rocpd_info_pmc", "id! name:text symbol:text"),
    table_of("track", "rocpd_track", "id! pid tid name_id"),
    table_of("event", "rocpd_event", "id! category_id stack_id extdata:text"),
    table_of("region", "rocpd_region", "start! end! tid name_id source|event_id"),
    table_of("sample", "rocpd_sample", "id timestamp! track_id source|event_id"),
    table_of(
        "dispatch",
        "rocpd_kernel_dispatch",
        f"start! end! agent_id kernel_id dispatch_id queue_id stream_id private_segment_size group_segment_size "
        f"{_SIDES.format('workgroup_size')} {_SIDES.format('grid_size')} graph_exec_id graph_node_id replay_pass "
        "region_name_id source|event_id",
    ),
    table_of(
        "copy",
        "rocpd_memory_copy",
        "start! end! name_id dst_agent_id src_agent_id size queue_id stream_id graph_exec_id graph_node_id "
        "source|event_id",
    ),
    table_of(
        "allocate",
        "rocpd_memory_allocate",
        "start! end! tid agent_id type:text level:text address size source|event_id",
    ),
    table_of("pmc_event", "rocpd_pmc_event", "source|event_id sample_id pmc_id value:real"),
)
# What a process's recording always has.
WANTED = ("strings", "dispatch", "copy", "region", "event", "agent", "symbol")


def suffixes_of(names: Iterable[str]) -> list[str]:
    """Return the suffix of each process that a database has tables of."""
    return sorted({match["suffix"] for name in names if (match := _SUFFIX.fullmatch(name))})


def lay_out(tables: Mapping[str, list[str]], suffix: str) -> dict[str, TableLayout]:
    """Match the tables of a process with ours, by their exact names."""
    found: dict[str, TableLayout] = {}
    for table in TABLES:
        stored = table.name + suffix
        if stored in tables:
            found[table.relation] = TableLayout(table, stored, match_columns(table, tables[stored]))
    return found


def is_rocpd(names: Iterable[str]) -> bool:
    """Return whether a database with tables of these names is one."""
    known = set(names)
    return any(
        f"rocpd_{kind}{suffix}" in known for suffix in suffixes_of(known) for kind in ("kernel_dispatch", "region")
    )


# Tables whose rows are events of the trace: only they need ids.
_OF_EVENTS = ("region", "sample", "dispatch", "copy", "allocate")


def first_ids(layouts: Mapping[str, TableLayout], row_counts: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Return the id of each table's first event, and how many events all have."""
    first, firsts = 0, {}
    for table in TABLES:
        firsts[table.relation] = first
        if table.relation in _OF_EVENTS and table.relation in layouts:
            first += row_counts[layouts[table.relation].stored_name]
    return firsts, first


class ProcessTables:
    """Reads the tables of one process, batch by batch, and its strings at once."""

    def __init__(self, source: SqliteSource, suffix: str, defects: AmdDefects) -> None:
        self.defects = defects
        self._source = source
        self._layouts = lay_out(source.tables, suffix)
        self._first_ids, self.event_count = first_ids(self._layouts, source.row_counts)
        if source.damage:
            defects.add("unreadable-rows", example=source.damage)
        self._strings_at = Lookup(np.empty(0, np.int64))
        self._strings: Column = pa.array([], pa.string())

    def check(self) -> None:
        """Count what the database lacks."""
        missing = [table.name for table in TABLES if table.relation in WANTED and table.relation not in self._layouts]
        self.defects.add("missing-table", len(missing), ", ".join(missing))
        for relation, layout in list(self._layouts.items()):
            if layout.unreadable:
                if self._source.row_counts[layout.stored_name]:
                    lacks = f"{layout.stored_name} has no {', '.join(layout.unreadable)}"
                    self.defects.add("unreadable-table", example=lacks)
                del self._layouts[relation]

    def batches(self, relation: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table; none where it is not there."""
        layout = self._layouts.get(relation)
        if layout is not None and not layout.unreadable:
            yield from read_table(self._source, layout, self._first_ids[relation], self.defects)

    def rows(self, relation: str) -> list[dict[str, Any]]:
        """Return the rows of a small table."""
        return [row for batch in self.batches(relation) for row in batch.to_pylist()]

    def rows_read_twice(self, relation: str) -> list[dict[str, Any]]:
        """Return the rows of a table whose defects are counted where it is read as events."""
        layout = self._layouts.get(relation)
        if layout is None:
            return []
        return [row for batch in read_table(self._source, layout, 0, AmdDefects()) for row in batch.to_pylist()]

    def has_rows(self, relation: str) -> bool:
        layout = self._layouts.get(relation)
        return layout is not None and self._source.row_counts[layout.stored_name] > 0

    def read_strings(self) -> None:
        ids, texts = [np.empty(0, np.int64)], [pa.array([], pa.string())]
        for batch in self.batches("strings"):
            ids.append(integers(batch.column("id")))
            texts.append(batch.column("string"))  # type: ignore[arg-type]
        self._strings_at, self._strings = Lookup(np.concatenate(ids)), pa.concat_arrays(texts)

    def strings(self, ids: Column | Int) -> Column:
        """Return texts by their ids; NULL where there is none."""
        return taken(self._strings, self._strings_at.find(ids))

    def coded_strings(self, ids: Column) -> Column:
        """Return texts by ids of which few differ; empty where there is none."""
        coded = ids.dictionary_encode()
        texts = pc.call_function("coalesce", [self.strings(coded.dictionary), pa.scalar("")])
        column: Column = pa.DictionaryArray.from_arrays(coded.indices, texts)
        return column

    def environment(self) -> dict[str, int]:
        """Return the numbers that launchers gave to the process; SQLite takes them out, and nothing else is read."""
        layout = self._layouts.get("process")
        if layout is None or "environment" not in self._source.tables[layout.stored_name]:
            return {}
        return self._source.json_numbers(layout.stored_name, "environment", (*RANK_KEYS, *SIZE_KEYS))


class CounterReads:
    """The samples at which counters were read, such as the load of a GPU, or what a kernel did until then."""

    def __init__(self, tables: ProcessTables) -> None:
        rows = tables.rows_read_twice("sample") if tables.has_rows("pmc_event") else []
        self._by_id, self._by_event = Lookup(ids_of(rows)), Lookup(ids_of(rows, "source"))
        self.times = ids_of(rows, "timestamp")
        self.tracks = ids_of(rows, "track_id")
        self._is_read = np.zeros(len(rows) + 1, np.bool_)
        for batch in tables.batches("pmc_event") if rows else ():
            for places in self.places(batch):
                self._is_read[places] = True
        self._is_read[NONE] = False

    def places(self, counted: pa.RecordBatch) -> tuple[Int, Int]:
        """Return the places of the samples that some counters name, and of those of their events; NONE for none."""
        return self._by_id.find(counted.column("sample_id")), self._by_event.find(counted.column("source"))

    def are(self, samples: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        return self._is_read[self._by_id.find(samples.column("id"))]


def ids_of(rows: Sequence[dict[str, Any]], key: str = "id") -> Int:
    """Return the ids of some rows; NONE for those without."""
    return np.array([NONE if row[key] is None else row[key] for row in rows], np.int64)
