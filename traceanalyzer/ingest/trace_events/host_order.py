"""Host slices in nesting order, sorted with vectors where they fit into memory: the order of `host_sorted.sql`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from traceanalyzer.ingest.native import frames_lie_in_callers
from traceanalyzer.ingest.nesting import ANCESTOR_CATEGORIES, FILE_BITS, NONE, Nester, Slices, name_hashes
from traceanalyzer.ingest.trace_events.losses import Losses

Int = npt.NDArray[np.int64]

BATCH_ROWS = 2**16
# A slice takes about a hundred bytes. Where there are more, DuckDB sorts them, on disk if it must.
MOST_SLICES = 2_000_000
# Processes times threads, as a table says which thread each pair is.
_MOST_PAIRS = 2**20
_MODULE = "nn.Module: "
_PYTHON, _MODULE_CODE = ANCESTOR_CATEGORIES.index("python"), ANCESTOR_CATEGORIES.index("module")
_CALLS = ("runtime", "driver")
# Other runtimes do run operators.
_RUNTIME_CALL = re.compile("(?:cuda|cu|hip|musa|mu|cn|cnrt)[A-Z]")
# Times are rounded. So few calls may be damaged before it is the thread of all of them that is not theirs.
_ROUNDING_NS = 50_000
_FEW, _FEW_SHARE = 3, 0.05
# An operator that ends with a communication may outlast all that its thread starts, in a short recording.
_TIMES_ITS_THREAD = 10
# Each takes a look at all slices of its thread before it.
_MOST_OUTLASTING = 1_000
_PLAIN_COLUMNS = (
    "category",
    "raw_category",
    "name",
    "correlation",
    "external_id",
    "sequence",
    "forward_thread",
    "input_shapes",
)

# thread_id, pid, tid
Thread = tuple[int, str | None, str | None]


def sorted_slices(
    files: Sequence[str],
    threads: Sequence[Thread],
    ended: Callable[[], pa.Table],
    base_ns: int,
    batch_rows: int,
    losses: Losses,
    *,
    drop_zero: bool,
) -> Iterator[pa.Table] | None:
    """Return the host slices of parts of a trace, batch by batch; None where they are too many.

    `ended` finds the durations of Python frames that were left open, and is called where some may be. A column
    `name_hash` has the hashes of the names.
    """
    parts = [_opened(path) for path in files]
    pids, tids = ({thread[at]: None for thread in threads} for at in (1, 2))
    if sum(part.metadata.num_rows for part in parts) > MOST_SLICES or len(pids) * len(tids) > _MOST_PAIRS:
        return None
    return _batches(parts, threads, ended, base_ns, batch_rows, losses, drop_zero=drop_zero)


def _opened(path: str) -> pq.ParquetFile:
    by_arrow = pq.ParquetFile(path, read_dictionary=["pid", "tid", *_PLAIN_COLUMNS])
    return by_arrow if by_arrow.metadata.created_by.startswith("parquet-cpp") else pq.ParquetFile(path)


def _batches(
    parts: Sequence[pq.ParquetFile],
    threads: Sequence[Thread],
    ended: Callable[[], pa.Table],
    base_ns: int,
    batch_rows: int,
    losses: Losses,
    *,
    drop_zero: bool,
) -> Iterator[pa.Table]:
    ids, start_ns, dur_ns = (_column(parts, name).to_numpy() for name in ("event_id", "start_ns", "dur_ns"))
    thread_id = _thread_ids(_column(parts, "pid"), _column(parts, "tid"), threads)
    columns = {name: _column(parts, name) for name in _PLAIN_COLUMNS}
    calls = _by_text(columns["category"], lambda category: category in _CALLS)
    order = _nesting_order(thread_id, start_ns, dur_ns, calls[_codes(columns["category"])] == 1, ids)
    if _may_be_open(parts, order, thread_id, start_ns, dur_ns, columns["category"]) and len(frames := ended()):
        dur_ns = _with_ends(ids, dur_ns, frames)
        order = _nesting_order(thread_id, start_ns, dur_ns, calls[_codes(columns["category"])] == 1, ids)
    operators = _by_text(columns["category"], lambda category: category == "cpu_op")
    is_operator = operators[_codes(columns["category"])] == 1
    outlasting = _outlasting(order, thread_id, start_ns, dur_ns, is_operator)
    if len(outlasting[0]):
        dur_ns = _as_others("overlong-operator", outlasting, dur_ns, is_operator, columns["name"], losses)
        order = _nesting_order(thread_id, start_ns, dur_ns, calls[_codes(columns["category"])] == 1, ids)
    if drop_zero:
        order = order[start_ns[order] != 0]
    plain = _by_text(columns["name"], lambda name: name is not None and _RUNTIME_CALL.match(name) is not None)
    is_call = (calls[_codes(columns["category"])] == 1) & (plain[_codes(columns["name"])] == 1)
    overlong = _overlong_calls(order, ids >> FILE_BITS, thread_id, start_ns, dur_ns, is_call, is_operator)
    dur_ns = _as_others("overlong-call", overlong, dur_ns, is_call, columns["name"], losses)
    modules = _by_text(columns["name"], lambda name: name is not None and name.startswith(_MODULE))
    ancestors = _by_text(columns["category"], _ancestor_code)
    names = columns["name"].dictionary
    hashes = np.append(name_hashes(names), name_hashes(pa.array([None], pa.string())))
    for first in range(0, len(order), batch_rows):
        rows = order[first : first + batch_rows]
        numbers = {"slice_id": ids, "thread_id": thread_id, "dur_ns": dur_ns}
        taken: dict[str, Any] = {name: pa.array(values[rows]) for name, values in numbers.items()}
        taken["start_ns"] = pa.array(start_ns[rows] + base_ns)
        taken |= {name: column.take(pa.array(rows)) for name, column in columns.items()}
        ancestor, name_codes = ancestors[_codes(taken["category"])], _codes(taken["name"])
        ancestor[(ancestor == _PYTHON) & (modules[name_codes] == 1)] = _MODULE_CODE
        yield pa.table(taken | {"ancestor": pa.array(ancestor), "name_hash": pa.array(hashes[name_codes])})


def _column(parts: Sequence[pq.ParquetFile], name: str) -> Any:
    """Return one column of all parts; texts with one list of those that there are."""
    columns = [part.read([name], use_threads=False).column(0) for part in parts]
    if any(column.type == pa.string() for column in columns):  # PyArrow cannot code all texts that DuckDB wrote
        columns = [column.dictionary_encode() if column.type == pa.string() else column for column in columns]
    whole = pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
    if pa.types.is_dictionary(whole.type):
        whole = whole.unify_dictionaries()
    return whole.combine_chunks() if whole.num_chunks else pa.array([], whole.type)


def _codes(column: Any) -> Int:
    """Return the place of each text in the column's list; no text is behind its end."""
    codes: Int = pc.fill_null(column.indices, len(column.dictionary)).to_numpy(zero_copy_only=False)
    return codes


def _by_text(column: Any, number_of: Callable[[str | None], int]) -> Int:
    """Return a number for each text of the column's list, and one for no text."""
    return np.array([number_of(text) for text in [*column.dictionary.to_pylist(), None]], np.int64)


def _ancestor_code(category: str | None) -> int:
    return ANCESTOR_CATEGORIES.index(category) if category in ANCESTOR_CATEGORIES[:-1] else NONE


def _thread_ids(pids: Any, tids: Any, threads: Sequence[Thread]) -> npt.NDArray[np.int32]:
    """Return the number of each slice's thread."""
    rows, columns = ({text: at for at, text in enumerate([*c.dictionary.to_pylist(), None])} for c in (pids, tids))
    table = np.full((len(rows), len(columns)), NONE, np.int32)
    for thread_id, pid, tid in threads:
        if pid in rows and tid in columns:
            table[rows[pid], columns[tid]] = thread_id
    found: npt.NDArray[np.int32] = table[_codes(pids), _codes(tids)]
    return found


def _may_be_open(
    parts: Sequence[pq.ParquetFile],
    order: Int,
    thread_id: npt.NDArray[np.int32],
    start_ns: Int,
    dur_ns: Int,
    categories: Any,
) -> bool:
    """Return whether there are Python frames that do not lie in what called them, as `has_open_frames.sql` asks."""
    is_frame = _by_text(categories, lambda category: category == "python")[_codes(categories)] == 1
    frames = order[is_frame[order]]
    if not len(frames):
        return False
    ids, callers = (pc.fill_null(_column(parts, name), NONE).to_numpy() for name in ("frame_id", "caller_id"))
    return not frames_lie_in_callers(frames, thread_id, (start_ns, dur_ns, ids, callers))


def _with_ends(ids: Int, dur_ns: Int, ended: pa.Table) -> Int:
    dur_ns = dur_ns.copy()
    order = np.argsort(ids, kind="stable")
    dur_ns[order[np.searchsorted(ids, ended.column("event_id").to_numpy(), sorter=order)]] = ended.column(
        "dur_ns"
    ).to_numpy()
    return dur_ns


def _overlong_calls(
    order: Int,
    file: Int,
    thread_id: npt.NDArray[np.int32],
    start_ns: Int,
    dur_ns: Int,
    is_call: npt.NDArray[np.bool_],
    is_operator: npt.NDArray[np.bool_],
) -> tuple[Int, Int]:
    """Return calls of CUDA or HIP in which their thread starts an operator, and how long each may have run at most.

    They run no operators. Where many calls of a file seem to, its lines are not those of threads.
    """
    at = np.flatnonzero(is_call[order] & (dur_ns[order] > _ROUNDING_NS))
    operators = np.flatnonzero(is_operator[order])
    place = np.searchsorted(operators, at)
    at, place = at[place < len(operators)], place[place < len(operators)]
    calls, following = order[at], order[operators[place]]
    most_ns = start_ns[following] - start_ns[calls]
    over = (thread_id[following] == thread_id[calls]) & (most_ns + _ROUNDING_NS < dur_ns[calls])
    called_counts = np.bincount(file[is_call])
    over &= (
        np.bincount(file[calls[over]], minlength=len(called_counts)) <= np.maximum(_FEW, _FEW_SHARE * called_counts)
    )[file[calls]]
    return calls[over], most_ns[over]


def _outlasting(
    order: Int, thread_id: npt.NDArray[np.int32], start_ns: Int, dur_ns: Int, is_operator: npt.NDArray[np.bool_]
) -> tuple[Int, Int]:
    """Return operators that last many times as long as all of their thread, and go on after what called them has ended.

    Beside each, how long it may have run at most.
    """
    operators = np.flatnonzero(is_operator[order])
    bounds = np.flatnonzero(np.diff(thread_id[order], prepend=NONE, append=NONE))
    spans_ns = start_ns[order[bounds[1:] - 1]] - start_ns[order[bounds[:-1]]]
    thread = np.searchsorted(bounds, operators, "right") - 1
    candidates = operators[dur_ns[order[operators]] > _TIMES_ITS_THREAD * spans_ns[thread] + _ROUNDING_NS]
    found = list[tuple[int, int]]()
    if 0 < len(candidates) <= _MOST_OUTLASTING:
        starts = start_ns[order]
        ends = starts + dur_ns[order]
        for at in candidates.tolist():
            before = slice(bounds[np.searchsorted(bounds, at, "right") - 1], at)
            around = ends[before][ends[before] > starts[at]]
            if len(around) and around.max() + _ROUNDING_NS < ends[at]:
                found.append((order[at], around.min() - starts[at]))
                ends[at] = starts[at]
    rows, most_ns = np.array(found, np.int64).reshape(-1, 2).T
    return rows, most_ns


def _as_others(
    defect: str, found: tuple[Int, Int], dur_ns: Int, alike: npt.NDArray[np.bool_], column: Any, losses: Losses
) -> Int:
    """Return durations in which some slices last as long as others of their kind and name, and at most so long."""
    rows, most_ns = found
    if not len(rows):
        return dur_ns
    longest, names = rows[np.argmax(dur_ns[rows])], _codes(column)
    losses.add(defect, None, f"{dur_ns[longest] / 1e6:,.3f} ms of {column[longest].as_py()}", len(rows))
    repaired = dur_ns.copy()
    others = alike.copy()
    others[rows] = False
    for row, longest_ns in zip(rows.tolist(), most_ns.tolist(), strict=True):
        lengths = dur_ns[others & (names == names[row])]
        repaired[row] = min(longest_ns, int(np.median(lengths)) if len(lengths) else 0)
    return repaired


def _nesting_order(
    thread_id: npt.NDArray[np.int32], start_ns: Int, dur_ns: Int, is_call: npt.NDArray[np.bool_], ids: Int
) -> Int:
    """Return the order by thread, start, longer first, calls last, id."""
    if not len(ids):
        return np.empty(0, np.int64)
    span = int(start_ns.max()) - int(start_ns.min()) + 1
    if (int(thread_id.max()) + 1) * span >= 2**62:
        return np.lexsort((ids, is_call, -dur_ns, start_ns, thread_id))
    key = thread_id.astype(np.int64) * span
    key += start_ns - start_ns.min()
    # Files list the slices of a thread by their ends, or nearly so: sorting finds long runs that are in order.
    order: Int = np.argsort(key, kind="stable")
    key = key[order]
    equals_next = np.append(key[1:] == key[:-1], False)
    tied = np.flatnonzero(equals_next | np.roll(equals_next, 1))
    rows = order[tied]
    order[tied] = rows[np.lexsort((ids[rows], is_call[rows], -dur_ns[rows], key[tied]))]
    return order


def nested_rows(nester: Nester, batch: pa.Table) -> pa.Table:
    """Return host slices with their depth, parent and nearest ancestors."""
    columns = [
        batch.column(name).to_numpy().astype(np.int64, copy=False)
        for name in ("slice_id", "thread_id", "start_ns", "dur_ns", "ancestor")
    ]
    has_hashes = "name_hash" in batch.column_names
    columns.append(batch.column("name_hash").to_numpy() if has_hashes else name_hashes(batch.column("name")))
    nested = nester.feed(Slices(*columns))
    for name, column in nested.columns().items():
        batch = batch.append_column(name, column)
    return batch


def regular_batches(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Gather DuckDB's small batches, so that each step works on many rows."""
    waiting: list[pa.RecordBatch] = []
    for batch in reader:
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= BATCH_ROWS:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()
