"""The rows of one process's tables in a rocpd database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from traceanalyzer.ingest.amd.agents import RANK_KEYS, SIZE_KEYS
from traceanalyzer.ingest.amd.defects import AmdDefects
from traceanalyzer.ingest.amd.recording import Lookup, integers, taken
from traceanalyzer.ingest.amd.rocpd_tables import TABLES, WANTED, first_ids, lay_out
from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.export.reading import read_table
from traceanalyzer.ingest.nsys.export.source import SqliteSource
from traceanalyzer.ingest.nsys.export.tables import TableLayout
from traceanalyzer.ingest.nsys.masks import Column

# Events that say something beyond their columns.
_SAYING = "WHERE extdata <> '{}'"


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

    def has_rows(self, relation: str) -> bool:
        """Return whether there are rows of a table."""
        layout = self._layouts.get(relation)
        return layout is not None and self._source.row_counts[layout.stored_name] > 0

    def saying_events(self) -> Iterator[pa.RecordBatch]:
        """Yield the events that say something beyond their columns."""
        layout = self._layouts.get("event_text")
        if layout is not None and "extdata" in layout.stored:
            yield from read_table(_Saying(self._source), layout, 0, self.defects)

    def read_strings(self) -> None:
        """Read the texts to which rows point."""
        ids, texts = [np.empty(0, np.int64)], [pa.array([], pa.string())]
        for batch in self.batches("strings"):
            ids.append(integers(batch.column("id")))
            texts.append(batch.column("string"))  # type: ignore[arg-type]
        self._strings_at, self._strings = Lookup(np.concatenate(ids)), pa.concat_arrays(texts)

    def strings(self, ids: Column | Int) -> Column:
        """Return texts by their ids; NULL where there is none."""
        return taken(self._strings, self._strings_at.find(ids))

    def environment(self) -> dict[str, int]:
        """Return the numbers that launchers gave to the process; SQLite takes them out, and nothing else is read."""
        layout = self._layouts.get("process")
        if layout is None or "environment" not in self._source.tables[layout.stored_name]:
            return {}
        return self._source.json_numbers(layout.stored_name, "environment", (*RANK_KEYS, *SIZE_KEYS))


class _Saying:
    """The rows of events that say something."""

    def __init__(self, source: SqliteSource) -> None:
        self._source = source

    def batches(self, layout: TableLayout, columns: Sequence[str], defects: Defects) -> Iterator[pa.RecordBatch]:
        """Yield the named columns; see RowSource."""
        return self._source.batches(layout, columns, defects, _SAYING)


def ids_of(rows: Sequence[dict[str, Any]], key: str = "id") -> Int:
    """Return the ids of some rows; NONE for those without."""
    return np.array([NONE if row[key] is None else row[key] for row in rows], np.int64)
