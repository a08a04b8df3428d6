"""Writes a simulated run as Kineto JSON, in the layouts that PyTorch has written over the years."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from traceanalyzer.errors import TraceAnalyzerError
from tracesim.catalogue.devices import Device
from tracesim.catalogue.keys import checked_choice
from tracesim.catalogue.recording import Recording
from tracesim.scenario.scenario import Scenario
from tracesim.writers.events import TraceEvent, trace_events

Dialect = Literal["2021", "2024", "2025", "rocm"]

# Kineto's clock base: a multiple of a quarter of a year.
BASE_NS = 1_775_078_550_000_000_000
# The simulated run begins some days after it, at a whole microsecond.
BEGIN_NS = BASE_NS + 1_234_567_890_000_000

_CATEGORIES_2021 = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
    "Trace": "Trace",
    "ac2g": "async",
}


def begin_ns(scenario: Scenario) -> int:
    """Return the absolute time of virtual time 0, the scenario's clock offset included."""
    return BEGIN_NS + round(scenario.conditions.clock_offset_us * 1000)


def write_kineto(path: Path, scenario: Scenario, recording: Recording, seed: int, dialect: Dialect) -> Path:
    """Write a trace file, gzipped where the name ends in .gz, cut short where the scenario says so."""
    checked_choice(dialect, get_args(Dialect), "dialect")
    if dialect == "rocm" and scenario.device.vendor != "amd":
        raise TraceAnalyzerError("the rocm dialect needs an AMD device", "scenario", "add `device: MI300X`")
    events = trace_events(scenario, recording, seed)
    data = "".join(_document(scenario, events, dialect)).encode()
    if scenario.conditions.truncate:
        data = data[: kept_bytes(len(data), scenario)]
    if path.suffix == ".gz":
        # No time stamp and no name in the header: the same run gives the same bytes.
        data = gzip.compress(data, compresslevel=6, mtime=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def kept_bytes(size_bytes: int, scenario: Scenario) -> int:
    """Return how many bytes of the whole file are written."""
    return int(size_bytes * (1 - scenario.conditions.truncate))


def readable_events(scenario: Scenario, events: list[TraceEvent]) -> tuple[list[TraceEvent], int]:
    """Return the events that lie whole in the written file (2025 dialect), and its size; 0 for a file cut nowhere,
    which need not be spelled out to know its events."""
    if not scenario.conditions.truncate:
        return events, 0
    chunks = list(_document(scenario, events, "2025"))
    kept = kept_bytes(sum(len(chunk.encode()) for chunk in chunks), scenario)
    end, count = len(chunks[0].encode()), 0
    for chunk in chunks[1 : len(events) + 1]:
        # The comma and line end after an event are not needed to read it.
        end += len(chunk.rstrip(",\n").encode())
        if end > kept:
            break
        end += len(chunk) - len(chunk.rstrip(",\n"))
        count += 1
    return events[:count], kept


def _document(scenario: Scenario, events: list[TraceEvent], dialect: Dialect) -> Iterator[str]:
    """Yield the head, one chunk an event, and the tail."""
    now = "baseTimeNanoseconds" if dialect in ("2025", "rocm") else None
    head = {"schemaVersion": "1", "deviceProperties": _device_properties(scenario)}
    tail = {"traceName": '"simulated.json"'}
    if dialect != "2021":
        head.update(_metadata(scenario))
    if now:
        head["displayTimeUnit"] = '"ms"'
        head[now] = str(BASE_NS)
    elif dialect == "2024":
        tail["displayTimeUnit"] = '"ms"'
    else:
        tail = {}
    yield "\n{\n" + "".join(f'  "{key}": {value},\n' for key, value in head.items()) + '  "traceEvents": [\n'
    written = [event for event in events if dialect != "2021" or _was_written_2021(event)]
    epoch_ns = begin_ns(scenario) - (BASE_NS if now else 0)
    for index, event in enumerate(written):
        body = _event_2021(event, epoch_ns) if dialect == "2021" else _event(event, epoch_ns)
        yield f"  {{\n{body}\n  }}{',' if index + 1 < len(written) else ''}\n"
    yield "  ]" + "".join(f',\n  "{key}": {value}' for key, value in tail.items()) + ("\n}" if tail else "\n}\n")


def metadata_values(scenario: Scenario) -> dict[str, str]:
    """Return the top-level keys of the 2025 dialect and their JSON text, `traceEvents` left out."""
    return {
        "schemaVersion": "1",
        "deviceProperties": _device_properties(scenario),
        **_metadata(scenario),
        "displayTimeUnit": '"ms"',
        "baseTimeNanoseconds": str(BASE_NS),
        "traceName": '"simulated.json"',
    }


def _metadata(scenario: Scenario) -> dict[str, str]:
    conditions = scenario.conditions
    if scenario.device.vendor == "amd":
        metadata = {"roctracer_version": "4.1", "hip_runtime_version": "60443483", "hip_driver_version": "60443483"}
    else:
        metadata = {"cupti_version": "26", "cuda_runtime_version": "12080", "cuda_driver_version": "12080"}
    for key, recorded in (
        ("record_shapes", conditions.shapes),
        ("with_stack", conditions.stacks),
        ("profile_memory", conditions.memory),
    ):
        if recorded:
            metadata[key] = "1"
    if conditions.world_size > 1:
        of_rank = [group for group in scenario.groups if conditions.rank in group.ranks]
        config = [
            {
                "pg_name": group.name,
                "pg_desc": group.description,
                "backend_config": "cuda:nccl",
                "pg_size": len(group.ranks),
                "ranks": list(group.ranks),
            }
            for group in of_rank
        ]
        metadata["distributedInfo"] = json.dumps(
            {
                "backend": "nccl",
                "rank": conditions.rank,
                "world_size": conditions.world_size,
                "pg_count": len(config),
                "pg_config": config,
                "nccl_version": "2.26.2",
            }
        )
    if conditions.warning:
        metadata["WARNING"] = json.dumps([conditions.warning])
    metadata["host_name"] = '"simulator"'
    metadata["trace_id"] = '"00000000000000000000000000000000"'
    return metadata


def _device_properties(scenario: Scenario) -> str:
    rows = (_device_property(scenario.device, number) for number in range(scenario.conditions.device_count))
    return f"[\n    {', '.join(rows)}\n  ]"


def _device_property(device: Device, number: int) -> str:
    return (
        f'{{\n      "id": {number}, "name": {json.dumps(device.name)}, "totalGlobalMem": {device.memory_bytes},\n'
        f'      "computeMajor": {device.compute_major}, "computeMinor": {device.compute_minor},\n'
        f'      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": {device.max_threads_per_sm},\n'
        f'      "regsPerBlock": 65536, "warpSize": {device.warp_size},\n'
        f'      "sharedMemPerBlock": {device.shared_memory_per_block_bytes}, "numSms": {device.sm_count}\n    }}'
    )


def _us(time_ns: int) -> str:
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def _event(event: TraceEvent, epoch_ns: int) -> str:
    """Return the lines of one event as Kineto has laid them out since 2024."""
    begin = _us(event.start_ns + epoch_ns)
    where = f'"pid": {json.dumps(event.pid)}, "tid": {json.dumps(event.tid)}'
    name = json.dumps(event.name, ensure_ascii=False)
    if event.phase == "M":
        return f'    "name": {name}, "ph": "M", "ts": {begin}, {where},\n{_args(event.args)}'
    if event.phase in "sf":
        end = ', "bp": "e"' if event.phase == "f" else ""
        return (
            f'    "ph": "{event.phase}", "id": {event.flow_id}, {where}, "ts": {begin},\n'
            f'    "cat": "{event.category}", "name": {name}{end}'
        )
    if event.phase == "i" and event.category is None:
        return f'    "name": {name}, "ph": "i", "s": "g",\n    {where}, "ts": {begin}'
    if event.phase == "i":
        return (
            f'    "ph": "i", "cat": "{event.category}", "s": "t", "name": {name},\n    {where},\n'
            f'    "ts": {begin},\n{_args(event.args)}'
        )
    args = ",\n" + _args(event.args) if event.args else ""
    return (
        f'    "ph": "X", "cat": "{event.category}", "name": {name}, {where},\n'
        f'    "ts": {begin}, "dur": {_us(event.dur_ns or 0)}{args}'
    )


def _args(args: Mapping[str, Any]) -> str:
    return f'    "args": {{\n      {json.dumps(args)[1:-1]}\n    }}'


def _was_written_2021(event: TraceEvent) -> bool:
    """Return whether Kineto of 2021 recorded this kind of event."""
    if event.phase == "M":
        return event.name in ("process_name", "process_labels", "thread_name") and event.pid != "Spans"
    return event.phase == "i" or event.category in _CATEGORIES_2021


def _event_2021(event: TraceEvent, epoch_ns: int) -> str:
    """Return the lines of one event as Kineto laid them out in 2021: whole microseconds, threads as text."""
    start_us = (event.start_ns + epoch_ns) // 1000
    tid = f"stream {event.tid}" if event.pid == 0 and event.phase != "M" else str(event.tid)
    if event.phase == "M":
        return (
            f'    "name": "{event.name}", "ph": "M", "ts": {start_us}, "pid": {event.pid}, '
            f'"tid": {json.dumps(str(event.tid)) if event.name == "thread_name" else 0},\n{_args(event.args)}'
        )
    if event.phase in "sf":
        shown = json.dumps(tid) if event.pid == 0 else event.tid
        end = ', "bp": "e"' if event.phase == "f" else ""
        return (
            f'    "ph": "{event.phase}", "id": {event.flow_id}, "pid": {event.pid}, "tid": {shown}, "ts": {start_us},\n'
            f'    "cat": "async", "name": "launch"{end}'
        )
    pid = '"Traces"' if event.pid == "Spans" else json.dumps(event.pid)
    if event.phase == "i":
        scope = "g" if event.category is None else "t"
        args = ",\n" + _args(_only(event.args, ("Device Type", "Device Id", "Bytes"))) if event.args else ""
        shown = json.dumps(event.tid)
        return (
            f'    "name": "{event.name}", "ph": "i", "s": "{scope}",\n'
            f'    "pid": {pid}, "tid": {shown}, "ts": {start_us}{args}'
        )
    end_us = (event.start_ns + epoch_ns + (event.dur_ns or 0)) // 1000
    return (
        f'    "ph": "X", "cat": "{_CATEGORIES_2021[event.category or "Trace"]}", \n'
        f'    "name": {json.dumps(event.name)}, "pid": {pid}, "tid": {json.dumps(tid)},\n'
        f'    "ts": {start_us}, "dur": {end_us - start_us},\n{_args(_args_2021(event))}'
    )


def _only(args: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: args[key] for key in keys if key in args}


def _args_2021(event: TraceEvent) -> dict[str, Any]:
    args = {key: value for key, value in event.args.items() if key not in ("Ev Idx", "Record function id")}
    if event.category in ("cpu_op", "user_annotation"):
        fields = {"Device": event.pid, "External id": args.pop("External id", 0)}
        return {**fields, "Trace name": "PyTorch Profiler", "Trace iteration": 0, **args}
    if "External id" in args or event.category == "cuda_runtime":
        args["external id"] = args.pop("External id", 0)
    return args
