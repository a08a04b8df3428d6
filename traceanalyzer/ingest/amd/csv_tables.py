"""rocprofv3's CSV tables: those of one prefix are one trace. Tables of earlier recorders are one each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.amd.agents import device_row
from traceanalyzer.ingest.amd.csv_processes import (
    CsvProcess,
    batches_of,
    counters_of_earlier,
    leader_of,
    numbers,
    processes_in,
    set_of,
)
from traceanalyzer.ingest.amd.recording import (
    AmdDefects,
    Identity,
    NameCodes,
    ProcessRecording,
    allocation_rows,
    call_batch,
    category_of,
    copy_kinds,
    flags,
    groups_of,
    integers,
    ints,
    on_host,
    unless_zero,
    where,
    work_batch,
)
from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.masks import Column

_AXES = ("x", "y", "z")
_DIGITS = re.compile(r"\d{1,9}")
_ADDRESS = re.compile(r"0[xX]0*[0-9a-fA-F]{1,15}|0|[1-9]\d{0,17}")


def csv_recordings(path: Path) -> Iterator[ProcessRecording]:
    """Yield the trace of a set of tables that one leads, or of one that is given alone."""
    tables = set_of(path)
    tables = tables if leader_of(path) == path else {path: tables[path]}
    processes = processes_in(tables)
    for number, process in enumerate(processes):
        yield CsvRecording(tables, process, is_first=number == 0, many=len(processes) > 1)


class CsvRecording(ProcessRecording):
    """One process, as a set of tables shows it; rows that name no process go with the first one."""

    def __init__(self, tables: Mapping[Path, str], process: CsvProcess, *, is_first: bool, many: bool) -> None:
        self._tables = tables
        self._process, self._is_first, self._many = process, is_first, many
        self.defects = AmdDefects()
        for file in self._of("unreadable") if is_first else []:
            self.defects.add("unreadable-table", example=file.name)
        self.folder = f"pid{process.label}" if many else "0"
        self.row_count = 0
        self._agents = self._read_agents()
        self.devices: Sequence[Mapping[str, object]] = self._gpus()
        counters = [counters_of_earlier(file) for file in self._of("kernel")]
        self._is_earlier = any(of_file is not None for of_file in counters)
        producer = "rocprof, CSV" if self._is_earlier else "rocprofv3, CSV"
        self.identity = Identity("rocprof", producer, process.pid, None)
        self.metadata: Mapping[str, object] = {"rocprof.tables": [file.name for file in tables]}
        self._names, self._kinds = NameCodes(), NameCodes()
        self._devices_by_number = False
        self._kernel_starts = [np.empty(0, np.int64)]

    def _of(self, kind: str) -> list[Path]:
        return [file for file, known in self._tables.items() if known == kind]

    def _batches(self, file: Path, defects: AmdDefects | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the process's rows of a table as texts, columns in small letters."""
        counted = self.defects if defects is None else defects
        is_shared = self._tables[file] == "agent"  # of all processes, unless it names them
        for batch in batches_of(file, counted):
            if not self._many or (is_shared and "guid" not in batch.schema.names):
                yield batch
                continue
            own = self._process.owns(batch, is_first=self._is_first)
            if own is not None:
                yield batch.filter(own)
            elif self._is_first:
                counted.add("unknown-process", batch.num_rows, file.name)
                yield batch

    def _read_agents(self) -> list[dict[str, str]]:
        rows: list[dict[str, str]] = []
        for file in self._of("agent"):
            for batch in self._batches(file):
                rows += batch.to_pylist()
        return rows

    def _gpus(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for row in self._agents:
            if row.get("agent_type", "").upper() == "GPU":
                facts = {key: int(text) for key, text in row.items() if (text or "").isdigit() and len(text) < 18}
                found.append(device_row(len(found), row.get("product_name") or row.get("name"), facts))
        return found

    def _device_of(self, agents: Column) -> Column:
        """Return devices by the names of agents: numbered among all agents, or among GPUs."""
        coded = agents.dictionary_encode()
        known = [*(self._device_named(text or "") for text in coded.dictionary.to_pylist()), NONE]
        found = np.array(known, np.int64)[coded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)]
        self.defects.add("missing-agent", int((found == NONE).sum()) - agents.null_count)
        return ints(found)

    def _device_named(self, text: str) -> int:
        digits = _DIGITS.search(text)
        if digits is None:
            return NONE
        number = int(digits[0])
        if text.upper().startswith("GPU"):
            return number
        gpus = [row for row in self._agents if row.get("agent_type", "").upper() == "GPU"]
        for key in ("node_id", "logical_node_id"):
            places = [place for place, row in enumerate(gpus) if row.get(key) == digits[0]]
            if places:
                return places[0]
        if not (self._agents or self._devices_by_number or self._is_earlier):
            self._devices_by_number = True
            self.defects.add("devices-by-number", example=text)
        return number if not self._agents else NONE

    def calls(self) -> Iterator[pa.RecordBatch]:
        for file in self._of("api"):
            for batch in self._batches(file):
                batch, start, end = self._timed(batch, file)
                functions, domains = batch.column("function"), batch.column("domain")
                kinds = [self._kinds.code(str(domain)) for domain in domains.to_pylist()]
                columns: dict[str, Column] = {
                    "slice_id": self._ids(batch.num_rows),
                    "thread": self._numbers(batch, "thread_id", file),
                    "start_ns": pa.array(start),
                    "dur_ns": pa.array(end - start),
                    "kind": pa.array(kinds, pa.int64()),
                    "name_code": pa.array([self._names.code(str(name)) for name in functions.to_pylist()], pa.int64()),
                    "correlation": unless_zero(self._numbers(batch, "correlation_id", file)),
                }
                is_marker = pa.array(
                    [category_of(domain) == "annotation" for domain in domains.to_pylist()], pa.bool_()
                )
                columns["text"] = pc.if_else(is_marker, functions, pa.scalar(None, pa.string()))
                yield call_batch(batch.num_rows, columns)

    def _timed(self, batch: pa.RecordBatch, file: Path) -> tuple[pa.RecordBatch, Int, Int]:
        """Leave out rows without a start or an end, and count them; return the others, their starts and their ends."""
        edges = [self._numbers(batch, f"{edge}_timestamp", file) for edge in ("start", "end")]
        has_both = flags(pc.and_(edges[0].is_valid(), edges[1].is_valid()))
        self.defects.add("no-times", int((~has_both).sum()), file.name)
        start, end = (integers(edge)[has_both] for edge in edges)
        self.defects.add("negative-duration", int(((end < start) & (start > 0)).sum()), file.name)
        timed = batch if has_both.all() else batch.filter(pa.array(has_both))
        return timed, start, np.maximum(start, end)

    def _numbers(self, batch: pa.RecordBatch, column: str, file: Path) -> Column:
        """Return a column of numbers as `numbers` does, and count texts that are none."""
        found = numbers(batch, column)
        if found.null_count and column in batch.schema.names:
            texts = pc.call_function("utf8_trim_whitespace", [batch.column(column).filter(found.is_null())])
            for text in texts.filter(pc.call_function("not_equal", [texts, pa.scalar("")])).to_pylist():
                kind = "number-out-of-range" if text.lstrip("-").isdigit() else "mixed-types"
                self.defects.add(kind, example=f"{file.name}: {column} {text[:80]}")
        return found

    def _side(self, batch: pa.RecordBatch, column: str, file: Path) -> Column:
        """Return a side of a launch; the first one of earlier recorders is the product of all."""
        if self._is_earlier and column not in batch.schema.names:
            return pa.array([1] * batch.num_rows, pa.int64())
        return self._numbers(batch, column, file)

    def _ids(self, count: int) -> Column:
        first = self.row_count + 1
        self.row_count += count
        return pa.array(np.arange(first, first + count, dtype=np.int64))

    def work(self) -> Iterator[pa.RecordBatch]:
        for file in self._of("kernel"):
            for rows in self._batches(file):
                batch, start, end = self._timed(rows, file)
                self._kernel_starts.append(start)
                columns = self._work_columns(batch, start, end, file) | {
                    "device": self._device_of(batch.column("agent_id")),
                    "queue": self._numbers(batch, "queue_id", file),
                    "name": batch.column("kernel_name").dictionary_encode(),
                    "registers_per_thread": self._numbers(batch, "vgpr_count", file),
                    "shared_memory_bytes": self._numbers(batch, "lds_block_size", file),
                    "scratch_bytes": self._numbers(batch, "scratch_size", file),
                    "dispatch": self._numbers(batch, "dispatch_id", file),
                    "graph_id": unless_zero(self._numbers(batch, "graph_exec_id", file)),
                    "graph_node_id": unless_zero(self._numbers(batch, "graph_node_id", file)),
                }
                for axis in _AXES:
                    block = self._side(batch, f"workgroup_size_{axis}", file)
                    columns[f"block_{axis}"] = block
                    columns[f"grid_{axis}"] = groups_of(self._side(batch, f"grid_size_{axis}", file), block)
                yield work_batch(batch.num_rows, columns)
        if not self._of("kernel"):
            yield from self._counted_dispatches()
        for file in self._of("copy"):
            for batch in self._batches(file):
                yield self._copy_rows(batch, file)

    def _counted_dispatches(self) -> Iterator[pa.RecordBatch]:
        """Yield the dispatches that counters name, once each; other tables repeat them for other counters.

        Damage that costs a counter, too, is counted with the counters.
        """
        seen: set[int] = set()
        for file in self._of("counter")[:1]:
            for all_rows in self._batches(file, AmdDefects()):
                rows = all_rows.filter(pa.array(integers(numbers(all_rows, "start_timestamp")) > 0))
                numbered, places = np.unique(integers(numbers(rows, "dispatch_id")), return_index=True)
                listed = zip(numbered.tolist(), places.tolist(), strict=True)
                batch = rows.take(pa.array(sorted(place for number, place in listed if number not in seen), pa.int64()))
                seen.update(numbered.tolist())
                batch, start, end = self._timed(batch, file)
                names = "kernel_name" if "kernel_name" in batch.schema.names else "dispatch_id"
                columns = self._work_columns(batch, start, end, file) | {
                    "queue": self._numbers(batch, "queue_id", file),
                    "name": batch.column(names).dictionary_encode(),
                    "registers_per_thread": self._numbers(batch, "vgpr_count", file),
                    "shared_memory_bytes": self._numbers(batch, "lds_block_size", file),
                    "scratch_bytes": self._numbers(batch, "scratch_size", file),
                    "dispatch": self._numbers(batch, "dispatch_id", file),
                }
                if "agent_id" in batch.schema.names:
                    columns["device"] = self._device_of(batch.column("agent_id"))
                yield work_batch(batch.num_rows, columns)
        self.defects.add("serialised-by-counters", int(bool(seen)), f"{len(seen)} dispatches")

    def _copy_rows(self, rows: pa.RecordBatch, file: Path) -> pa.RecordBatch:
        batch, start, end = self._timed(rows, file)
        directions = batch.column("direction")
        source, target = batch.column("source_agent_id"), batch.column("destination_agent_id")
        kinds = copy_kinds(directions, pc.not_equal(source, target))
        agents = pc.if_else(pc.match_substring(directions, "TO_DEVICE"), target, source)
        columns = self._work_columns(batch, start, end, file) | {
            "device": self._device_of(where(pa.array(~on_host(kinds)), agents)),
            "is_copy": pa.array([True] * batch.num_rows),
            "name": directions.dictionary_encode(),
            "copy_kind": kinds,
        }
        return work_batch(batch.num_rows, columns)

    def _work_columns(self, batch: pa.RecordBatch, start: Int, end: Int, file: Path) -> dict[str, Column]:
        return {
            "op_id": self._ids(batch.num_rows),
            "stream": self._numbers(batch, "stream_id", file),
            "start_ns": pa.array(start),
            "end_ns": pa.array(end),
            "correlation": unless_zero(self._numbers(batch, "correlation_id", file)),
        }

    def _allocations(self, file: Path) -> Iterator[dict[str, Any]]:
        for batch in self._batches(file):
            columns = ("end_timestamp", "allocation_size", "thread_id")
            ends, sizes, threads = (self._numbers(batch, name, file).to_pylist() for name in columns)
            for row, texts in enumerate(batch.to_pylist()):
                self.row_count += 1
                operation, address = str(texts["operation"]), str(texts["address"])
                if not ends[row] or not _ADDRESS.fullmatch(address):
                    self.defects.add("unreadable-record", example=f"{file.name}: {operation} at {address[:80]}")
                    continue
                yield {
                    "event_id": self.row_count,
                    "tid": threads[row],
                    "end": ends[row],
                    "type": "FREE" if "FREE" in operation.upper() else "ALLOC",
                    "level": "REAL",
                    "address": int(address, 0),
                    "size": sizes[row],
                    "device": self._device_named(texts.get("agent_id", "")),
                }

    def others(self) -> Iterator[tuple[str, pa.Table]]:
        allocated = [row for file in self._of("allocation") for row in self._allocations(file)]
        yield from allocation_rows(allocated, [row["device"] for row in allocated])
        counted = [self._summed(file, self._counted(file)) for file in self._of("counter")]
        yield from counted
        # Counters of another pass have times of their own.
        kernels, at = np.concatenate(self._kernel_starts), [rows.column("start_ns").to_numpy() for _, rows in counted]
        if len(kernels) and at and np.isin(kernels, np.concatenate(at)).all():
            self.defects.add("serialised-by-counters", example=f"{len(kernels)} dispatches")
        for file in self._of("kernel"):
            if counters := counters_of_earlier(file):
                self.defects.add("serialised-by-counters", example=file.name)
                yield self._summed(file, self._counted_by_earlier(file, counters))

    def _counted(self, file: Path) -> Iterator[Iterable[tuple[Any, Any, Any, int, str]]]:
        """Yield batches of dispatches, counters, kernels, starts and values as texts."""
        for batch in self._batches(file):
            columns = ("dispatch_id", "counter_name", "kernel_name")
            start = integers(self._numbers(batch, "start_timestamp", file))
            self.defects.add("no-times", int((start <= 0).sum()), file.name)
            starts = start.tolist()
            texts = [batch.column(name).to_pylist() if name in batch.schema.names else starts for name in columns]
            yield zip(*texts, starts, batch.column("counter_value").to_pylist(), strict=True)

    def _counted_by_earlier(
        self, file: Path, counters: Mapping[str, str]
    ) -> Iterator[Iterable[tuple[Any, Any, Any, int, str]]]:
        for batch in self._batches(file):
            starts = integers(numbers(batch, "start_timestamp")).tolist()
            dispatches = batch.column("dispatch_id").to_pylist() if "dispatch_id" in batch.schema.names else starts
            of_rows = list(zip(dispatches, batch.column("kernel_name").to_pylist(), starts, strict=True))
            for column, name in counters.items():
                values = zip(of_rows, map(str, batch.column(column).to_pylist()), strict=True)
                yield [(dispatch, name, kernel, start, value) for (dispatch, kernel, start), value in values if value]

    def _summed(self, file: Path, batches: Iterable[Iterable[tuple[Any, Any, Any, int, str]]]) -> tuple[str, pa.Table]:
        """Return the values of counters: several of one dispatch are parts of one."""
        sums: dict[tuple[str, str, str, int], float] = {}
        for dispatch, counter, kernel, start, value in chain.from_iterable(batches):
            key = (str(dispatch), str(counter), str(kernel), start)
            try:
                sums[key] = sums.get(key, 0.0) + float(value)
            except ValueError:
                self.defects.add("mixed-types", example=f"{file.name}: {value[:80]}")
        timed = {key: value for key, value in sums.items() if key[3] > 0}
        columns = {
            "event_id": self._ids(len(timed)),
            "name": pa.array([counter for _, counter, _, _ in timed], pa.string()),
            "series": pa.array([kernel for _, _, kernel, _ in timed], pa.string()),
            "start_ns": pa.array([start for *_, start in timed], pa.int64()),
            "value": pa.array(list(timed.values()), pa.float64()),
        }
        return "counters", pa.table(columns)
