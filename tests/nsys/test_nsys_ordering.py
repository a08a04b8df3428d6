"""Host slices come out in one order, however the rows that tie were sorted and wherever batches end."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.ingest.nsys.host_slices import settle_ties

Row = tuple[int, int, int, int]
COLUMNS = ("thread", "start_ns", "dur_ns", "slice_id")
# Few instants and threads, so that ties are the rule.
slices = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40)


def batch(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {name: pa.array(values, pa.int64()) for name, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    )


@examples(100)
@given(slices, st.integers(1, 7), st.randoms(use_true_random=False))
def test_ties_are_settled_by_length_and_file_order(
    drawn: list[tuple[int, int, int]], batch_rows: int, chance: object
) -> None:
    rows = [(*row, place) for place, row in enumerate(drawn)]
    mixed = list(rows)
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    mixed.sort(key=lambda row: row[:2])
    parts = [batch(mixed[first : first + batch_rows]) for first in range(0, len(mixed), batch_rows)]
    settled = [tuple(row[name] for name in COLUMNS) for part in settle_ties(parts) for row in part.to_pylist()]
    assert settled == sorted(rows, key=lambda row: (row[0], row[1], -row[2], row[3]))
