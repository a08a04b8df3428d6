"""What a run holds: its traces and devices, what was recorded and what is missing, and how far to trust it.

As an anonymous inventory it holds counts and words of closed lists: no name, path, host or text of a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceanalyzer.diagnosis import LeftOut
from traceanalyzer.diagnosis.flops import FlopsUse, flops_uses_in
from traceanalyzer.process import dicts_of
from traceanalyzer.text.visible import redacted
from traceanalyzer.text.words import counted, is_tpu, percent, ranges
from traceanalyzer.version import __version__

if TYPE_CHECKING:
    import duckdb


Row = dict[str, Any]

# Below this share of GPU work linked to its launch, what the host did cannot be blamed for a wait.
TRUSTED_LAUNCH_SHARE = 0.97
# What a profiler can record on request, by profiler: the column that says so, and how to ask for it.
_WANTED = (
    ("kineto", "has_operators", "operators: profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"),
    ("kineto", "has_stacks", "Python stacks, to name lines of code: profile(with_stack=True)"),
    ("kineto", "has_shapes", "operator shapes, to judge kernels by their work: profile(record_shapes=True)"),
    ("kineto", "has_memory", "allocator events: profile(profile_memory=True)"),
    (
        "kineto",
        "has_sync_events",
        "which event a wait is for: profile(experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True))",
    ),
)


@dataclass(frozen=True)
class Inventory:
    """Tables of a run as rows; `metadata` has its secrets removed."""

    traces: list[Row]
    devices: list[Row]
    events: list[Row]
    defects: list[Row]
    metadata: list[Row]
    uncertainties: list[str]  # what limits trust, a sentence each
    missing: list[str]  # what was not recorded, and how to record it
    left_out: list[Row] = field(default_factory=list)  # files that the run does not count, and why
    flops: list[FlopsUse] = field(
        default_factory=list
    )  # model and hardware FLOPs utilisation of the run and each device
    captures: list[Row] = field(default_factory=list)  # captures of graphs, and how many replayed kernels each explains


def take_inventory(con: duckdb.DuckDBPyConnection, left_out: Sequence[LeftOut] = ()) -> Inventory:
    """Return what the run of a connection holds."""
    from traceanalyzer.query.engine import compute_shared

    traces = _rows(con, "traces")
    devices = _rows(con, "devices")
    defects = _rows(con, "defects")
    metadata = [{**row, "value": redacted(row["key"], row["value"])} for row in _rows(con, "metadata")]
    return Inventory(
        traces,
        devices,
        _rows(con, "events"),
        defects,
        metadata,
        [*rank_uncertainties(traces), *_shared_gpus(devices), *_uncertainties(traces, devices, defects)],
        _missing(traces, devices),
        [asdict(file) for file in left_out],
        flops_uses_in(con, sum(trace["event_count"] for trace in traces), compute_shared),
        _rows(con, "captures") if con.execute("FROM canonical.capture_files LIMIT 1").fetchall() else [],
    )


def query(name: str) -> str:
    """Return the text of one of the queries beside this module."""
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")


def rank_uncertainties(traces: list[Row]) -> list[str]:
    """Say which ranks are there twice, which are absent, and which traces name none."""
    uncertainties = []
    ranks = Counter(trace["rank"] for trace in traces if trace["rank"] is not None)
    for rank, count in sorted(ranks.items()):
        if count > 1:
            names = ", ".join(trace["trace"] for trace in traces if trace["rank"] == rank)
            uncertainties.append(f"rank {rank}, recorded {count} times: {names}")
    world = max((trace["world_size"] or 0 for trace in traces), default=0)
    expected = world or (max(ranks) + 1 if len(ranks) > 1 else 0)
    absent = [rank for rank in range(expected) if rank not in ranks]
    if absent and ranks:
        uncertainties.append(
            f"{counted(len(absent), 'rank')} of {expected} absent ({ranges(absent)}): any of them may be a straggler"
        )
    unranked = [trace for trace in traces if trace["rank"] is None]
    for rank_id in dict.fromkeys(trace["rank_id"] for trace in unranked if trace["recording_count"] > 1):
        again = [trace["trace"] for trace in unranked if trace["rank_id"] == rank_id]
        uncertainties.append(f"one process of unknown rank, recorded {len(again)} times: {', '.join(again)}")
    nameless = [trace["trace"] for trace in unranked if trace["recording_count"] == 1]
    if nameless and len(traces) > 1:
        uncertainties.append(f"{counted(len(nameless), 'trace')} without a rank: {', '.join(nameless[:3])}")
    return uncertainties


def _shared_gpus(devices: list[Row]) -> list[str]:
    """Say which GPUs are shared: what a trace shows as idle time may be time in which the GPU works for another."""
    gpus: dict[str, list[Row]] = {}
    for device in devices:
        if device["process_count"] > 1:
            gpus.setdefault(device["gpu"], []).append(device)
    return [_shared_words(gpu, users[0]) for gpu, users in gpus.items()]


def _shared_words(gpu: str, user: Row) -> str:
    count, name, share = user["process_count"], user["name"] or gpu, percent(user["gpu_busy_share"])
    return (
        f"{counted(count, 'process', 'processes')} share one GPU ({name}), which works {share} of the time; "
        "where it is idle in one trace, it may work for another"
    )


def _uncertainties(traces: list[Row], devices: list[Row], defects: list[Row]) -> list[str]:
    uncertainties = []
    on_tpus = {device["trace"] for device in devices if is_tpu(device["name"])}
    for trace in traces:
        name = f"{trace['trace']}: " if len(traces) > 1 else ""
        if trace["truncated"]:
            uncertainties.append(f"{name}the file ends early; what follows the cut is not known")
        if not trace["gpu_op_count"]:
            uncertainties.append(f"{name}no GPU work was found; nothing can be said about the GPU")
        elif trace["launch_share"] < TRUSTED_LAUNCH_SHARE and trace["trace"] not in on_tpus:  # they launch programs
            uncertainties.append(
                f"{name}{percent(1 - trace['launch_share'])} of the GPU work has no launch in the trace; "
                "why the GPU waited for that work is not known"
            )
        if trace["gpu_op_count"] and not trace["step_count"]:
            uncertainties.append(f"{name}no steps were found; times are of the whole trace, warm-up included")
    uncertainties += damaged_times(traces, defects)
    left_out = sum(defect["defect_count"] for defect in defects if defect["defect"] in _LEFT_OUT)
    if left_out:
        uncertainties.append(
            f"{counted(left_out, 'event or record', 'events or records')} left out in reading; see the defects"
        )
    if {defect["defect"] for defect in defects if defect["severity"] == "loss"} - _LEFT_OUT - _DAMAGED_TIMES.keys():
        uncertainties.append("parts of the file could not be read, or values are not known; see the defects")
    return uncertainties


# Defects that count events and records; others of that severity count tables, places of the file, or unknown values.
_LEFT_OUT = frozenset(
    {
        *(
            "bad-counter",
            "bad-duration",
            "bad-timestamp",
            "device-lost",
            "far-timestamp",
            "misplaced-call",
            "missing-phase",
            "process-lost",
        ),
        *("no-times", "not-an-event", "unknown-phase", "unmatched-end", "unreadable-event", "unreadable-record"),
        "zero-timestamp",
    }
)


_DAMAGED_TIMES = {
    "clocks-contradict": "the clocks of device and host contradict each other; their times cannot be compared",
    "clock-shifted": "the clocks of device and host differ, and times of the device were moved ({example})",
    "overrun-duration": "durations of GPU work are damaged, and read as those of equal work; see the defects",
    "misplaced-start": "starts of GPU work are damaged, and read in the order of its launches ({example})",
}


def damaged_times(traces: list[Row], defects: list[Row]) -> list[str]:
    """Say which times cannot be true, and what was done about them."""
    return [
        (f"{defect['trace']}: " if len(traces) > 1 else "") + _DAMAGED_TIMES[defect["defect"]].format(**defect)
        for defect in defects
        if defect["defect"] in _DAMAGED_TIMES
    ]


def _missing(traces: list[Row], devices: list[Row]) -> list[str]:
    """Say what no trace of the run recorded; what it takes is said for the profiler that wrote the traces."""
    recorders = {trace["recorder"] for trace in traces}
    # Only CUPTI, which is of NVIDIA, records synchronisations.
    unavailable = () if any(device["vendor"] in {"nvidia", None} for device in devices) else ("has_sync_events",)
    return [
        words
        for recorder, column, words in _WANTED
        if recorder in recorders and column not in unavailable and not any(trace[column] for trace in traces)
    ]


def _rows(con: duckdb.DuckDBPyConnection, name: str) -> list[Row]:
    return dicts_of(con.execute(query(name)))


SCHEMA_VERSION = 1
# Texts that the program itself chooses. Any other text of a row may come from a file, and is left out.
_OWN_WORDS = ("format", "recorder", "severity", "defect", "class", "vendor", "rank_source")
# Texts that files choose, and the values that identify nobody.
_KNOWN = {
    "framework": {"pytorch", "jax", "tensorflow"},
    "backend": {"nccl", "gloo", "mpi", "rccl", "xccl", "ucc", "mccl", "cncl", "hccl"},
    "step_source": {"ProfilerStep", "ProfilerStep, host only"},
}
# Classes of events whose categories are the program's own; those of asynchronous slices are a file's.
_OWN_CATEGORIES = {"GPU work", "host", "waits recorded", "allocator"}
_OTHER_CATEGORIES = {"counter sample", "flow arrow end", "instant"}


def anonymous(inventory: Inventory) -> dict[str, Any]:
    """Return an inventory without what names a person, a program, a model, a machine or a place."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(row["trace"] for row in inventory.traces))}
    return {
        "schema_version": SCHEMA_VERSION,
        "traceanalyzer": __version__,
        "traces": _harmless_rows(inventory.traces, numbers),
        "devices": _harmless_rows(inventory.devices, numbers),
        "events": _events(_harmless_rows(inventory.events, numbers), inventory.events),
        "defects": _harmless_rows(inventory.defects, numbers),
        "missing": inventory.missing,
    }


def _harmless_rows(rows: Sequence[Row], numbers: dict[str, int]) -> list[Row]:
    return [
        {"trace": numbers[row["trace"]]} | {key: value for key, value in row.items() if _is_anonymous(key, value)}
        for row in rows
    ]


def _is_anonymous(key: str, value: object) -> bool:
    if isinstance(value, str):
        return key in _OWN_WORDS or value in _KNOWN.get(key, ())
    return value is None or isinstance(value, bool | int | float)


def _events(kept: list[Row], rows: Sequence[Row]) -> list[Row]:
    counts: dict[tuple[int, str, str], int] = {}
    for trace, row in zip((row["trace"] for row in kept), rows, strict=True):
        own = row["class"] in _OWN_CATEGORIES or row["category"] in _OTHER_CATEGORIES
        key = trace, row["class"], row["category"] if own else "asynchronous"
        counts[key] = counts.get(key, 0) + row["event_count"]
    return [
        {"trace": trace, "class": class_, "category": category, "event_count": count}
        for (trace, class_, category), count in counts.items()
    ]
