"""Writes a simulated run as the database that rocprofv3 writes: rocpd, schema 3.0.2."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError
from tracesim.catalogue.recording import MAIN_THREAD, OVERHEAD_THREAD, GpuOp, HostSlice, Recording
from tracesim.scenario.scenario import Scenario
from tracesim.writers.events import queued_before, recorded_ops, written_stream
from tracesim.writers.nsys_rows import Strings, marker_text

Row = dict[str, Any]
_SCHEMA = Path(__file__).with_name("rocpd_schema.sql")
_GUID = "0000cffb-c705-7dba-a6bc-8787feeb5e5b"
_SUFFIX = "_" + _GUID.replace("-", "_")
_NODE = 1
# The machine has run for so long; its two processors come before its GPUs.
BOOTED_NS = 3_000_000_000_000_000
_PROCESSORS = 2
_COPIES = {"HtoD": "HOST_TO_DEVICE", "DtoH": "DEVICE_TO_HOST", "DtoD": "DEVICE_TO_DEVICE", "PtoP": "DEVICE_TO_DEVICE"}
_FILL = "__amd_rocclr_fillBufferAligned"


def write_rocpd(
    path: Path, scenario: Scenario, recording: Recording, seed: int, *, version: str = "3.0.2", suffix: str = _SUFFIX
) -> Path:
    """Write a database; operators and annotations become ranges of ROCTX, and memsets kernels of HIP.

    Python frames, allocator events and synchronisation records have no place in it.
    """
    if scenario.device.vendor != "amd":
        raise TraceAnalyzerError("rocprofv3 records AMD devices only", "scenario", "add `device: MI300X`")
    rows = _DatabaseRows(scenario, recording, seed).tables()
    rows["metadata"] = [
        {"tag": tag, "value": value}
        for tag, value in (("schema_version", version), ("uuid", suffix), ("guid", suffix.strip("_").replace("_", "-")))
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_SCHEMA.read_text(encoding="utf-8").replace("{suffix}", suffix))
        for table, listed in rows.items():
            for row in listed:
                names = ", ".join(f'"{name}"' for name in row)
                marks = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO rocpd_{table}{suffix} ({names}) VALUES ({marks})", list(row.values()))
        connection.commit()
    return path


class _DatabaseRows:
    """One run's rows, by table."""

    def __init__(self, scenario: Scenario, recording: Recording, seed: int) -> None:
        self._scenario = scenario
        self._recording = recording
        self._ops = recorded_ops(scenario, recording, seed)
        self._hidden = queued_before(scenario, recording)
        self._strings = Strings()
        self._kernels: dict[str, Row] = {}
        self._tables: dict[str, list[Row]] = {}
        self._gpu_count = 1
        # Stack ids count calls; ranges are numbered behind them.
        self._last_stack = max((taken.correlation or 0 for taken in recording.slices), default=0)

    def tables(self) -> dict[str, list[Row]]:
        """Return every table that has rows."""
        self._describe()
        for taken in self._recording.slices:
            self._add_slice(taken)
        for op in self._ops:
            self._add_op(op)
        self._tables["info_kernel_symbol"] = list(self._kernels.values())
        self._tables["string"] = [{"id": number, "string": text} for text, number in self._strings.ids.items()]
        return self._tables

    def _put(self, table: str, row: Row) -> None:
        self._tables.setdefault(table, []).append(row)

    def _describe(self) -> None:
        conditions, device = self._scenario.conditions, self._scenario.device
        environment: dict[str, str] = {"HOME": "/root"}
        if conditions.world_size > 1:
            environment |= {"RANK": str(conditions.rank), "WORLD_SIZE": str(conditions.world_size)}
        where = {"nid": _NODE, "pid": MAIN_THREAD}
        self._put("info_node", {"id": _NODE, "machine_id": "machine0", "system_name": "Linux", "hostname": "host0"})
        process = {"id": MAIN_THREAD, **where, "ppid": 1, "command": "python train.py"}
        self._put("info_process", process | {"environment": json.dumps(environment)})
        for number in range(_PROCESSORS):
            self._put("info_agent", {"id": number, **where, "type": "CPU", "type_index": number, "name": "CPU"})
        facts = {
            "cu_count": device.sm_count,
            "wave_front_size": device.warp_size,
            "max_waves_per_cu": device.max_threads_per_sm // device.warp_size,
            "gfx_target_version": device.compute_major * 10_000 + device.compute_minor * 100,
            "mem_banks": [{"size_in_bytes": device.memory_bytes}],
        }
        # Copies from one GPU to another name both.
        has_peers = any(op.copy is not None and op.copy.copy_kind == "PtoP" for op in self._ops)
        self._gpu_count = max(conditions.device_count, 2 if has_peers else 1)
        for number in range(self._gpu_count):
            agent = {"id": _PROCESSORS + number, **where, "type": "GPU", "type_index": number}
            self._put("info_agent", agent | {"product_name": device.name, "extdata": json.dumps(facts)})
        threads = sorted({taken.thread for taken in self._recording.slices} - {OVERHEAD_THREAD})
        for thread in threads:
            self._put("info_thread", {"id": thread, **where, "tid": thread})

    def _event(self, category: str, stack: int, said: Mapping[str, str] | None = None) -> int:
        number = len(self._tables.get("event", ())) + 1
        row = {"id": number, "category_id": self._strings(category), "stack_id": stack}
        self._put("event", row | {"extdata": json.dumps(said) if said else "{}"})
        return number

    def _add_slice(self, taken: HostSlice) -> None:
        where = {"nid": _NODE, "pid": MAIN_THREAD, "tid": taken.thread}
        times = {"start": taken.start_ns + BOOTED_NS, "end": taken.end_ns + BOOTED_NS}
        if taken.category == "runtime" and taken.correlation not in self._hidden:
            stack = taken.correlation or 0
            event = self._event("HIP_RUNTIME_API_EXT", stack)
            self._put("region", {**where, **times, "name_id": self._strings(taken.name), "event_id": event})
        elif taken.category in ("cpu_op", "annotation") or taken.name == "Python GC":
            self._last_stack += 1
            event = self._event("MARKER_CORE_RANGE_API", self._last_stack, {"message": marker_text(taken)})
            self._put("region", {**where, **times, "name_id": self._strings("roctxThreadRangeA"), "event_id": event})

    def _add_op(self, op: GpuOp) -> None:
        where = {"nid": _NODE, "pid": MAIN_THREAD, "tid": MAIN_THREAD}
        times = {"start": op.start_ns + BOOTED_NS, "end": op.end_ns + BOOTED_NS}
        lane = {"queue_id": 1, "stream_id": written_stream(op.stream, self._scenario.device)}
        agent = _PROCESSORS + op.device
        if op.copy is not None:
            kind = op.copy.copy_kind
            row = {**where, **times, **lane, "size": op.size_bytes, "queue_id": None}
            row["name_id"] = self._strings(f"MEMORY_COPY_{_COPIES[kind]}")
            peer = _PROCESSORS + (op.device + 1) % self._gpu_count
            row["src_agent_id"] = 0 if kind == "HtoD" else peer if kind == "PtoP" else agent
            row["dst_agent_id"] = 0 if kind == "DtoH" else agent
            self._put("memory_copy", row | {"event_id": self._event("MEMORY_COPY", op.correlation)})
            return
        kernel = op.kernel
        row = {**where, **times, **lane, "agent_id": agent, "dispatch_id": op.index + 1}
        row["kernel_id"] = self._kernel_id(_FILL if kernel is None else kernel.name, op)
        block = (256, 1, 1) if kernel is None else kernel.block
        grid = (1, 1, 1) if kernel is None else kernel.grid
        for axis, groups, size in zip("xyz", grid, block, strict=True):
            row |= {f"workgroup_size_{axis}": size, f"grid_size_{axis}": groups * size}
        row |= {"group_segment_size": 0 if kernel is None else kernel.shared_memory_bytes, "private_segment_size": 0}
        if op.graph_id is not None:
            row |= {"graph_exec_id": op.graph_id, "graph_node_id": (op.graph_node_id or 0) + 1}
        self._put("kernel_dispatch", row | {"event_id": self._event("KERNEL_DISPATCH", op.correlation)})

    def _kernel_id(self, name: str, op: GpuOp) -> int:
        registers = 0 if op.kernel is None else op.kernel.registers_per_thread
        row = {"nid": _NODE, "pid": MAIN_THREAD, "kernel_name": f"{name}.kd", "display_name": name}
        row |= {"id": len(self._kernels) + 1, "arch_vgpr_count": registers}
        number: int = self._kernels.setdefault(name, row)["id"]
        return number
