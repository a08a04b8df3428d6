"""Writes a simulated run as the SQLite file that `nsys export` makes of a report."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import get_args

from traceanalyzer.errors import TraceAnalyzerError
from tracesim.catalogue import nsys_vocabulary as words
from tracesim.catalogue.keys import checked_choice
from tracesim.catalogue.nsys_vocabulary import GraphMode, NsysSchema
from tracesim.catalogue.recording import COMPUTE_STREAM, MAIN_THREAD, STREAMS_A_DEVICE, Recording
from tracesim.scenario.scenario import Scenario
from tracesim.writers.kineto import begin_ns
from tracesim.writers.nsys_rows import LEAD_NS, ExportedRows, Row

_SCHEMA = Path(__file__).with_name("nsys_schema.sql")
_LOST = "Not all CUDA events might have been collected."


def write_nsys(
    path: Path,
    scenario: Scenario,
    recording: Recording,
    seed: int,
    graph_mode: GraphMode = "node",
    schema: NsysSchema = "2026.2",
) -> Path:
    """Write an export; CUDA graphs kernel by kernel or as whole replays.

    PyTorch's operators become NVTX ranges, as under `emit_nvtx`; Python frames and allocator events have no place.
    """
    checked_choice(graph_mode, get_args(GraphMode), "graph_mode")
    checked_choice(schema, get_args(NsysSchema), "schema")
    if scenario.device.vendor != "nvidia":
        raise TraceAnalyzerError("nsys records NVIDIA devices only", "scenario", "add `device: H100`")
    version = words.VERSIONS[schema]
    rows = ExportedRows(scenario, recording, seed, version)
    tables: dict[str, list[Row]] = {**rows.tables(graph_mode), **_target_info(scenario, recording)}
    tables.update(_metadata(scenario, graph_mode, version))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        for name, columns in _columns().items():
            if tables.get(name):
                _fill(connection, name, columns, tables[name], version)
        for name, values in words.ENUMS.items():
            connection.execute(f"CREATE TABLE {name} (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)")
            connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", values)
        connection.commit()
    return path


@cache
def _columns() -> dict[str, tuple[tuple[str, str, bool], ...]]:
    """Return every table's columns in order: name, type with constraints, and whether it must have a value."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_SCHEMA.read_text(encoding="utf-8"))
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: tuple(
                (column, f"{kind}{' NOT NULL' if required else ''}{' PRIMARY KEY' if key else ''}", bool(required))
                for _, column, kind, required, _, key in connection.execute(f"PRAGMA table_info({name})")
            )
            for name in names
        }


def _fill(
    connection: sqlite3.Connection,
    name: str,
    columns: Iterable[tuple[str, str, bool]],
    rows: Iterable[Mapping[str, object]],
    version: words.Version,
) -> None:
    """Create a table with the columns that the version knew, and fill it; required values that are missing are 0."""
    unknown = version.unknown_columns.get(name, frozenset())
    kept = [column for column in columns if column[0] not in unknown]
    definition = ", ".join(f'"{column}" {kind}' for column, kind, _ in kept)
    connection.execute(f"CREATE TABLE {name} ({definition})")
    connection.executemany(
        f"INSERT INTO {name} VALUES ({', '.join('?' * len(kept))})",
        ([row.get(column, 0 if required else None) for column, _, required in kept] for row in rows),
    )


def _target_info(scenario: Scenario, recording: Recording) -> dict[str, list[Row]]:
    device = scenario.device
    session_ns = begin_ns(scenario) - LEAD_NS
    stop_ns = recording.end_ns + LEAD_NS
    numbers = range(scenario.conditions.device_count)
    gpu = {
        "name": device.name,
        "isDiscrete": 1,
        "totalMemory": device.memory_bytes,
        "smCount": device.sm_count,
        "threadsPerWarp": device.warp_size,
        "maxWarpsPerSm": device.max_threads_per_sm // device.warp_size,
        "computeMajor": device.compute_major,
        "computeMinor": device.compute_minor,
        "smMajor": device.compute_major,
        "smMinor": device.compute_minor,
    }
    context = {"nullStreamId": 7, "vmId": 1, "processId": MAIN_THREAD}
    streams = sorted({op.stream for op in recording.ops})
    diagnostics = []
    if scenario.conditions.drop_kernels:
        diagnostics = [{"timestamp": stop_ns, "severity": words.WARNING, "text": _LOST}]
    if scenario.conditions.warning:
        text = scenario.conditions.warning
        diagnostics.append({"timestamp": stop_ns, "severity": words.WARNING, "text": text})
    return {
        "TARGET_INFO_GPU": [
            {**gpu, "id": number, "cuDevice": number, "busLocation": f"0000:{number + 1:02x}:00.0"}
            for number in numbers
        ],
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": number, "cudaId": number, "pid": MAIN_THREAD} for number in numbers],
        "TARGET_INFO_CUDA_CONTEXT_INFO": [
            {**context, "deviceId": number, "contextId": number + 1} for number in numbers
        ],
        "TARGET_INFO_CUDA_STREAM": [_stream_row(stream) for stream in streams],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": session_ns, "systemClockNs": LEAD_NS}],
        "ANALYSIS_DETAILS": [{"globalVid": 1 << 48, "duration": stop_ns, "startTime": 0, "stopTime": stop_ns}],
        "DIAGNOSTIC_EVENT": diagnostics,
    }


def _stream_row(stream: int) -> Row:
    device, number = divmod(stream, STREAMS_A_DEVICE)
    where = {"vmId": 1, "processId": MAIN_THREAD, "contextId": device + 1}
    return {"streamId": number, **where, "flag": 1 if number == COMPUTE_STREAM else 2}


def _metadata(scenario: Scenario, graph_mode: GraphMode, version: words.Version) -> dict[str, list[Row]]:
    conditions = scenario.conditions
    capture = [
        ("CAPTURE_EVENT_TYPE", "NvtxEvents"),
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("CUDA_GRAPH_TRACE_OPTIONS:MODE", graph_mode.capitalize()),
        ("COLLECT_GPU_MEMORY_USAGE", "false"),
        ("PROCESS_0:COMMAND", "python"),
    ]
    if conditions.world_size > 1:
        for name, value in (("RANK", conditions.rank), ("WORLD_SIZE", conditions.world_size)):
            capture.append(("PROCESS_0:ENVIRONMENT_VARIABLE", f'{name}="{value}"'))
    major, minor, micro = version.schema.split(".")
    export = {
        "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
        "EXPORT_PRODUCT_VERSION": version.product,
        "EXPORT_SCHEMA_VERSION": version.schema,
        "EXPORT_SCHEMA_VERSION_MAJOR": major,
        "EXPORT_SCHEMA_VERSION_MINOR": minor,
        "EXPORT_SCHEMA_VERSION_MICRO": micro,
    }
    return {
        "META_DATA_CAPTURE": [{"name": name, "value": value} for name, value in capture],
        "META_DATA_EXPORT": [{"name": name, "value": value} for name, value in export.items()],
    }
