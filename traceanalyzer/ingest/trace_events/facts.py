"""The metadata of a JSON trace: the machine and the job.

Files of other recorders that write trace-event JSON: what their processes, lanes and arrows mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from msgspec import Struct
from msgspec.structs import asdict, replace

from traceanalyzer.ingest import Source
from traceanalyzer.ingest.trace_events.chunks import said_by_processes, sql
from traceanalyzer.ingest.trace_events.devices import text_or_none, whole_number
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.reader import Parts


class Recorder(Struct, frozen=True):
    """A recorder whose JSON needs words of its own.

    `arrow` begins the category of its arrows from calls to work. Where it `launches_later`, another thread may launch
    the work of an operator.
    """

    dialect: str | None  # its SQL file; None: its events have their kinds already
    recorder: str | None
    vendor: str | None
    is_it: Callable[[Collection[str]], bool]  # by the names of processes
    arrow: str = ""
    launches_later: bool = False
    framework: str | None = None  # of a program whose names show none
    device_process: str | None = None  # the names of processes that are devices, where other processes are real
    devices: tuple[int, ...] = ()  # those that have a process, also without work
    said: tuple[int | None, str | None] = (None, None)  # the rank and the host that names of processes say


def _any(pattern: str) -> Callable[[Collection[str]], bool]:
    known = re.compile(pattern)
    return lambda processes: any(known.search(name) for name in processes)


# Processes of XLA, which JAX and TensorFlow share.
_XLA_PROCESS = re.compile(r"(?:\S+ )?/(?:host|device):|Task Environment$")
XLA = Recorder("xla", None, None, lambda processes: bool(processes) and all(map(_XLA_PROCESS.match, processes)))
ROCPROF1 = Recorder(None, "rocprof", "amd", _any(r"^(\d+ )?CPU (HIP|HSA|KFD) API\b"), "DataFlow")
UNITRACE = Recorder("unitrace", "unitrace", "intel", _any(r"^(RANK \d+ )?DEVICE<"), "Flow_H2D")
_RPD_DEVICE = r"^GPU\d+$"
RECORDERS = (
    ROCPROF1,
    Recorder("rocprof2", "rocprof", "amd", lambda names: {"CPU", "GPU", "COPY", "HIPBLITKERNELS"} <= set(names)),
    Recorder("ascend", "torch_npu", "ascend", _any("^Ascend Hardware$"), "HostToDevice", launches_later=True),
    UNITRACE,
    Recorder(
        "tensorflow", "tensorflow", None, _any(r"/(device:)?[gG][pP][uU]:\d+(/\S+)? Compute$"), framework="tensorflow"
    ),
    Recorder("rpd", "rocprof", "amd", _any(_RPD_DEVICE), "api_op", device_process=_RPD_DEVICE),
    Recorder("paddle", "paddle", None, _any(r"^Deivce \d+ \(\w+\)$|^Process \d+ \(CPU\)$"), framework="paddle"),
    XLA,
)

# Its Perfetto traces as JSON have categories of their own, and need no rewriting.
ROCPROFV3 = Recorder(None, "rocprof", "amd", lambda names: False)
PROTON = Recorder("proton", "proton", None, lambda names: False, framework="pytorch")  # as Triton is for PyTorch
AUTOGRAD = Recorder("autograd", "kineto", None, lambda names: False, framework="pytorch")  # PyTorch's list of events

_NUMBERED_WORK = "SELECT 1 FROM read_parquet($gpu) WHERE correlation IS NOT NULL LIMIT 1"
_LANES = "CREATE TABLE lanes AS SELECT event_id, pid, tid, start_ns FROM read_parquet($gpu_events)"
# How Kineto calls the arrows from calls to work: of 2021, 2022, and since.
_LAUNCH_ARROWS = """
SELECT DISTINCT raw_category FROM read_parquet($other)
WHERE phase = 's' AND raw_category IN ('async', 'async_cpu_to_gpu', 'ac2g', 'async_cpu_to_mlu')
ORDER BY raw_category DESC LIMIT 1
"""


def find_recorder(database: duckdb.DuckDBPyConnection, files: Callable[[str], list[str]]) -> Recorder | None:
    """Return which of these recorders wrote the file; None: none of them. `files` are those of a part."""
    rows = database.execute(sql("dialects/processes"), {"other": files("other")}).fetchall()
    names = {name for (name,) in rows if name is not None}
    found = next((recorder for recorder in RECORDERS if recorder.is_it(names)), None)
    if found is not None or not (host := files("host")):
        return found
    shown = database.execute(sql("dialects/first_slices"), {"host": host}).fetchall()[0]
    by_unitrace, by_autograd, by_proton = shown
    if by_proton and names == {"Trace"}:
        return PROTON
    return UNITRACE if by_unitrace else AUTOGRAD if by_autograd else None


def recast(
    database: duckdb.DuckDBPyConnection,
    stage: Path,
    recorder: Recorder,
    files: Callable[[str], list[str]],
    args: list[str],
    losses: Losses,
) -> Recorder:
    """Rewrite the parts of host slices and GPU work as the recorder means them; `args` are files of arguments.

    Returns the recorder with what its events say about it.
    """
    known: dict[str, object] = {"args": args, **{part: files(part) for part in ("other", "host", "gpu_events", "gpu")}}

    def run(name: str, **more: object) -> None:
        for statement in duckdb.extract_statements(sql(f"dialects/{name}")):
            wanted = {key: value for key, value in (known | more).items() if key in statement.named_parameters}
            database.execute(statement, wanted)

    run("recast")
    if recorder.dialect == "xla":
        from traceanalyzer.ingest.trace_events.xla_json import describe_slices
        from traceanalyzer.ingest.xla.device import DERIVED_NAMES

        known["derived"] = DERIVED_NAMES.pattern
        run("xla_slices")
        found = describe_slices(database, args, files("gpu_events"), losses)
        recorder = replace(recorder, **asdict(found))
    if recorder.dialect is not None:
        run(recorder.dialect)
        names = [name or "" for (name,) in database.execute("SELECT process FROM process_names").fetchall()]
        recorder = replace(recorder, said=said_by_processes(names))
        for defect, count, example in database.execute(sql("dialects/lost"), {"host": known["host"]}).fetchall():
            losses.add(defect, None, example, count)
    run("apply")
    for part, table in (("host", "recast_host"), ("gpu", "recast_gpu")):
        _replace(database, stage, part, table, files(part))
    if recorder.dialect == "xla":
        database.table("recast_other").write_parquet(str(stage / "other-recast.parquet"))
    if recorder.arrow:
        whole = database.execute(sql("dialects/whole_us"), {"other": known["other"]}).fetchall()[0][0]
        run("arrows", host=files("host"), arrow=recorder.arrow, unit=1000 if whole else 1)
        for part, table in (("host", "recast_host"), ("gpu", "recast_gpu")):
            _replace(database, stage, part, table, files(part))
    for table in ("recast", "recast_host", "recast_gpu", "recast_other", "lanes", "process_names", "links"):
        database.execute(f"DROP TABLE IF EXISTS {table}")
    return recorder


def number_launches(database: duckdb.DuckDBPyConnection, stage: Path, files: Callable[[str], list[str]]) -> None:
    """Rewrite calls and their GPU work with numbers where none has a correlation id.

    What they have in common is an External id, or else an arrow from the one to the other.
    """
    known = {part: files(part) for part in ("host", "gpu", "gpu_events", "other")}
    if not (known["host"] and known["gpu"]) or database.execute(_NUMBERED_WORK, {"gpu": known["gpu"]}).fetchall():
        return

    def run(name: str, **more: object) -> None:
        for statement in duckdb.extract_statements(sql(name)):
            database.execute(statement, {key: (known | more)[key] for key in statement.named_parameters})

    run("launch_numbers")
    by_arrows = known["gpu_events"] and known["other"]
    if by_arrows and not database.execute("SELECT 1 FROM launch_numbers LIMIT 1").fetchall():
        for (arrow,) in database.execute(_LAUNCH_ARROWS, {"other": known["other"]}).fetchall():
            database.execute(_LANES, {"gpu_events": known["gpu_events"]})
            run("dialects/arrows", arrow=arrow, unit=1)
    for part in ("host", "gpu"):
        _replace(database, stage, part, f"recast_{part}", known[part])
    for table in ("launch_numbers", "recast_host", "recast_gpu", "lanes", "links"):
        database.execute(f"DROP TABLE IF EXISTS {table}")


def _replace(database: duckdb.DuckDBPyConnection, stage: Path, part: str, table: str, before: list[str]) -> None:
    """Write a table in place of a part's files."""
    target = stage / f"{part}-recast.parquet.new"
    database.table(table).write_parquet(str(target))
    for file in before:
        Path(file).unlink()
    target.rename(stage / f"{part}-recast.parquet")


_Holder = TypeVar("_Holder", dict[str, Any], list[Any])
# The numbers that describe a trace, its job and its devices, and the largest that the tables hold. The sum of a base
# time and the latest time of an event fits into 64 bits.
_TRACE_NUMBERS = {"baseTimeNanoseconds": 4 * 10**18}
_JOB_NUMBERS = dict.fromkeys(("rank", "world_size"), 2**31 - 1)
# torch.distributed says -1 of both where a process is in no group.
_LEAST = {"rank": 0, "world_size": 1}
_DEVICE_NUMBERS = {
    "totalGlobalMem": 2**63 - 1,
    **dict.fromkeys(("id", "numSms", "computeMajor", "computeMinor"), 2**31 - 1),
    **dict.fromkeys(("warpSize", "maxThreadsPerMultiprocessor"), 2**31 - 1),
}
# Names of spring 2021 for what a trace says of devices.
_RENAMED_DEVICE_KEYS = {
    "multiProcessorCount": "numSms",
    "major": "computeMajor",
    "minor": "computeMinor",
    "maxThreadsPerMultiProcessor": "maxThreadsPerMultiprocessor",
}
# The versions that a trace tells, by how its producer is described.
_VERSIONS = {
    "schemaVersion": "schema",
    "cupti_version": "CUPTI",
    "cuda_runtime_version": "CUDA",
    "hip_runtime_version": "HIP",
    "roctracer_version": "roctracer",
}
_OTHER_VERSIONS = ("cuda_driver_version", "hip_driver_version", "rocm_version", "pytorch_version", "torch_version")
# Top-level keys that Kineto alone writes.
_KINETO_KEYS = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "traceName"})
_ROCPROF_PROCESS = re.compile(r"(\d+ )?CPU (HIP|HSA|KFD) API\b")
_TENSORFLOW_PROCESS = re.compile(r"/\w+:.* (Compute|Tensors)$")


class Program(Struct, frozen=True):
    """What ran and what recorded it, as `traces.recorder` and `traces.framework` list them."""

    recorder: str | None
    framework: str | None
    processes: Sequence[str]
    may_be_pytorch: bool = True  # no other recorder's processes are there
    said: tuple[int | None, str | None] = (None, None)  # as Recorder.said


def is_of_pytorch(metadata: dict[str, Any], devices: Sequence[object], processes: Iterable[str]) -> bool:
    """Return whether PyTorch's profiler wrote the file: it has its keys, or devices and no other profiler's names."""
    others = any(_XLA_PROCESS.match(name) or _ROCPROF_PROCESS.match(name) for name in processes)
    return bool(_KINETO_KEYS & metadata.keys()) or (bool(devices) and not others)


def name_recorder(processes: Iterable[str], framework: str | None, *, by_pytorch: bool) -> str:
    """Return which profiler recorded the trace, by what it calls the processes; ONNX Runtime has its own."""
    if by_pytorch and framework != "onnxruntime":
        return "kineto"
    for process in processes:
        if _ROCPROF_PROCESS.match(process):
            return "rocprof"
        if _TENSORFLOW_PROCESS.match(process):
            return "tensorflow"
        if _XLA_PROCESS.match(process):
            return "jax" if framework == "jax" else "tensorflow"
    return "chrome"


def drop_unusable_values(metadata: dict[str, Any], losses: Losses) -> None:
    """Set the values that the tables of traces and devices cannot hold to None, and count them."""
    if isinstance(early := metadata.pop("computeProperties", None), list) and "deviceProperties" not in metadata:
        metadata["deviceProperties"] = [
            {_RENAMED_DEVICE_KEYS.get(key, key): value for key, value in device.items()}
            if isinstance(device, dict)
            else device
            for device in early
        ]
    _drop(metadata, _TRACE_NUMBERS, ("host_name", "hostname"), losses)
    for key in (*_VERSIONS, *_OTHER_VERSIONS):
        _keep(metadata, key, _is_version(metadata.get(key)), losses)
    _keep(metadata, "record_shapes", metadata.get("record_shapes") in (0, 1), losses)
    job = _held(metadata, "distributedInfo", dict, losses)
    if job is not None:
        _drop(job, _JOB_NUMBERS, ("backend",), losses)
        numbers = {key: whole_number(job.get(key)) for key in _LEAST}
        job |= {key: None for key, number in numbers.items() if number is not None and number < _LEAST[key]}
        _keep(job, "world_size", (numbers["rank"] or 0) < (numbers["world_size"] or 0), losses)
        groups = _held(job, "pg_config", list, losses)
        _count_others(groups, "pg_config", losses)
        for group in groups or ():
            if isinstance(group, dict):
                _keep(group, "ranks", _are_ranks(group.get("ranks")), losses)
                _keep(group, "pg_name", isinstance(group.get("pg_name"), str | int), losses)
    devices = _held(metadata, "deviceProperties", list, losses)
    _count_others(devices, "deviceProperties", losses)
    for device in devices or ():
        if isinstance(device, dict):
            _drop(device, _DEVICE_NUMBERS, ("name",), losses)


def _held(holder: dict[str, Any], key: str, kind: type[_Holder], losses: Losses) -> _Holder | None:
    """Return the object or list under a key; what is there instead of it is counted."""
    value = holder.get(key)
    if isinstance(value, kind):
        return value
    if value is not None:
        losses.add("bad-number", None, f"{key}: {value}")
    return None


def _count_others(listed: list[Any] | None, key: str, losses: Losses) -> None:
    """Count the items of a list of objects that are none."""
    for item in listed or ():
        if not isinstance(item, dict):
            losses.add("bad-number", None, f"{key}: {item}")


def _drop(holder: dict[str, Any], numbers: dict[str, int], texts: tuple[str, ...], losses: Losses) -> None:
    for key in (*numbers, *texts):
        value = holder.get(key)
        number = whole_number(value) if key in numbers else None
        readable = isinstance(value, str) if key in texts else number is not None and abs(number) <= numbers[key]
        _keep(holder, key, readable, losses)


def _keep(holder: dict[str, Any], key: str, readable: bool, losses: Losses) -> None:
    """Set a value that is there and cannot be read to None, and count it."""
    value = holder.get(key)
    if value is not None and not readable:
        losses.add("bad-number", None, f"{key}: {value}")
        holder[key] = None


def _is_version(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int | str) and not isinstance(value, bool)


def _are_ranks(value: object) -> bool:
    """Return whether a value is a list of ranks, or the text of one, which PyTorch shortens."""
    return isinstance(value, str) or (isinstance(value, list) and all(type(rank) is int for rank in value))


def describe_trace(
    path: Source,
    parts: Parts,
    devices: list[dict[str, Any]],
    span_ns: tuple[int | None, int | None],
    base_ns: int | None,
    recorded: dict[str, bool],
    program: Program,
) -> dict[str, object]:
    """Return the trace's row of the canonical table `traces`."""
    metadata = parts.document.metadata
    info = metadata.get("distributedInfo")
    job: dict[str, Any] = info if isinstance(info, dict) else {}
    rank = next((one for one in (parts.rank, whole_number(job.get("rank")), program.said[0]) if one is not None), None)
    vendors = {device["vendor"] for device in devices} - {None}
    return {
        "trace": path.name,
        "path": str(path),
        "format": "kineto"
        if program.may_be_pytorch and is_of_pytorch(metadata, devices, program.processes)
        else "chrome",
        "recorder": program.recorder,
        "framework": program.framework,
        "producer": _producer(metadata) if program.may_be_pytorch else None,
        "vendor": vendors.pop() if len(vendors) == 1 else None,
        "host": text_or_none(metadata.get("host_name") or metadata.get("hostname")) or program.said[1],
        "rank": rank,
        "rank_source": None if rank is None else "metadata",
        "world_size": whole_number(job.get("world_size")),
        "backend": text_or_none(job.get("backend")),
        "base_ns": base_ns,
        "first_ns": span_ns[0],
        "last_ns": span_ns[1],
        "size_bytes": path.stat().st_size,
        "event_count": parts.event_count,
        "truncated": parts.truncated,
        "has_shapes": recorded["shapes"] or metadata.get("record_shapes") == 1,
        "has_stacks": parts.has_stacks,
        "has_memory": recorded["memory"],
        "has_sync_events": recorded["syncs"],
    }


def _producer(metadata: dict[str, Any]) -> str | None:
    if not _KINETO_KEYS & metadata.keys():
        return None
    versions = [f"{label} {metadata[key]}" for key, label in _VERSIONS.items() if metadata.get(key) is not None]
    return ", ".join(["PyTorch profiler (Kineto)", *versions])
