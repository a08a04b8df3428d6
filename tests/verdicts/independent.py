"""What labels say of a trace in numbers, read from the raw file with the standard library alone.

Nothing of traceanalyzer is imported: the facts of a label must not come from the code that they check. GPU work is kept
as (start, end, kind, name) in nanoseconds, a list for each device of each file of a trace.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

Span = tuple[int, int]
KINDS = {"kernel": "kernel", "gpu_memcpy": "copy", "memcpy": "copy", "gpu_memset": "set", "memset": "set"}
COLLECTIVE = re.compile(r"nccl|rccl|cross_device_reduce", re.IGNORECASE)
CALLS = {"cuda_runtime", "cuda_driver", "runtime", "driver"}


@dataclass(frozen=True)
class Work:
    """One kernel, copy, set or replayed graph of a device."""

    start_ns: int
    end_ns: int
    kind: str  # kernel, copy, set or graph
    name: str


@dataclass(frozen=True)
class Raw:
    """One file of a trace: GPU work a device, runtime calls, and named ranges of the host."""

    devices: dict[str, list[Work]]
    calls: list[tuple[str, int, int]]  # name, start and end in nanoseconds
    ranges: list[tuple[str, int, int]]


def read(path: Path) -> list[Raw]:
    """Read every file of a trace; a store that a diagnosis left beside them is none."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    return [read_nsys(file) if file.suffix == ".sqlite" else read_kineto(file) for file in files]


def read_kineto(path: Path) -> Raw:
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as stream:
        document = json.load(stream, parse_float=Decimal, strict=False)
    events = document["traceEvents"] if isinstance(document, dict) else document
    raw = Raw({}, [], [])
    for event in events:
        if event.get("ph") != "X" or "ts" not in event or "dur" not in event:
            continue
        start_ns = int(Decimal(event["ts"]) * 1000)
        end_ns = start_ns + int(Decimal(event["dur"]) * 1000)
        category = str(event.get("cat", "")).lower()
        name = str(event.get("name", ""))
        if category in KINDS:
            device = str(event.get("args", {}).get("device", event.get("pid")))
            raw.devices.setdefault(device, []).append(Work(start_ns, end_ns, KINDS[category], name))
        elif category in CALLS:
            raw.calls.append((name, start_ns, end_ns))
        elif category != "trace" and not category.startswith("gpu_"):
            raw.ranges.append((name, start_ns, end_ns))
    return raw


def read_nsys(path: Path) -> Raw:
    con = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    tables = {row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    strings = dict(con.execute("SELECT id, value FROM StringIds")) if "StringIds" in tables else {}
    raw = Raw({}, [], [])
    for kind, table, name in (
        ("kernel", "KERNEL", "shortName"),
        ("copy", "MEMCPY", "copyKind"),
        ("set", "MEMSET", "0"),
        ("graph", "GRAPH_TRACE", "0"),
    ):
        if f"CUPTI_ACTIVITY_KIND_{table}" in tables:
            query = f"SELECT deviceId, start, end, {name} FROM CUPTI_ACTIVITY_KIND_{table}"
            for device, start, end, named in con.execute(query):
                told = strings.get(named, "") if kind == "kernel" else str(named)
                raw.devices.setdefault(str(device), []).append(Work(start, end, kind, told))
    if "CUPTI_ACTIVITY_KIND_RUNTIME" in tables:
        # Exports with backtraces hold each call twice; the call itself is the first of an equal pair.
        rows = con.execute("SELECT DISTINCT nameId, start, end, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME")
        raw.calls.extend((re.sub(r"_v\d+$", "", strings.get(name, "")), start, end) for name, start, end, _ in rows)
    con.close()
    return raw


def union_ns(spans: Iterable[Span]) -> int:
    """Return the time that at least one of the spans covers."""
    total = 0
    reached = None
    for start, end in sorted(spans):
        total += max(0, end - (start if reached is None else max(start, reached)))
        reached = end if reached is None else max(reached, end)
    return total


def pauses(work: list[Work]) -> Iterator[int]:
    """Return the stretches between the first and the last work in which the device has none."""
    reached = None
    for item in sorted(work, key=lambda item: item.start_ns):
        if reached is not None and item.start_ns > reached:
            yield item.start_ns - reached
        reached = item.end_ns if reached is None else max(reached, item.end_ns)


def computing(work: list[Work]) -> list[Work]:
    return [item for item in work if item.kind == "kernel" and not COLLECTIVE.search(item.name)]


def within(work: list[Work], span: Span) -> list[Span]:
    cut = ((max(item.start_ns, span[0]), min(item.end_ns, span[1])) for item in work)
    return [(start, end) for start, end in cut if end > start]


def measure(trace: list[Raw], what: str, of: str = "") -> float:
    """Return one number of a trace; of several devices the largest, counts are of all.

    Shares of the span are of the time from a device's first to its last work; shares of a step are of the host's range
    of that name (`of`), on the device that computes most in it.
    """
    work = [items for raw in trace for items in raw.devices.values()]
    spans = [(min(w.start_ns for w in items), max(w.end_ns for w in items)) for items in work]
    match what:
        case "kernels":
            return sum(item.kind == "kernel" for items in work for item in items)
        case "gpu_ops":
            return sum(len(items) for items in work)
        case "collectives":
            return sum(w.kind == "kernel" and bool(COLLECTIVE.search(w.name)) for items in work for w in items)
        case "calls":
            return sum(bool(re.fullmatch(of, name)) for raw in trace for name, _, _ in raw.calls)
        case "calls_ms":
            return max(union_ns((s, e) for n, s, e in raw.calls if re.fullmatch(of, n)) for raw in trace) / 1e6
        case "span_ms":
            return max((end - start for start, end in spans), default=0) / 1e6
        case "compute_share_of_span":
            whole = zip(work, spans, strict=True)
            return max(union_ns(within(computing(items), span)) / (span[1] - span[0]) for items, span in whole)
        case "copy_share_of_span":
            copies = ([w for w in items if w.kind == "copy"] for items in work)
            return max(union_ns(within(c, s)) / (s[1] - s[0]) for c, s in zip(copies, spans, strict=True))
        case "longest_pause_ms":
            return max(max(pauses(items), default=0) for items in work) / 1e6
        case "kernel_share_of_computing":
            chosen = [w for items in work for w in computing(items)]
            named = sum(w.end_ns - w.start_ns for w in chosen if re.search(of, w.name))
            return named / sum(w.end_ns - w.start_ns for w in chosen)
        case "inner_step_ms":
            # The first step holds the start of the profiler, the last one is cut by its end.
            steps = sorted((s, e) for raw in trace for name, s, e in raw.ranges if re.search(of, name))[1:-1]
            return sum(end - start for start, end in steps) / len(steps) / 1e6
        case "ranges":
            return sum(bool(re.search(of, name)) for raw in trace for name, _, _ in raw.ranges)
        case "step_ms" | "compute_share_of_step" | "lead_in_ms":
            return measure_step(trace, what, of)
    raise ValueError(what)


def measure_step(trace: list[Raw], what: str, name: str) -> float:
    """Return one number of the first step of that name; its lead-in ends with the first work of a device."""
    raw, step = next((raw, (start, end)) for raw in trace for told, start, end in raw.ranges if told == name)
    step_ns = step[1] - step[0]
    if what == "step_ms":
        return step_ns / 1e6
    if what == "compute_share_of_step":
        return max(union_ns(within(computing(items), step)) for items in raw.devices.values()) / step_ns
    return (min(w.start_ns for items in raw.devices.values() for w in items if w.end_ns > step[0]) - step[0]) / 1e6


def overview(trace: list[Raw]) -> dict[str, object]:
    """Return what an author of a label looks at first."""
    work = [items for raw in trace for items in raw.devices.values() if items]
    told: dict[str, object] = {"devices": len(work), "gpu_ops": measure(trace, "gpu_ops")}
    if work:
        for what in ("kernels", "span_ms", "compute_share_of_span", "copy_share_of_span", "longest_pause_ms"):
            told[what] = round(measure(trace, what), 4)
        names: Counter[str] = Counter()
        for item in itertools.chain.from_iterable(work):
            names[f"{item.kind} {item.name[:70]}"] += item.end_ns - item.start_ns
        told["most"] = [(name, round(ns / 1e6, 3)) for name, ns in names.most_common(4)]
    times: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for raw in trace:
        for name, start, end in raw.calls:
            times[name] += end - start
            counts[name] += 1
    told["calls"] = [(name, counts[name], round(ns / 1e6, 3)) for name, ns in times.most_common(5)]
    steps = [(name, s, e) for raw in trace for name, s, e in raw.ranges if "Step" in name or name.startswith("step[")]
    told["steps"] = [(name, round((e - s) / 1e6, 3)) for name, s, e in steps[:6] if "#" in name or "[" in name]
    return told
