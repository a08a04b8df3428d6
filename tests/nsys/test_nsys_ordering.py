"""Host slices come out in one order, in whatever order and batches they come, and however few are held in memory."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.ingest import nesting
from traceanalyzer.ingest.nesting import in_order

Row = tuple[int, int, int, int]
COLUMNS = ("thread", "start_ns", "dur_ns", "slice_id")
# Few instants and threads, so that ties are the rule.
slices = st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 3), st.integers(0, 2)), max_size=40)


def batch(rows: list[Row]) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        name: pa.array(values, pa.int64()) for name, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)
    }
    columns["text"] = pa.array([f"slice {row[3]}" for row in rows])
    columns["kind"] = pa.array(["ab"[row[3] % 2] for row in rows]).dictionary_encode()
    return pa.RecordBatch.from_pydict(columns)


def ordered(rows: list[Row], batch_rows: int) -> list[Row]:
    """The rows as they come out; each still has its own text and kind."""
    parts = [batch(rows[first : first + batch_rows]) for first in range(0, len(rows), batch_rows)]
    with tempfile.TemporaryDirectory() as scratch:
        found = [row for part in in_order(parts, Path(scratch)) for row in part.to_pylist()]
        assert not list(Path(scratch).iterdir())
    assert all((row["text"], row["kind"]) == (f"slice {row['slice_id']}", "ab"[row["slice_id"] % 2]) for row in found)
    return [tuple(row[name] for name in COLUMNS) for row in found]


@examples(100)
@given(
    slices, st.integers(1, 7), st.sampled_from([1, 200, 2**20]), st.integers(1, 9), st.randoms(use_true_random=False)
)
def test_slices_come_by_thread_start_length_and_place_in_the_file(
    drawn: list[tuple[int, int, int]], batch_rows: int, sorted_bytes: int, block_rows: int, chance: random.Random
) -> None:
    rows = [(*row, place) for place, row in enumerate(drawn)]
    mixed = list(rows)
    chance.shuffle(mixed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "_SORTED_BYTES", sorted_bytes)
        patch.setattr(nesting, "_BLOCK_ROWS", block_rows)
        patch.setattr(nesting, "BATCH_ROWS", 2 * block_rows)
        found = ordered(mixed, batch_rows)
    assert found == sorted(rows, key=lambda row: (row[0], row[1], -row[2], row[3]))


def test_more_threads_than_small_numbers_are_sorted() -> None:
    rows = [(-thread, 1, 1, thread) for thread in range(2**16 + 1)]
    assert ordered(rows, 2**14) == rows[::-1]
