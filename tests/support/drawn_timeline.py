"""Tiny timelines written as text tables, attributed, and their ledgers as text. Times are in microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from traceanalyzer.ingest.nesting import ANCESTOR_CATEGORIES, NONE, Nester, Slices, name_hashes
from traceanalyzer.schema import canonical_tables
from tracesim import in_memory

US = 1_000
_KINDS: dict[str, dict[str, Any]] = {
    "kernel": {"kind": "kernel"},
    "graph": {"kind": "graph"},
    "comm": {"kind": "kernel", "is_comm": True, "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL"},
    "memset": {"kind": "memset"},
    "h2d": {"kind": "memcpy", "copy_kind": "HtoD"},
    "d2h": {"kind": "memcpy", "copy_kind": "DtoH"},
    "d2d": {"kind": "memcpy", "copy_kind": "DtoD"},
    "pages": {"kind": "memcpy", "copy_kind": "DtoH", "name": "Memcpy UVM DtoH (page fault)"},
}


def rows(text: str) -> list[dict[str, Any]]:
    """Return the rows of a text table; '-' is NULL, whole numbers are numbers, '~' in a word is a space."""
    lines = [line.split() for line in text.strip().splitlines()]
    return [dict(zip(lines[0], map(_value, line), strict=True)) for line in lines[1:]]


def _value(word: str) -> Any:
    if word == "-":
        return None
    return int(word) if word.lstrip("-").isdigit() else word.replace("~", " ")


def _times(row: dict[str, Any]) -> dict[str, int]:
    return {"start_ns": row["start"] * US, "dur_ns": (row["end"] - row["start"]) * US}


def _slices(drawn: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found = [
        {"trace_id": 0, "slice_id": r["id"], "thread_id": r["thread"], "category": r["category"], "name": r["name"]}
        | _times(r)
        | {"correlation": r["id"] if r["category"] == "runtime" else None}
        for r in drawn
    ]
    found.sort(key=lambda r: (r["thread_id"], r["start_ns"], -r["dur_ns"], r["slice_id"]))
    ids, thread, start, dur = (
        np.asarray([r[c] for r in found], np.int64) for c in ("slice_id", "thread_id", "start_ns", "dur_ns")
    )
    category = [ANCESTOR_CATEGORIES.index(c) if (c := r["category"]) in ANCESTOR_CATEGORIES else NONE for r in found]
    hashes = name_hashes(pa.array([r["name"] for r in found], pa.string()))
    nested = Nester().feed(Slices(ids, thread, start, dur, np.asarray(category, np.int64), hashes))
    above = zip(nested.parent_id, *nested.nearest, nested.depth, nested.stack_id, strict=True)
    names = ("parent_id", "op_id", "annotation_id", "python_id", "module_id")
    for row, (*around, depth, stack) in zip(found, above, strict=True):
        row |= {name: None if value == NONE else int(value) for name, value in zip(names, around, strict=True)}
        row |= {"depth": int(depth), "stack_id": int(stack)}
    return found


def _ops(drawn: Sequence[dict[str, Any]], slices: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    launches = {r["slice_id"]: r for r in slices}
    found = []
    for r in drawn:
        launch = launches.get(r["launch"], {})
        found.append(
            {"trace_id": 0, "op_id": r["id"], "device": r.get("device", 0), "stream": r["stream"], "is_comm": False}
            | {"name": r["kind"], "launch_id": r["launch"], "correlation": r["launch"]}
            | {"cpu_op_id": launch.get("op_id"), "annotation_id": launch.get("annotation_id")}
            | {"python_id": launch.get("python_id")}
            | _KINDS[r["kind"]]
            | {column: r[column] for column in ("name", "graph_id") if column in r}
            | _times(r)
        )
    return found


def tables(slices: str, ops: str, syncs: str = "") -> dict[str, pa.Table]:
    """Return canonical tables of text tables.

    Slices have columns id, thread, category, name, start, end; ops id, stream, kind, start, end, launch and maybe
    device, name and graph_id; syncs have call, stream, wait_on_stream, wait_on_call and maybe kind (else a stream
    waits for another).
    """
    host = _slices(rows(slices) if slices.strip() else [])
    waits = [
        {
            "trace_id": 0,
            "sync_id": 10_000 + n,
            "kind": r.get("kind", "stream_wait"),
            "start_ns": 0,
            "dur_ns": 0,
            "device": 0,
        }
        | {"correlation": r["call"], "stream": r["stream"], "wait_on_stream": r["wait_on_stream"]}
        | {"wait_on_correlation": r["wait_on_call"]}
        for n, r in enumerate(rows(syncs) if syncs.strip() else [])
    ]
    trace = {"trace_id": 0, "trace": "drawn", "path": "drawn", "format": "kineto", "size_bytes": 0, "event_count": 0}
    flags = ("truncated", "has_shapes", "has_stacks", "has_memory", "has_sync_events")
    made = {
        "traces": [trace | dict.fromkeys(flags, False)],
        "host_slices": host,
        "gpu_ops": _ops(rows(ops) if ops.strip() else [], host),
        "syncs": waits,
    }
    return {name: pa.Table.from_pylist(r, canonical_tables()[name].arrow_schema()) for name, r in made.items()}


@dataclass(frozen=True)
class Drawn:
    """An attributed timeline."""

    con: duckdb.DuckDBPyConnection

    @classmethod
    def of(cls, slices: str, ops: str, syncs: str = "") -> Drawn:
        """Attribute text tables, see `tables`."""
        return cls(in_memory.connect_tables(tables(slices, ops, syncs)))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query returns."""
        return self.con.sql(query).fetchall()

    def ledger(self, device: int = 0) -> list[str]:
        """Return the ledger as 'start-end bucket' in microseconds, one line a row, compute left out."""
        found = self.rows(
            f"SELECT start_ns, start_ns + dur_ns, bucket FROM attribution.ledger_rows "
            f"WHERE device = {device} AND bucket <> 'compute' ORDER BY row_id"
        )
        return [f"{start / US:g}-{end / US:g} {bucket}" for start, end, bucket in found]
