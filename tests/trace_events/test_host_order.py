"""Host slices are sorted with vectors as DuckDB sorts them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from trace_event_tables import events, read, slice_text

from traceanalyzer.ingest.trace_events import host_order

CATEGORIES = ('"cpu_op"', '"cuda_runtime"', '"user_annotation"', '"python_function"', '"mine"')


def _tied(chosen: random.Random) -> str:
    """Return a slice at one of a few instants, so that many have the same start, length or both."""
    name = chosen.choice(("a", "b", "nn.Module: A_0", "cudaLaunchKernel"))
    more = {
        "cat": chosen.choice(CATEGORIES),
        "pid": chosen.choice((1, 2, "null")),
        "tid": chosen.choice((1, 2, "null")),
    }
    args = {"args": chosen.choice(('{"correlation": 3}', '{"External id": 2, "Input Dims": [[1]]}', "{}"))}
    text = slice_text(name, chosen.choice((0, 10, 20, 30)), chosen.choice((0, 5, 10, 20)), **more, **args)
    return text.replace('"name": "b", ', "")


@pytest.mark.parametrize("chunk_bytes", [pytest.param(500, marks=pytest.mark.check), 2**20])
def test_ties_are_sorted_as_duckdb_sorts_them(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    chosen = random.Random(3)
    open_frames = [
        slice_text(
            f"f{at}", at, 100 - at, cat='"python_function"', args=f'{{"Python id": {at}, "Python parent id": 0}}'
        )
        for at in (1, 2)
    ]
    document = events(*(_tied(chosen) for _ in range(60)), *open_frames)
    by_vectors = read(document, chunk_bytes=chunk_bytes)
    monkeypatch.setattr(host_order, "MOST_SLICES", -1)
    assert by_vectors.rows == read(document, chunk_bytes=chunk_bytes).rows


@pytest.mark.check
def test_too_many_slices_or_threads_are_left_to_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    document = events(slice_text("a"), slice_text("b", tid=2))
    expected = read(document)
    for limit in ("MOST_SLICES", "_MOST_PAIRS"):
        with monkeypatch.context() as patch:
            patch.setattr(host_order, limit, 0)
            patch.setattr(host_order, "_batches", None)
            assert read(document).rows == expected.rows


@pytest.mark.parametrize("far", [10**6, 2**61])
def test_keys_that_do_not_fit_are_sorted_column_by_column(far: int) -> None:
    thread_id, start_ns, dur_ns, ids = ([1, 0, 1, 1, 0], [5, far, 5, 0, 3], [1, 2, 2, 1, 0], [4, 3, 2, 1, 0])
    arrays = [np.array(values, np.int64) for values in (thread_id, start_ns, dur_ns, ids)]
    is_call = np.zeros(5, bool)
    order = host_order._nesting_order(arrays[0].astype("int32"), arrays[1], arrays[2], is_call, arrays[3])
    assert order.tolist() == [4, 1, 3, 2, 0]


def test_a_trace_without_host_slices_has_none() -> None:
    assert read(events('{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}'))["host_slices"] == []
