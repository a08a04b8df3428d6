"""What must hold for any text: chunk size, cuts and mutations change nothing but what they must."""

from __future__ import annotations

import json
import os
import random
import resource
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import IN_CHECK, examples
from trace_event_tables import Tables, events, read, slice_text

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.trace_events import host_order
from traceanalyzer.ingest.trace_events.assemble import Assembler
from traceanalyzer.ingest.trace_events.chunks import sql

# One of each kind of event, as Kineto lays them out.
RICH = events(
    '{"ph": "M", "name": "thread_name", "pid": 1, "tid": 7, "args": {"name": "thread 7 (python)"}}',
    slice_text("ProfilerStep#1", ts=0, dur=900, cat='"user_annotation"', args='{"External id": 1}'),
    slice_text("aten::mm", ts=10, dur=50, args='{"External id": 2, "Input Dims": [[2, 3], [3, 4]]}'),
    slice_text("cudaLaunchKernel", ts=20, dur=6.125, cat='"cuda_runtime"', args='{"correlation": 5, "External id": 2}'),
    '{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 30.5, "dur": 20.25,\n'
    ' "args": {"External id": 2, "device": 0, "stream": 7, "correlation": 5, "grid": [1, 2, 3], "block": [64, 1, 1]}}',
    '{"ph": "s", "id": 5, "pid": 1, "tid": 1, "ts": 20, "cat": "ac2g", "name": "ac2g"}',
    '{"ph": "f", "id": 5, "pid": 0, "tid": 7, "ts": 30.5, "cat": "ac2g", "name": "ac2g", "bp": "e"}',
    '{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 21,\n'
    ' "args": {"Bytes": 512, "Addr": 140000, "Device Type": 1, "Device Id": 0, "Total Allocated": 512}}',
    '{"ph": "C", "name": "GPU 0", "pid": "GPU 0 Counters", "ts": 25, "args": {"sm": 0.5, "dram": 1}}',
    '{"ph": "B", "name": "outer", "pid": 1, "tid": 9, "ts": 40}',
    '{"ph": "E", "pid": 1, "tid": 9, "ts": 60}',
    '{"ph": "b", "cat": "io", "id": "0x1", "name": "read", "pid": 1, "ts": 40}',
    '{"ph": "e", "cat": "io", "id": "0x1", "name": "read", "pid": 1, "ts": 45}',
    slice_text(
        'nested \\u00e9 {}, {\\"ph\\": 1}', ts=70, args='{"list": [{"ph": 1}, {"ph": 2}], "deep": {"a": [1, {"b": 2}]}}'
    ),
)
DAMAGED = RICH.replace('"ts": 25,', '"ts": 25, "ts": 26,').replace('"tid": 9, "ts": 60', '"tid": 9, "ts": ')
TIMED = ("host_slices", "gpu_ops", "flows", "memory_events", "counters", "async_slices", "instants", "syncs")


def shown(tables: Tables) -> dict[str, list[dict[str, Any]]]:
    """Return all that must not depend on how the file was cut."""
    return {name: rows for name, rows in tables.rows.items() if name not in ("traces", "defects")} | {
        "defects": [{k: v for k, v in row.items() if k != "example"} for row in tables["defects"]]
    }


@pytest.mark.check
@pytest.mark.parametrize("document", [RICH, DAMAGED], ids=["whole", "damaged"])
def test_any_chunk_size_gives_the_same_tables(document: str) -> None:
    expected = shown(read(document, chunk_bytes=2**20))
    for chunk_bytes in (1, 2, 7, 19, 40, 64, 150, 257, 700, 1200, len(document)):
        assert shown(read(document, chunk_bytes=chunk_bytes)) == expected, chunk_bytes


@pytest.mark.check
@pytest.mark.parametrize("jobs", [2, 4])
def test_any_number_of_jobs_gives_the_same_tables(jobs: int) -> None:
    document = events(*(slice_text(f"op {i}", ts=i * 10) for i in range(500)))
    assert shown(read(document, chunk_bytes=300, jobs=jobs)) == shown(read(document, chunk_bytes=2**20))


@pytest.mark.check
def test_a_longer_cut_never_yields_fewer_rows() -> None:
    """The trace cut now and then, more often in `make check`, at each byte with TRACEANALYZER_THOROUGH."""
    seen = dict.fromkeys(TIMED, 0)
    step = 1 if os.environ.get("TRACEANALYZER_THOROUGH") else 29 if IN_CHECK else 197
    for length in (*range(0, len(RICH), step), len(RICH)):
        try:
            tables = read(RICH[:length])
        except TraceAnalyzerError:
            assert not any(seen.values())
            continue
        for name in TIMED:
            assert len(tables[name]) >= seen[name], (name, length)
            seen[name] = len(tables[name])
    assert seen["host_slices"] == 5


FRAGMENTS = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\0",
    b"\xff",
    b"\n",
    b"NaN",
    b"null",
    b"-",
    b"1e999",
    b"\\u",
    b"\\ud800",
    b'{"ph"',
    b"},{",
]


def mutate(document: bytes, seed: int) -> bytes:
    """Return the document with a few random edits."""
    dice = random.Random(seed)
    data = bytearray(document)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(4):
            case 0:
                data[at:at] = dice.choice(FRAGMENTS)
            case 1:
                del data[at : at + dice.choice([1, 2, 9, 80])]
            case 2:
                data[at : at + 1] = bytes([dice.randrange(256)])
            case _:
                source = dice.randrange(len(data) + 1)
                data[at:at] = data[source : source + dice.choice([3, 30, 200])]
        data = data or bytearray(b" ")
    return bytes(data)


@pytest.mark.check
def test_mutations_end_in_tables_or_one_sentence() -> None:
    """Seconds of fuzzing; an hour with TRACEANALYZER_FUZZ_S=3600."""
    seconds = float(os.environ.get("TRACEANALYZER_FUZZ_S", "15" if IN_CHECK else "3"))
    until, seed = time.monotonic() + seconds, 0
    settled_kb = 0
    while time.monotonic() < until or seed <= 10:
        seed += 1
        if seed == 40:
            settled_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        data = mutate(RICH.encode(), seed)
        try:
            tables = read(data, chunk_bytes=2 ** (seed % 12 + 1))
        except TraceAnalyzerError:
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        assert tables["traces"][0]["event_count"] >= 0
    if seed > 40:
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - settled_kb < 64 * 1024


def _held_in_memory(plan: list[dict[str, Any]]) -> Iterator[str]:
    for node in plan:
        if node["name"] == "HASH_JOIN":
            yield json.dumps(node["children"][1])
        yield from _held_in_memory(node["children"])


def test_no_join_holds_the_events_of_a_file_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[str, list[str]] = {}
    query = Assembler._query

    def explained(self: Assembler, name: str) -> Any:
        rows = self._database.execute(f"EXPLAIN (FORMAT json) {sql(name)}", self._parameters(name)).fetchall()
        held[name] = list(_held_in_memory(json.loads(rows[0][1])))
        return query(self, name)

    monkeypatch.setattr(Assembler, "_query", explained)
    monkeypatch.setattr(host_order, "MOST_SLICES", -1)
    read(RICH, chunk_bytes=200)
    joining = {name for name, parts in held.items() if parts}
    assert joining >= {"host_sorted", "flows", "memory_events", "instants", "gpu_sorted"}
    # Links join what the stored slices were reduced to.
    assert not [name for name in joining - {"gpu_links"} if any("READ_PARQUET" in part for part in held[name])]


@pytest.mark.check
@given(st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 999)), min_size=1, max_size=40))
@examples()
def test_nanoseconds_survive_in_every_spelling(times: list[tuple[int, int]]) -> None:
    exact = [us * 1000 + ns for us, ns in times]
    plain = events(*(slice_text("op", ts=f"{us}.{ns:03}", dur=f"{us}.{ns:03}") for us, ns in times))
    quoted = events(*(slice_text("op", ts=f'"{us}.{ns:03}"') for us, ns in times))
    kept = sorted(ns for ns in exact if ns <= 30 * 86_400 * 10**9)
    assert sorted(row["dur_ns"] for row in read(plain)["host_slices"]) == kept
    starts = sorted(exact)
    if starts[-1] <= 86_400 * 10**9 or starts[0] > 0:
        assert [row["start_ns"] for row in sorted(read(quoted)["host_slices"], key=lambda r: r["start_ns"])] == starts
