"""The slices of the threads that issue GPU work, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from traceanalyzer.attribution.arrow_columns import NO_ROW, codes_of, column
from traceanalyzer.attribution.buckets import Flags, Ints

_QUERY = """
SELECT slice_id, thread_id, category, name, start_ns, start_ns + dur_ns AS end_ns, depth,
       parent_id, op_id, annotation_id, python_id, correlation
FROM canonical.host_slices
WHERE trace_id = $trace_id
  AND thread_id IN (SELECT UNNEST($threads))
ORDER BY thread_id, start_ns, dur_ns DESC, slice_id
"""


@dataclass(frozen=True)
class HostSlices:
    """Slices ordered by thread, start, longer first. Row numbers stand for slices; NO_ROW for none."""

    slice_id: Ints
    thread: Ints
    start: Ints
    end: Ints
    depth: Ints
    parent: Ints
    op: Ints
    annotation: Ints
    python: Ints
    correlation: Ints
    name_code: Ints
    names: tuple[str, ...]  # by name_code
    categories: tuple[str, ...]  # by name_code: a code stands for a category and a name

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(self.slice_id)

    def flags(self, by_name: list[bool]) -> Flags:
        """Return a flag for each slice from a flag for each name code."""
        return np.asarray(by_name, dtype=np.bool_)[self.name_code] if self.count else np.zeros(0, np.bool_)

    def rows_of(self, slice_ids: Ints) -> Ints:
        """Return the row of each slice id, NO_ROW where it is not among these slices."""
        return _rows_of(self.slice_id, slice_ids)


def _rows_of(all_ids: Ints, ids: Ints) -> Ints:
    if not len(all_ids):
        return np.full(len(ids), NO_ROW)
    order = np.argsort(all_ids)
    at = np.minimum(np.searchsorted(all_ids, ids, sorter=order), len(all_ids) - 1)
    rows = order[at]
    return np.where(all_ids[rows] == ids, rows, NO_ROW)


def _name_codes(table: pa.Table) -> tuple[Ints, tuple[str, ...], tuple[str, ...]]:
    name_codes, names = codes_of(table["name"])
    category_codes, categories = codes_of(table["category"])
    name_texts, category_texts = [name or "" for name in names], [category or "" for category in categories]
    pairs = name_codes * len(category_texts) + category_codes
    distinct, codes = np.unique(pairs, return_inverse=True)
    return (
        codes.astype(np.int64),
        tuple(name_texts[pair // len(category_texts)] for pair in distinct.tolist()),
        tuple(category_texts[pair % len(category_texts)] for pair in distinct.tolist()),
    )


def load_host_slices(con: duckdb.DuckDBPyConnection, trace_id: int, threads: list[int]) -> HostSlices:
    """Read the slices of some threads of a trace."""
    table = con.sql(_QUERY, params={"trace_id": trace_id, "threads": threads}).to_arrow_table()
    codes, names, categories = _name_codes(table)
    ids = column(table, "slice_id")
    return HostSlices(
        slice_id=ids,
        thread=column(table, "thread_id"),
        start=column(table, "start_ns"),
        end=column(table, "end_ns"),
        depth=column(table, "depth"),
        parent=_rows_of(ids, column(table, "parent_id")),
        op=_rows_of(ids, column(table, "op_id")),
        annotation=_rows_of(ids, column(table, "annotation_id")),
        python=_rows_of(ids, column(table, "python_id")),
        correlation=column(table, "correlation"),
        name_code=codes,
        names=names,
        categories=categories,
    )
