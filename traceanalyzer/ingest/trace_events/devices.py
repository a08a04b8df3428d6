"""The devices of a trace-event file: what is written of them, and whether the times of their work can be.

Parts of a trace lose records that are far off or repeated, and get times that other records prove.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from traceanalyzer.ingest.device_check import (
    BRIEF_SILENCE_NS,
    CLOCK_NS,
    CORRECTED,
    FEW,
    FEW_SHARE,
    MOST_FAR,
    Findings,
    Slot,
    check_device_records,
    recording_of,
    silence_ns,
)
from traceanalyzer.ingest.nesting import FILE_BITS
from traceanalyzer.ingest.trace_events.chunks import PART_OPTIONS, sql
from traceanalyzer.ingest.trace_events.losses import Losses

# Rows of devices besides their work: annotations drawn on them, synchronisations, the ends of launches.
_DEVICE_ROWS = (
    "class = 'sync' OR category = 'gpu_annotation' OR (phase = 'f' AND raw_category IN ('ac2g', 'async_cpu_to_gpu'))"
)

_KEPT = "start_ns BETWEEN $first AND $last OR start_ns = 0 OR start_ns IS NULL"

# A few slices of the host may be all that a program marks; work of devices comes in numbers.
_LEAST_COUNT = {"host": 50, "gpu": 10}

# Calls without a time that can be, and those made after their work had started, by clocks that agree else. Where they
# are one in twenty or more, it is the ids that tell nothing.
_MISPLACED_CALLS = f"""
WITH placed AS (
    SELECT
        call_id, call_name,
        coalesce(call_start_ns > start_ns - coalesce(shift_ns, 0) + {CLOCK_NS}, TRUE) AS is_misplaced
    FROM device_work LEFT JOIN device_shifts ON shifted = device
    WHERE call_id IS NOT NULL
)
SELECT call_id, call_name FROM placed
WHERE is_misplaced
    AND (SELECT count(*) FILTER (WHERE is_misplaced) <= greatest({FEW}, {FEW_SHARE} * count(*)) FROM placed)
ORDER BY call_id
"""
_ANY_MISPLACED = f"""
SELECT count(*) FROM device_work WHERE call_id IS NOT NULL AND coalesce(call_start_ns > start_ns + {CLOCK_NS}, TRUE)
"""

# What records of one event have alike, with the id if they have one; shorter work may look so where times are rounded.
_RECORD = {
    "gpu": "track_pid, device, stream, start_ns, dur_ns, name",
    "host": "pid, tid, start_ns, dur_ns, category, name, external_id, frame_id",
}
_ANY_REPEATED = """
SELECT count(*) FILTER (has_id) > count(DISTINCT record) FILTER (has_id)
    OR coalesce(bool_or(is_call_repeated), FALSE)
    OR count(*) FILTER (NOT has_id) > 1.1 * count(DISTINCT record) FILTER (NOT has_id)
FROM (SELECT
        hash(lane, start_ns, end_ns, name, correlation) AS record, coalesce(correlation > 0, FALSE) AS has_id,
        is_call_repeated
    FROM device_work WHERE end_ns > start_ns + 1000)
"""
# Work without a stream may look so; a thread makes no call twice at one time.
_ANY_REPEATED_CALL = """
SELECT count(*) > count(DISTINCT hash(pid, tid, start_ns, dur_ns, name, correlation)) FROM read_parquet($host)
WHERE category IN ('runtime', 'driver') AND correlation > 0 AND EXISTS (FROM read_parquet($gpu) WHERE stream IS NULL)
"""

# No two calls of operators have one id. Files that are read together are asked one by one.
_ANY_REPEATED_OPERATOR = f"""
SELECT coalesce(bool_or(call_count > 1.1 * unlike_count), FALSE)
FROM (
    SELECT count(*) AS call_count, count(DISTINCT hash(pid, tid, start_ns, dur_ns, name, external_id)) AS unlike_count
    FROM read_parquet($host)
    WHERE category = 'cpu_op' AND external_id > 0
    GROUP BY event_id >> {FILE_BITS}
)
"""

Rows = Callable[[str], list[tuple[Any, ...]]]


def leave_out_far_events(database: duckdb.DuckDBPyConnection, rows: Rows, stage: Path, losses: Losses) -> bool:
    """Rewrite the parts of a trace without slices and device work that lie far outside; return whether any did."""
    left_out = False
    for part, slots in _slots(rows).items():
        span = recording_of(slots, least_count=_LEAST_COUNT[part], few_silence_ns=BRIEF_SILENCE_NS)
        if span is None or span == _all_of(slots):
            continue
        for count, example in _keep(database, stage, part, span):
            losses.add("far-timestamp", None, example, count)
            left_out = True
    return left_out


def leave_out_far_marks(
    database: duckdb.DuckDBPyConnection, rows: Rows, stage: Path, losses: Losses, *, changed: bool
) -> bool:
    """Rewrite the other events of a trace without those far outside of all slices and work; return whether any were.

    Where the others were `changed`, they are marks of the profiler; else a few of them are damaged.
    """
    spans = [_all_of(slots) for slots in _slots(rows).values()]
    if not spans:
        return False
    margin_ns = silence_ns(max(last for _, last in spans) - min(first for first, _ in spans))
    around = min(first for first, _ in spans) - margin_ns, max(last for _, last in spans) + margin_ns
    if changed:
        return bool(list(_keep(database, stage, "other", around)))
    files = [str(path) for path in _files(stage, "other")]
    if not files or not 0 < _far_count(database, files, around) <= MOST_FAR:
        return False
    for count, example in _keep(database, stage, "other", around):
        losses.add("far-timestamp", None, example, count)
    return True


def leave_out_lost_devices(database: duckdb.DuckDBPyConnection, stage: Path, losses: Losses) -> bool:
    """Rewrite the GPU work of a trace without what names no possible device; return whether there was any.

    Where no work names a device, all of it is that of one.
    """
    files = [str(path) for path in _files(stage, "gpu")]
    lost, known = database.execute(
        "SELECT count(*) FILTER (WHERE is_device_lost), count(device) FROM read_parquet($files)", {"files": files}
    ).fetchall()[0]
    if not lost or not known:
        return False
    for path in _files(stage, "gpu"):
        _rewrite(database, path, "SELECT * FROM read_parquet($path) WHERE NOT is_device_lost")
    losses.add("device-lost", None, count=lost)
    return True


def end_overlong_steps(database: duckdb.DuckDBPyConnection, stage: Path, losses: Losses) -> bool:
    """Rewrite the slices of a trace with ends of steps whose durations are damaged; return whether there were any."""
    files = _files(stage, "host")
    values = {"files": [str(path) for path in files]}
    found = database.execute(sql("overlong_steps"), values).fetchall() if files else []
    if not found:
        return False
    _, name, recorded_ns, _ = max(found, key=lambda row: row[2])
    losses.add("overlong-step", None, f"{recorded_ns / 1e6:,.3f} ms of {name}", len(found))
    ids, ends = [row[0] for row in found], [max(row[3], 0) for row in found]
    for path in files:
        ended = (
            "SELECT part.* REPLACE (coalesce($ends[list_position($ids, event_id)], dur_ns) AS dur_ns) "
            "FROM read_parquet($path) AS part"
        )
        _rewrite(database, path, ended, {"path": str(path), "ids": ids, "ends": ends})
    return True


def leave_out_repeated_records(
    database: duckdb.DuckDBPyConnection, stage: Path, losses: Losses, *, has_work: bool
) -> bool:
    """Rewrite a trace without the records that its file holds twice; return whether there were any.

    A stream runs no launch twice at one time. Equal slices of the host may be real: beside such work, or such
    operators, they are not. Where the trace `has_work`, the table `device_work` is there.
    """
    paths = {part: [str(path) for path in _files(stage, part)] for part in _RECORD}
    queries: list[tuple[str, dict[str, list[str]]]] = [(_ANY_REPEATED, {})] if has_work else []
    if paths["host"]:
        of_host = {"host": paths["host"]}
        queries.append((_ANY_REPEATED_CALL, paths) if has_work else (_ANY_REPEATED_OPERATOR, of_host))
    if not any(database.execute(query, values).fetchall()[0][0] for query, values in queries):
        return False
    for part, of_one in _RECORD.items():
        repeated = (
            "SELECT event_id, name FROM read_parquet($files) QUALIFY "
            f"row_number() OVER (PARTITION BY {of_one}, correlation ORDER BY event_id) > 1 OR correlation IS NULL "
            f"AND row_number() OVER (PARTITION BY {of_one} ORDER BY correlation IS NULL, event_id) > 1"
        )
        found = database.execute(repeated, {"files": paths[part]}).fetchall() if paths[part] else []
        if not found:
            continue
        for path in map(Path, paths[part]):
            left = "SELECT * FROM read_parquet($path) WHERE event_id NOT IN (SELECT unnest($ids))"
            _rewrite(database, path, left, {"path": str(path), "ids": [event_id for event_id, _ in found]})
        losses.add("repeated-record", None, min(name for _, name in found), len(found))
    return True


def _far_count(database: duckdb.DuckDBPyConnection, files: list[str], span: tuple[int, int]) -> int:
    values = {"files": files, "first": span[0], "last": span[1]}
    (row,) = database.execute(f"SELECT count(*) FROM read_parquet($files) WHERE NOT ({_KEPT})", values).fetchall()
    return int(row[0])


def _slots(rows: Rows) -> dict[str, list[Slot]]:
    slots: dict[str, list[Slot]] = defaultdict(list)
    for part, count, first_ns, last_ns in rows("slots"):
        slots[part].append(Slot(count, first_ns, last_ns))
    return slots


def _keep(
    database: duckdb.DuckDBPyConnection, stage: Path, part: str, span: tuple[int, int]
) -> Iterator[tuple[int, str | None]]:
    """Leave out what starts outside a span; give how many and an example, a file."""
    for path in _files(stage, part):
        values = {"path": str(path), "first": span[0], "last": span[1]}
        lost, example = database.execute(
            f"SELECT count(*), min(name) FROM read_parquet($path) WHERE NOT ({_KEPT})", values
        ).fetchall()[0]
        if lost:
            _rewrite(database, path, f"SELECT * FROM read_parquet($path) WHERE {_KEPT}", values)
            yield lost, example


def name_nameless_work(database: duckdb.DuckDBPyConnection, stage: Path, losses: Losses) -> bool:
    """Rewrite the work of a trace that has no name as what its call says that it is; return whether any had none.

    The table `device_work` is there.
    """
    if not database.execute("SELECT 1 FROM device_work WHERE coalesce(name, '') = '' LIMIT 1").fetchall():
        return False
    database.execute(sql("nameless_work"))
    (count, example), *_ = database.execute("SELECT count(*), min(work_name) FROM nameless_work").fetchall()
    for path in _files(stage, "gpu"):
        _rewrite(database, path, sql("named_work"))
    database.execute("DROP TABLE nameless_work")
    losses.add("nameless-work", None, f"read as {example}", count)
    return True


def check_times_of_devices(database: duckdb.DuckDBPyConnection, stage: Path, losses: Losses) -> bool:
    """Rewrite the parts of a trace with what the records of devices and launches prove; return whether any were wrong.

    The tables `device_work` and `device_waits` are there, and dropped.
    """
    found = check_device_records(database)
    for defect, (count, example) in found.defects.items():
        losses.add(defect, None, example, count)
    # Planning the search takes longer than the rows of most traces.
    if not found and not database.execute(_ANY_MISPLACED).fetchall()[0][0]:
        return False
    with found.corrections(database):
        misplaced = [] if "clocks-contradict" in found.defects else database.execute(_MISPLACED_CALLS).fetchall()
        if misplaced:
            calls = {"calls": [call for call, _ in misplaced]}
            for path in _files(stage, "host"):
                left = "SELECT * FROM read_parquet($path) WHERE event_id NOT IN (SELECT unnest($calls))"
                _rewrite(database, path, left, {"path": str(path), **calls})
            losses.add("misplaced-call", None, min(name for _, name in misplaced), len(misplaced))
        if found:
            _correct(database, stage, found)
    return bool(found or misplaced)


def _correct(database: duckdb.DuckDBPyConnection, stage: Path, found: Findings) -> None:
    for path in _files(stage, "gpu"):
        _rewrite(
            database,
            path,
            f"SELECT part.* REPLACE ({CORRECTED}) FROM read_parquet($path) AS part "
            "LEFT JOIN device_fixes ON op_id = event_id LEFT JOIN device_shifts ON shifted = coalesce(device, 0)",
        )
    for path in _files(stage, "other") if found.shifts_ns else ():
        _rewrite(
            database,
            path,
            "SELECT part.* REPLACE (start_ns - coalesce(shift_ns, 0) AS start_ns) FROM read_parquet($path) AS part "
            f"LEFT JOIN device_shifts ON shifted = TRY_CAST(pid AS INTEGER) AND ({_DEVICE_ROWS})",
        )


def _rewrite(
    database: duckdb.DuckDBPyConnection, path: Path, rows: str, values: Mapping[str, object] | None = None
) -> None:
    target = path.with_name(f"new-{path.name}")
    database.execute(
        f"COPY ({rows}) TO $target ({PART_OPTIONS})", {"path": str(path), "target": str(target), **(values or {})}
    )
    target.replace(path)


def _files(stage: Path, part: str) -> list[Path]:
    return sorted(stage.glob(f"{part}-*.parquet"))


def _all_of(slots: list[Slot]) -> tuple[int, int]:
    return min(slot.first_ns for slot in slots), max(slot.last_ns for slot in slots)


# How names of devices begin or read, in the order in which they are tried.
_VENDORS = (
    (re.compile(r"\b(amd|instinct|radeon|gfx\d)", re.IGNORECASE), "amd"),
    (re.compile(r"nvidia|tesla|geforce|quadro|rtx", re.IGNORECASE), "nvidia"),
    (re.compile(r"intel|data center gpu|arc\b", re.IGNORECASE), "intel"),
    (re.compile(r"^MTT\b|moore ?threads", re.IGNORECASE), "moore_threads"),
    (re.compile(r"^MLU\d|cambricon", re.IGNORECASE), "cambricon"),
)
# What recorders may call the identity of a device, and its place in its host.
_UUIDS = ("uuid", "UUID", "gpuUuid", "gpu_uuid")
_BUSES = ("pciBusId", "pci_bus_id", "busLocation", "busId", "bus_id")


def describe_devices(metadata: dict[str, Any], used: list[int], vendor: str | None) -> list[dict[str, Any]]:
    """Return the rows of the canonical table `devices`: all that the file describes, and all that work ran on.

    A device that no name describes is of the `vendor` whose calls or arguments the events have.

    ROCm describes the devices that the process sees, from 0 on, and numbers operations by the machine's devices. Where
    all described devices are of one kind, a device that has work and no description is of that kind, too.
    """
    listed = metadata.get("deviceProperties")
    described = dict(enumerate(listed)) if isinstance(listed, list) else {}
    described = {position: item for position, item in described.items() if isinstance(item, dict)}
    rows: dict[int, dict[str, Any]] = {}
    for position, properties in described.items():
        device = whole_number(properties.get("id"))
        row = _device(position if device is None else device, properties, metadata, vendor)
        rows[row["device"]] = row
    kinds = [{key: value for key, value in properties.items() if key != "id"} for properties in described.values()]
    kind = kinds[0] if kinds and all(other == kinds[0] for other in kinds) else {}
    if kind and used and rows.keys().isdisjoint(used) and len(used) == len(rows):
        rows = {}  # the same devices under other numbers
    for device in used:
        rows.setdefault(device, _device(device, kind, metadata, vendor))
    return [rows[device] for device in sorted(rows)]


def devices_run_in_order(metadata: dict[str, Any]) -> bool:
    """Return whether all described devices are of kinds on which no kernel begins before what is ahead of it ended."""
    return max((row["compute_major"] or 99 for row in describe_devices(metadata, [], None)), default=99) < 9


def _device(device: int, properties: dict[str, Any], metadata: dict[str, Any], vendor: str | None) -> dict[str, Any]:
    name = text_or_none(properties.get("name")) or ("TPU" if vendor == "google" else None)
    return {
        "device": device,
        "name": name,
        "vendor": _vendor(name, properties, metadata, vendor),
        "sm_count": whole_number(properties.get("numSms")),
        "memory_bytes": whole_number(properties.get("totalGlobalMem")),
        "compute_major": whole_number(properties.get("computeMajor")),
        "compute_minor": whole_number(properties.get("computeMinor")),
        "warp_size": whole_number(properties.get("warpSize")),
        "max_threads_per_sm": whole_number(properties.get("maxThreadsPerMultiprocessor")),
        "gpu": _identity(properties, metadata),
    }


def _identity(properties: dict[str, Any], metadata: dict[str, Any]) -> str | None:
    """Return which GPU a device is: its UUID, else its bus and host; None: not recorded."""
    uuid = next((text for key in _UUIDS if (text := text_or_none(properties.get(key)))), None)
    if uuid is not None:
        return uuid.lower().removeprefix("gpu-")
    bus = next((text for key in _BUSES if (text := text_or_none(properties.get(key)))), None)
    host = text_or_none(metadata.get("host_name") or metadata.get("hostname"))
    return None if bus is None or host is None else f"{bus.lower()} {host}"


def _vendor(name: str | None, properties: dict[str, Any], metadata: dict[str, Any], seen: str | None) -> str | None:
    if "runtimeMajorVersion" in properties:
        return "mtia"
    for pattern, vendor in _VENDORS:
        if name and pattern.search(name):
            return vendor
    if seen is not None:
        return seen
    if any(key.startswith(("hip_", "roctracer_", "rocprof")) for key in metadata):
        return "amd"
    if any(key.startswith(("cuda_", "cupti_")) for key in metadata) or properties.get("warpSize") == 32:
        return "nvidia"
    return None


def whole_number(value: object) -> int | None:
    """Return a number written as such or as text."""
    try:
        return None if value is None or isinstance(value, bool) else int(str(value))
    except ValueError:
        return None


def text_or_none(value: object) -> str | None:
    return value.encode(errors="replace").decode() if isinstance(value, str) and value else None
