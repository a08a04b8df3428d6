"""Rewrites after which a diagnosis must be the same: of PyTorch's traces as plain JSON, of Nsight exports in place."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Document = dict[str, Any]
Rewrite = Callable[[Document], Document]

OPERATIONS = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
DEVICE_ROWS = OPERATIONS | {"gpu_user_annotation", "cuda_sync"}
RUNTIME_CALLS = {"cuda_runtime", "cuda_driver", "Runtime", "hip_runtime"}
CORRELATIONS = ("correlation", "wait_on_cuda_event_record_corr_id")
NO_ID = {0, -1, 2**32 - 1}
SHIFTED_PIDS = 100_000_000  # added for each rank where ranks are merged under numbers alone
YEAR_US = 365 * 86_400 * 1e6


def read(path: Path) -> Document:
    """Return the trace in a file: an object, even where the file holds only the list of events."""
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, strict=False)
    return document if isinstance(document, dict) else {"traceEvents": document}


def write(document: Document, path: Path) -> Path:
    """Write a trace, compressed where the name says so."""
    data = json.dumps(document).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return path


def arguments(event: Event) -> dict[str, Any]:
    """Return what an event says of itself; nothing where that is no object."""
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def is_operation(event: Event) -> bool:
    """Tell whether an event is a kernel, a copy or a memset on a device."""
    return event.get("ph") == "X" and event.get("cat") in OPERATIONS


def _every(document: Document, change: Callable[[Event], Event]) -> Document:
    return {**document, "traceEvents": [change(event) for event in document["traceEvents"]]}


def with_graph_id_zero(document: Document) -> Document:
    """Give every operation the id 0 for its graph, as Kineto writes it since February 2026: it is in none."""

    def zero(event: Event) -> Event:
        if not is_operation(event) or "graph id" in arguments(event):
            return event
        return {**event, "args": {**arguments(event), "graph id": 0, "graph node id": 0}}

    return _every(document, zero)


def merged(documents: Sequence[Document], way: str) -> Document:
    """Return the ranks in one file, on the clock of the first.

    `labels`: every pid names its rank, as SGLang writes it. `processes`: processes are named by rank and have pids of
    their own, as tools for many ranks write them. `pids`: nothing but other pids. Ids stay as they are.
    """
    first = documents[0]
    base_ns = int(first.get("baseTimeNanoseconds", 0))
    events: list[Event] = []
    for rank, document in enumerate(documents):
        ahead_us = (int(document.get("baseTimeNanoseconds", 0)) - base_ns) / 1_000
        for event in document["traceEvents"]:
            moved = {**event, "pid": _merged_pid(event.get("pid"), rank, way)}
            if "ts" in event:
                moved["ts"] = event["ts"] + ahead_us
            events.append(moved)
        if way == "processes":
            events += _named_processes(document["traceEvents"], rank)
    properties = [model for document in documents for model in document.get("deviceProperties", ())]
    once = list({model.get("id"): model for model in properties}.values())
    return {**first, **({"deviceProperties": once} if once else {}), "traceEvents": events}


MERGES = ("labels", "processes", "pids")


def _merged_pid(pid: Any, rank: int, way: str) -> Any:
    if way == "labels":
        return f"[TP{rank:02}] {pid}"
    return pid + rank * SHIFTED_PIDS if isinstance(pid, int) else f"{pid} {rank}" if rank else pid


def _named_processes(events: Iterable[Event], rank: int) -> list[Event]:
    kinds: dict[Any, str] = {}
    for event in events:
        if event.get("ph") == "X" and isinstance(event.get("pid"), int):
            kinds[event["pid"]] = "GPU" if event.get("cat") in DEVICE_ROWS else kinds.get(event["pid"], "CPU")
    return [
        {
            "ph": "M",
            "name": "process_name",
            "pid": _merged_pid(pid, rank, "processes"),
            "tid": 0,
            "args": {"name": f"RANK {rank} - {kind}"},
        }
        for pid, kind in kinds.items()
    ]


# Names of the files of a run with as many ranks as wanted, none of which says which rank is which.
NAMES: Mapping[str, Callable[[int], str]] = {
    "seconds": lambda at: f"trace_{1_767_190_000 + 61 * at}.json.gz",
    "milliseconds": lambda at: f"trace.{1_767_190_000_123 + 9_001 * at}.json.gz",
    "handler": lambda at: f"node{7 + at}_{4_242 + 31 * at}.{1_767_190_000_123_456_789 + 77 * at}.pt.trace.json.gz",
    "dates": lambda at: f"2026-11-{14 + 3 * at:02}_10-3{at}.json.gz",
    "pids": lambda at: f"worker_{31_337 + 112 * at}.json.gz",
    "iterations": lambda at: f"iteration_{10 * (at + 1)}.json.gz",
    "batch sizes": lambda at: f"bs{16 << at}.json.gz",
}


def written_as(documents: Sequence[Document], folder: Path, names: str) -> Path:
    """Write the files of a run under other names and return their folder."""
    for at, document in enumerate(documents):
        write(document, folder / NAMES[names](at))
    return folder


def add_no_recordings(folder: Path, document: Document) -> list[str]:
    """Add files to a folder that are no recordings of its run; return their names."""
    whole = gzip.compress(json.dumps(document).encode(), 1)
    contents = {
        "rank0.json.gz.tmp": whole,
        "rank0.json.gz.part": whole[: len(whole) // 2],
        "rank0.json~": json.dumps(document).encode(),
        ".rank0.json.gz.swp": whole[:4_096],
        "memory_snapshot.json": json.dumps({"segments": [], "device_traces": [[]], "allocator_settings": {}}).encode(),
        "config.json": b'{"model_type": "llama", "hidden_size": 4096}',
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return list(contents)


def add_captures(folder: Path, count: int = 2) -> list[str]:
    """Add traces of the capture of graphs below a folder, as servers write them; return their names."""
    names = [
        f"capture_traces/graph_capture_rank_0.bs{1 << at}.176718900012345678{at}.pt.trace.json.gz"
        for at in range(count)
    ]
    for name in names:
        write(capture(), folder / name)
    return names


def capture(launches: int = 10) -> Document:
    """Return the trace of a capture: launches between its begin and its end, none of which runs a kernel."""
    calls = ["cudaStreamBeginCapture", *["cudaLaunchKernel"] * launches, "cudaStreamEndCapture", "cudaGraphInstantiate"]
    events: list[Event] = []
    for at, name in enumerate(calls):
        here = {"ph": "X", "pid": 4_242, "tid": 4_242}
        if name == "cudaLaunchKernel":
            events.append(
                {
                    **here,
                    "cat": "cpu_op",
                    "name": "aten::mm",
                    "ts": 1e6 + 20 * at,
                    "dur": 15.0,
                    "args": {"External id": at},
                }
            )
        args = {"correlation": 100 + at, "External id": at}
        events.append({**here, "cat": "cuda_runtime", "name": name, "ts": 1e6 + 20 * at + 5, "dur": 5.0, "args": args})
    return {"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}


DAMAGES: Mapping[str, Callable[[Event], Event]] = {
    "duration": lambda event: {**event, "dur": event["dur"] * 10_000},
    "a year ahead": lambda event: {**event, "ts": event["ts"] + YEAR_US},
    "ends before it starts": lambda event: {**event, "dur": -event["dur"] - 1},
}


def damaged(document: Document, at: int, damage: str) -> Document:
    """Damage the event with this number."""
    events = list(document["traceEvents"])
    events[at] = DAMAGES[damage](events[at])
    return {**document, "traceEvents": events}


def with_device_clock(document: Document, shift_us: float) -> Document:
    """Shift all rows of the devices against the host's."""

    def shifted(event: Event) -> Event:
        on_device = event.get("cat") in DEVICE_ROWS or (event.get("ph") == "f" and event.get("cat") == "ac2g")
        return {**event, "ts": event["ts"] + shift_us} if on_device and "ts" in event else event

    return _every(document, shifted)


def with_device_drift(document: Document, share: float) -> Document:
    """Let the clock of the devices run faster than the host's by a share of the time."""
    rows = [event for event in document["traceEvents"] if event.get("cat") in DEVICE_ROWS]
    first = min(event["ts"] for event in rows)

    def drifting(event: Event) -> Event:
        if not (event.get("cat") in DEVICE_ROWS or (event.get("ph") == "f" and event.get("cat") == "ac2g")):
            return event
        longer = {"dur": event["dur"] * (1 + share)} if "dur" in event else {}
        return {**event, "ts": first + (event["ts"] - first) * (1 + share), **longer}

    return _every(document, drifting)


def with_built_in_frames(document: Document, under: str = "") -> Document:
    """Give Python frames their ids, and each that names `under` a built-in call which ends with it."""
    events: list[Event] = []
    open_frames: dict[tuple[Any, Any], list[tuple[float, int]]] = {}
    frames = [event for event in document["traceEvents"] if _is_frame(event)]
    numbers: dict[int, dict[str, Any]] = {}
    for number, event in enumerate(sorted(frames, key=lambda event: (event["ts"], -event["dur"])), 1):
        callers = open_frames.setdefault((event["pid"], event["tid"]), [])
        while callers and callers[-1][0] <= event["ts"]:
            callers.pop()
        numbers[id(event)] = {"Python id": number, "Python parent id": callers[-1][1] if callers else None}
        callers.append((event["ts"] + event["dur"], number))
    for event in document["traceEvents"]:
        if id(event) not in numbers:
            events.append(event)
            continue
        ids = numbers[id(event)]
        events.append({**event, "args": {**arguments(event), **ids}})
        if under in event["name"] and event["dur"] > 2:
            ids = {"Python id": len(frames) + ids["Python id"], "Python parent id": ids["Python id"]}
            called = {**event, "name": "<built-in method run of PyCapsule object at 0x7f3c1c0a0>"}
            events.append({**called, "ts": event["ts"] + 1, "dur": event["dur"] - 1, "args": ids})
    return {**document, "traceEvents": events}


def with_frames_open(document: Document) -> Document:
    """Let every built-in frame that has a caller last until the recording stops, as PyTorch wrote it for years."""
    stop = max((event["ts"] + event["dur"] for event in document["traceEvents"] if _is_frame(event)), default=0)

    def left_open(event: Event) -> Event:
        built_in = (
            _is_frame(event) and event["name"].startswith("<built-in") and arguments(event).get("Python parent id")
        )
        return {**event, "dur": stop - event["ts"]} if built_in else event

    return _every(document, left_open)


def _is_frame(event: Event) -> bool:
    return event.get("ph") == "X" and event.get("cat") == "python_function"


def with_correlations_permuted(document: Document, seed: int = 0) -> Document:
    """Give the same launches other ids, in no order."""
    ids = sorted(_correlations(document["traceEvents"]))
    mixed = ids.copy()
    random.Random(seed).shuffle(mixed)
    return _renumbered(document, dict(zip(ids, mixed, strict=True)))


def with_correlations_from_one(document: Document) -> Document:
    """Number the launches from one in the order of their calls, as a process does that launched nothing before."""
    calls = [event for event in document["traceEvents"] if event.get("cat") in RUNTIME_CALLS and "ts" in event]
    ordered = [number for call in sorted(calls, key=lambda call: call["ts"]) for number in _correlations([call])]
    ordered += sorted(_correlations(document["traceEvents"]))
    return _renumbered(document, {number: at for at, number in enumerate(dict.fromkeys(ordered), 1)})


def _correlations(events: Iterable[Event]) -> set[int]:
    numbers = {arguments(event).get(key) for event in events for key in CORRELATIONS}
    return {number for number in numbers if isinstance(number, int) and number not in NO_ID}


def _renumbered(document: Document, numbers: Mapping[int, int]) -> Document:
    def renumbered(event: Event) -> Event:
        args = arguments(event)
        changed = {key: numbers.get(args[key], args[key]) for key in CORRELATIONS if isinstance(args.get(key), int)}
        other = {**event, "args": {**args, **changed}} if changed else event
        flow = event.get("ph") in {"s", "f", "t"} and event.get("cat") in {"ac2g", "async_cpu_to_gpu"}
        return (
            {**other, "id": numbers.get(event["id"], event["id"])}
            if flow and isinstance(event.get("id"), int)
            else other
        )

    return _every(document, renumbered)


# The tables of an Nsight export that hold what devices did.
WORK_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")


def export(source: Path, path: Path, *changes: Callable[[sqlite3.Connection], object]) -> Path:
    """Write an Nsight export with some changes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source.read_bytes())
    with contextlib.closing(sqlite3.connect(path)) as database:
        for change in changes:
            change(database)
        database.commit()
    return path


def tables_with(database: sqlite3.Connection, column: str) -> list[str]:
    """Return the tables of an export that have a column."""
    names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [name for name in names if column in {row[1] for row in database.execute(f'PRAGMA table_info("{name}")')}]


def permute_correlations(database: sqlite3.Connection) -> None:
    """Give the launches of an export other ids, in no order."""
    tables = tables_with(database, "correlationId")
    ids = {
        number
        for table in tables
        for (number,) in database.execute(f"SELECT DISTINCT correlationId FROM {table} WHERE correlationId > 0")
    }
    mixed = sorted(ids)
    random.Random(0).shuffle(mixed)
    database.execute("CREATE TEMP TABLE others (id INTEGER PRIMARY KEY, other INTEGER)")
    database.executemany("INSERT INTO others VALUES (?, ?)", zip(sorted(ids), mixed, strict=True))
    for table in tables:
        other = "SELECT other FROM others WHERE id = correlationId"
        database.execute(f"UPDATE {table} SET correlationId = ({other}) WHERE correlationId > 0")


def add_graph_id_zero(database: sqlite3.Connection) -> None:
    """Give work in no graph the graph 0."""
    for table in set(tables_with(database, "graphNodeId")) & set(WORK_TABLES):
        database.execute(f"UPDATE {table} SET graphNodeId = 0 WHERE graphNodeId IS NULL")


def move_devices(database: sqlite3.Connection, shift_ns: int) -> None:
    """Shift all work of devices against the host's clock."""
    for table in set(tables_with(database, "correlationId")) & {*WORK_TABLES, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"}:
        database.execute(f'UPDATE {table} SET start = start + ?, "end" = "end" + ?', (shift_ns, shift_ns))


def drift_devices(database: sqlite3.Connection, share: float) -> None:
    """Let the clock of devices run faster than the host's by a share of the time."""
    for table in set(tables_with(database, "correlationId")) & {*WORK_TABLES, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"}:
        first = f"SELECT min(start) FROM {table}"
        late = ", ".join(f'"{end}" = "{end}" + CAST(? * ("{end}" - ({first})) AS INTEGER)' for end in ("start", "end"))
        database.execute(f"UPDATE {table} SET {late}", (share, share))


EXPORT_DAMAGES: Mapping[str, str] = {
    "duration": '"end" = start + ("end" - start) * 10000',
    "a year ahead": f'start = start + {int(YEAR_US * 1e3)}, "end" = "end" + {int(YEAR_US * 1e3)}',
    "ends before it starts": '"end" = start - 1',
}


def damage_kernel(database: sqlite3.Connection, damage: str) -> int:
    """Damage the kernel in the middle of an export, and return its duration with the pauses around it."""
    rows = database.execute('SELECT rowid, start, "end" FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start').fetchall()
    before, (row, _, _), after = (rows[len(rows) // 2 + place] for place in (-1, 0, 1))
    database.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {EXPORT_DAMAGES[damage]} WHERE rowid = ?", (row,))
    return int(after[1] - before[2])
