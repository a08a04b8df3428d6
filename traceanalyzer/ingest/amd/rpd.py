"""RPD: the database of rocmProfileData, AMD's recorder in vLLM and SGLang; one file for all processes of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.amd.recording import (
    COPY_PREFIX,
    AmdDefects,
    Identity,
    Lookup,
    NameCodes,
    ProcessRecording,
    allocation_rows,
    array_of,
    call_batch,
    copy_kinds,
    flags,
    integers,
    ints,
    taken,
    work_batch,
)
from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.masks import Column
from traceanalyzer.ingest.nsys.reading import read_table
from traceanalyzer.ingest.nsys.source import SqliteSource
from traceanalyzer.ingest.nsys.tables import TableLayout, match_columns, table_of

_AGAIN = "record it again, or take another copy: the recorder was perhaps killed while writing"
TABLES = (
    table_of("string", "rocpd_string", "id! string:text!"),
    table_of("ustring", "rocpd_ustring", "id! string:text!"),
    table_of("metadata", "rocpd_metadata", "tag:text! value:text"),
    table_of("api", "rocpd_api", "id! pid tid start! end! apiName_id args_id category_id"),
    table_of("op", "rocpd_op", "id! gpuId queueId sequenceId start! end! description_id opType_id"),
    table_of("link", "rocpd_api_ops", "api_id! op_id!"),
    table_of(
        "launch",
        "rocpd_kernelapi",
        "api_ptr_id! groups_x|gridX groups_y|gridY groups_z|gridZ block_x|workgroupX block_y|workgroupY "
        "block_z|workgroupZ lds|groupSegmentSize scratch|privateSegmentSize",
    ),
    table_of("moved", "rocpd_copyapi", "api_ptr_id! size kind dstDevice srcDevice"),
    table_of("monitor", "rocpd_monitor", "start! deviceType:text deviceId monitorType:text value:text"),
)
_OF_EVENTS = ("api", "op", "monitor")
# What a recording always has.
_WANTED = ("string", "api", "op", "link")
# On NVIDIA's GPUs the recorder writes the context as the queue, and the stream as the number in the sequence.
_CUDA = pc.MatchSubstringOptions(r"^cuda[A-Z]\w*_v\d+$")
# cudaMemcpyKind, which is hipMemcpyKind.
_DIRECTIONS = ("HOST_TO_HOST", "HOST_TO_DEVICE", "DEVICE_TO_HOST", "DEVICE_TO_DEVICE")
_COPIES = {
    "CopyHostToDevice": "HOST_TO_DEVICE",
    "CopyDeviceToHost": "DEVICE_TO_HOST",
    "CopyDeviceToDevice": "DEVICE_TO_DEVICE",
    "CopyHostToHost": "HOST_TO_HOST",
}
# HIP takes the grid of these in threads, and the recorder writes it so.
_COUNT_THREADS = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})
_MARKER = "UserMarker"
# The recorder's own work.
_OVERHEAD = re.compile(r"::writeRows$|^hcc_activity_callback|^rpdflush")
_KINDS = (
    ("annotation", _MARKER),
    ("runtime", "rocpd_api"),
    ("driver", "rocpd_api"),
    ("overhead", "rocpd_api"),
    ("annotation", "rocpd_api"),
    ("cpu_op", "rocpd_api"),
)
# What schema 3 calls operators of PyTorch.
_OPERATORS = pa.array(["function", "backward_function"])
_ALLOCATING = ("hipMalloc", "hipFree", "cudaMalloc", "cudaFree")
_ALLOCATION = re.compile(r"ptr\s*=\s*0x([0-9a-fA-F]+)(?:\s*\|\s*size\s*=\s*0x([0-9a-fA-F]+))?")


def rpd_recordings(path: Path, original: Path, defects: AmdDefects) -> Iterator[ProcessRecording]:
    """Yield every process of a database; `original` is the file that the user named."""
    with closing(SqliteSource(path, _lay_out, _AGAIN)) as source:
        if source.damage:
            defects.add("unreadable-rows", example=source.damage)
        missing = [table.name for table in TABLES if table.relation in _WANTED and table.relation not in source.layouts]
        defects.add("missing-table", len(missing), ", ".join(missing))
        for table in TABLES:
            layout = source.layouts.get(table.relation)
            if layout is not None and layout.unreadable and source.row_counts[layout.stored_name]:
                defects.add("unreadable-table", example=f"{table.name} has no {', '.join(layout.unreadable)}")
        api = source.layouts.get("api")
        pids: list[int | None] = list(source.distinct(api, "pid")) if api and "pid" in api.stored else []
        for pid in pids or [None]:
            own = AmdDefects(dict(defects.counts), dict(defects.examples))
            yield RpdRecording(source, pid, own, is_first=pid == (pids or [None])[0], many=len(pids) > 1)


def _lay_out(tables: Mapping[str, list[str]], row_counts: Mapping[str, int]) -> dict[str, TableLayout]:
    return {
        table.relation: TableLayout(table, table.name, match_columns(table, tables[table.name]))
        for table in TABLES
        if table.name in tables
    }


class RpdRecording(ProcessRecording):
    """One process of an RPD file; work whose call is not there goes with the first one."""

    def __init__(
        self, source: SqliteSource, pid: int | None, defects: AmdDefects, *, is_first: bool, many: bool
    ) -> None:
        self._source = source
        self._pid = pid
        self._is_first, self._many = is_first, many
        self.defects = defects
        self._first_ids, self.row_count = self._number_rows()
        facts = {row["tag"]: row["value"] for row in self._rows("metadata")}
        version = facts.get("schema_version") or "unknown"
        self.folder = f"pid{pid}" if many else "0"
        self.metadata: Mapping[str, object] = {
            "rpd.schema_version": version,
            "rpd.sessions": facts.get("session_count"),
        }
        self.devices: Sequence[Mapping[str, object]] = []
        self._strings = self._read_strings("string")
        self._is_cuda = bool(flags(pc.call_function("match_substring_regex", [self._strings[1]], _CUDA)).any())
        vendor = "nvidia" if self._is_cuda else "amd"
        self.identity = Identity("rpd", f"rocmProfileData, schema {version}", pid, None, vendor=vendor)
        # Since schema 3 arguments have a table of their own.
        self._arguments = self._read_strings("ustring") if self._has("ustring") else self._strings
        self._names, self._kinds = NameCodes(), NameCodes()
        self._allocations: list[dict[str, Any]] = []
        self._devices: set[int] = set()
        self._own_calls = self._other_calls = np.empty(0, np.int64)
        self._counting_threads: list[Int] = []  # calls

    def _number_rows(self) -> tuple[dict[str, int], int]:
        first, firsts = 0, {}
        for relation in _OF_EVENTS:
            firsts[relation] = first
            if self._has(relation):
                first += self._source.row_counts[self._source.layouts[relation].stored_name]
        return firsts, first

    def _has(self, relation: str) -> bool:
        layout = self._source.layouts.get(relation)
        return layout is not None and not layout.unreadable

    def _batches(self, relation: str) -> Iterator[pa.RecordBatch]:
        if self._has(relation):
            first_id = self._first_ids.get(relation, 0)
            yield from read_table(self._source, self._source.layouts[relation], first_id, self.defects)

    def _rows(self, relation: str) -> list[dict[str, Any]]:
        return [row for batch in self._batches(relation) for row in batch.to_pylist()]

    def _read_strings(self, relation: str) -> tuple[Lookup, Column]:
        ids, texts = [np.empty(0, np.int64)], [pa.array([], pa.string())]
        for batch in self._batches(relation):
            ids.append(integers(batch.column("id")))
            texts.append(batch.column("string"))  # type: ignore[arg-type]
        return Lookup(np.concatenate(ids)), pa.concat_arrays(texts)

    def calls(self) -> Iterator[pa.RecordBatch]:
        own, others = [], []
        for rows in self._batches("api"):
            pids = rows.column("pid")
            is_own = np.full(rows.num_rows, self._pid is None) | (integers(pids) == self._pid)
            if self._is_first and pids.null_count:
                is_own |= flags(pids.is_null())
                self.defects.add("unknown-process", pids.null_count if self._many else 0, "rocpd_api")
            batch = rows.filter(pa.array(is_own))
            own.append(integers(batch.column("id")))
            if self._is_first:
                others.append(integers(rows.column("id"))[~is_own])
            yield self._call_rows(batch)
        self._own_calls = np.concatenate([np.empty(0, np.int64), *own])
        self._other_calls = np.concatenate([np.empty(0, np.int64), *others])

    def _call_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = _texts(self._strings, batch.column("apiName_id")).dictionary_encode()
        distinct: list[str] = [name or "" for name in names.dictionary.to_pylist()] or [""]
        place = names.indices.fill_null(0).to_numpy(zero_copy_only=False)
        count_threads = np.array([name in _COUNT_THREADS for name in distinct])[place]
        self._counting_threads.append(integers(batch.column("id"))[count_threads])
        kind = np.array([_kind_of(name) for name in distinct], np.int64)[place]
        categories = _texts(self._strings, batch.column("category_id"))
        kind[flags(pc.call_function("is_in", [categories], pc.SetLookupOptions(_OPERATORS)))] = 5
        code = np.array([self._names.code(name) for name in distinct], np.int64)[place]
        self.defects.add("missing-string", names.null_count, "of a call")
        is_marker = kind == 0
        said = _texts(self._arguments, batch.column("args_id"))
        ids = integers(batch.column("id"))
        self._note_allocations(batch, np.array(distinct, object)[place], said)
        start, end = batch.column("start"), batch.column("end")
        columns: dict[str, Column] = {
            "slice_id": batch.column("event_id"),
            "thread": batch.column("tid"),
            "start_ns": start,
            "dur_ns": pa.array(end.to_numpy() - start.to_numpy()),
            "kind": pa.array(kind),
            "name_code": array_of(code, np.asarray(is_marker)),
            "text": array_of(np.array(said.to_pylist(), object), ~is_marker).cast(pa.string()),
            "correlation": ints(np.where(is_marker | (ids <= 0), NONE, ids)),
        }
        return call_batch(batch.num_rows, columns)

    def _note_allocations(self, batch: pa.RecordBatch, names: Any, said: Column) -> None:
        """Keep what calls that allocate and free memory say about it."""
        for at in [at for at, name in enumerate(names) if name.startswith(_ALLOCATING)]:
            found = _ALLOCATION.search(said[at].as_py() or "")
            if found is None:
                continue
            is_free = "Free" in names[at]
            self._allocations.append(
                {
                    "event_id": batch.column("event_id")[at].as_py(),
                    "end": batch.column("end")[at].as_py(),
                    "tid": batch.column("tid")[at].as_py(),
                    "type": "FREE" if is_free else "ALLOC",
                    "level": "REAL",
                    "address": int(found[1], 16) & 2**63 - 1,
                    "size": None if found[2] is None else min(int(found[2], 16), 2**44),
                }
            )

    def kinds(self) -> Sequence[tuple[str, str]]:
        return _KINDS

    def work(self) -> Iterator[pa.RecordBatch]:
        links = self._columns("link", "op_id", "api_id")
        link_at = Lookup(links[0])
        own, others = Lookup(self._own_calls), Lookup(self._other_calls)
        launches = self._launches()
        launch_at = Lookup(launches[0])
        moved = self._columns("moved", "api_ptr_id", "size", "kind", "dstDevice", "srcDevice")
        moved_at = Lookup(moved[0])
        for rows in self._batches("op"):
            api = _at(links[1], link_at.find(rows.column("id")))
            is_own = own.find(api) != NONE
            if self._is_first:
                is_dangling = (api != NONE) & ~is_own & (others.find(api) == NONE)
                self.defects.add("missing-event", int(is_dangling.sum()), "the call of GPU work")
                is_own |= is_dangling | (api == NONE)
            batch, api = rows.filter(pa.array(is_own)), api[is_own]
            types = _texts(self._strings, batch.column("opType_id"))
            self.defects.add("missing-string", types.null_count, "of a kind of GPU work")
            self.defects.add("missing-agent", int((integers(batch.column("gpuId")) < 0).sum()))
            # Without its kind and its name, work may as well be a copy.
            described = _texts(self._strings, batch.column("description_id")).to_pylist()
            is_known = [kind is not None or bool(what) for kind, what in zip(types.to_pylist(), described, strict=True)]
            self.defects.add("unknown-kind", is_known.count(False), "GPU work without a kind and a name")
            types = types.fill_null("")
            is_barrier = [str(kind).startswith("Barrier") for kind in types.to_pylist()]
            is_work = np.array(is_known, np.bool_) & ~np.array(is_barrier, np.bool_)
            batch, api, types = batch.filter(pa.array(is_work)), api[is_work], types.filter(pa.array(is_work))
            yield self._work_rows(batch, api, types, (launch_at, launches), (moved_at, moved))

    def _launches(self) -> list[Int]:
        """Return the columns of launches, with grids in blocks."""
        api, *sizes = self._columns("launch", *(column.name for column in TABLES[6].columns))
        in_threads = np.isin(api, np.concatenate([np.empty(0, np.int64), *self._counting_threads]))
        for axis in range(3):
            side, block_side = sizes[axis], sizes[axis + 3]
            in_blocks = (side + block_side - 1) // np.maximum(block_side, 1)
            sizes[axis] = np.where(in_threads & (side > 0) & (block_side > 0), in_blocks, side)
        return [api, *sizes]

    def _work_rows(
        self,
        batch: pa.RecordBatch,
        api: Int,
        types: Column,
        launches: tuple[Lookup, Sequence[Int]],
        moved: tuple[Lookup, Sequence[Int]],
    ) -> pa.RecordBatch:
        kinds: list[str] = types.to_pylist()  # type: ignore[assignment]
        described = _texts(self._strings, batch.column("description_id"))
        self.defects.add("missing-string", described.null_count, "of GPU work")
        names = [what or kind for what, kind in zip(described.to_pylist(), kinds, strict=True)]
        is_copy = np.array([kind.startswith(("Copy", COPY_PREFIX, "Memcpy")) for kind in kinds], np.bool_)
        is_fill = np.array([kind.startswith(("Fill", "Memset")) for kind in kinds], np.bool_)
        moved_at = np.where(is_copy, moved[0].find(api), NONE)
        requested = [_DIRECTIONS[kind] if 0 <= kind < 4 else None for kind in _at(moved[1][2], moved_at).tolist()]
        said = [_COPIES.get(kind, kind) for kind in kinds]
        target, source = (_at(moved[1][end], moved_at) for end in (3, 4))
        copies = [way if kind == "Memcpy" else kind for way, kind in zip(requested, said, strict=True)]
        # Nodes of a graph have no launch of their own.
        at = np.where(is_copy | is_fill | (types.to_numpy(zero_copy_only=False) == "Task"), NONE, launches[0].find(api))
        _, *sides, lds, scratch = (ints(_at(column, at)) for column in launches[1])
        gpus = batch.column("gpuId")
        self._devices.update(np.unique(np.maximum(integers(gpus), 0)).tolist())
        columns: dict[str, Column] = {
            "op_id": batch.column("event_id"),
            "device": gpus,
            "stream": batch.column("sequenceId" if self._is_cuda else "queueId"),
            "queue": batch.column("queueId"),
            "is_copy": pa.array(is_copy),
            "is_fill": pa.array(is_fill),
            "name": pa.array(names, pa.string()).dictionary_encode(),
            "start_ns": batch.column("start"),
            "end_ns": batch.column("end"),
            "correlation": ints(api),
            "size_bytes": ints(_at(moved[1][1], moved_at)),
            "copy_kind": copy_kinds(pa.array(copies, pa.string()), pa.array(target != source)),
            "shared_memory_bytes": lds,
            "scratch_bytes": scratch,
        }
        columns |= dict(zip([f"{side}_{axis}" for side in ("grid", "block") for axis in "xyz"], sides, strict=True))
        return work_batch(batch.num_rows, columns)

    def _columns(self, relation: str, *names: str) -> list[Int]:
        """Return columns of numbers of a whole table."""
        pieces: list[list[Int]] = [[np.empty(0, np.int64)] for _ in names]
        for batch in self._batches(relation):
            for piece, name in zip(pieces, names, strict=True):
                piece.append(integers(batch.column(name)))
        return [np.concatenate(piece) for piece in pieces]

    def others(self) -> Iterator[tuple[str, pa.Table]]:
        if self._allocations:
            # No allocation names its device.
            (device,) = self._devices if len(self._devices) == 1 else (None,)
            yield from allocation_rows(self._allocations, [device] * len(self._allocations))
        for batch in self._batches("monitor") if self._is_first else ():
            devices = zip(batch.column("deviceType").to_pylist(), batch.column("deviceId").to_pylist(), strict=True)
            yield (
                "counters",
                pa.table(
                    {
                        "event_id": batch.column("event_id"),
                        "name": batch.column("monitorType"),
                        "series": pa.array([f"{(kind or '').upper()} {number}" for kind, number in devices]),
                        "start_ns": batch.column("start"),
                        "value": pa.array([_number(text) for text in batch.column("value").to_pylist()], pa.float64()),
                    }
                ),
            )


def _kind_of(name: str) -> int:
    """Return the place among the kinds of calls."""
    if name == _MARKER:
        return 0
    if name.startswith(("hip", "__hip", "cuda")):
        return 1
    if name.startswith("hsa_") or re.match("cu[A-Z]", name):
        return 2
    return 3 if _OVERHEAD.search(name) else 4


def _texts(strings: tuple[Lookup, Column], ids: Column) -> Column:
    return taken(strings[1], strings[0].find(ids))


def _at(values: Int, places: Int) -> Int:
    """Return values by their places; NONE where the place is NONE."""
    return np.where(places == NONE, NONE, np.append(values, NONE)[places])


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
