"""Numbers and names as people read them; nothing else in the program formats for people.

The buckets of the time ledger, a row each: every nanosecond of a device's span belongs to exactly one. A new bucket is
a row here; `attribution.host.host_states` or the ledger finds its time, and the header of the metric time_ledger
explains it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Literal, NamedTuple

Role = Literal["compute", "heavy", "sync", "light", "producer", "wait", "rest"]
COMPUTE: Role = "compute"
# Host causes that keep their share of launch delay: each can be removed by itself.
HEAVY: Role = "heavy"
SYNC: Role = "sync"
# After a blocking call the launching thread has lost its lead: launch delay by these belongs to the call, up to its
# wait.
LIGHT: Role = "light"
# Reasons to wait for an op. A collective with all its ranks in the run is split into transfer and straggler wait.
PRODUCER: Role = "producer"
# Other causes on the device.
WAIT: Role = "wait"
# What no fix can remove.
REST: Role = "rest"


class LedgerBucket(NamedTuple):
    """A bucket, the fill that charts give it, and what it means, in the words of someone who watches the device."""

    name: str
    role: Role
    fill: str
    words: str
    tpu_words: str = ""  # the same for a TPU, which runs whole programs; empty: the same words


# Stored tables hold the numbers of rows that are in this order.
BUCKETS = (
    LedgerBucket("compute", COMPUTE, "compute", "GPU busy with compute", "TPU busy with compute"),
    LedgerBucket("host.dataloader", HEAVY, "host-loader", "waiting for the data loader"),
    LedgerBucket("host.tokenize", HEAVY, "host-loader", "waiting for the tokenizer"),
    LedgerBucket("host.preprocess", HEAVY, "host-loader", "waiting for CPU preprocessing"),
    LedgerBucket("host.memcpy_block", HEAVY, "host-copy", "synchronous memcpy"),
    LedgerBucket("host.gc", HEAVY, "host-other", "Python garbage collection"),
    LedgerBucket("host.io", HEAVY, "host-other", "file I/O"),
    LedgerBucket("host.comm_cpu", HEAVY, "host-other", "waiting for CPU communication"),
    LedgerBucket("host.lock", HEAVY, "host-other", "waiting for a host lock"),
    LedgerBucket("host.offcpu", HEAVY, "host-other", "launching thread off the CPU"),
    LedgerBucket("host.compile", HEAVY, "host-other", "compilation or graph capture"),
    LedgerBucket("host.module_load", HEAVY, "host-other", "loading GPU modules"),
    LedgerBucket("host.alloc", HEAVY, "host-other", "allocating or freeing GPU memory"),
    LedgerBucket("host.host_alloc", HEAVY, "host-other", "allocating pinned memory"),
    LedgerBucket("host.profiler", HEAVY, "host-other", "profiler overhead"),
    LedgerBucket("host.sync", SYNC, "host-sync", "idle after a host synchronization"),
    LedgerBucket("host.launch_api", LIGHT, "host-launch", "kernel launch overhead"),
    LedgerBucket("host.op", LIGHT, "host-op", "CPU-bound: framework operators"),
    LedgerBucket("host.python", LIGHT, "host-python", "CPU-bound: Python"),
    LedgerBucket("host.other", LIGHT, "host-other", "CPU-bound: work not recorded"),
    LedgerBucket("dev.comm_transfer", PRODUCER, "dev-comm", "waiting for a collective"),
    LedgerBucket("dev.comm_p2p", PRODUCER, "dev-comm", "waiting for send or receive"),
    LedgerBucket("dev.h2d", PRODUCER, "dev-h2d", "waiting for a host-to-device copy", "waiting for data from the host"),
    LedgerBucket(
        "dev.d2h", PRODUCER, "dev-d2h", "waiting for a device-to-host copy", "waiting for the host to take data"
    ),
    LedgerBucket("dev.d2d", PRODUCER, "dev-d2d", "waiting for a copy on the device"),
    LedgerBucket("dev.memset", PRODUCER, "dev-d2d", "waiting for a memset"),
    LedgerBucket("dev.straggler_wait", WAIT, "dev-late", "waiting for a straggler"),
    LedgerBucket("dev.dispatch", WAIT, "dev-dispatch", "launch latency between kernels", "gap between operations"),
    LedgerBucket("dev.graph_gap", WAIT, "dev-dispatch", "gap inside a graph replay"),
    LedgerBucket("dev.unresolved", REST, "dev-unknown", "unattributed idle"),
    LedgerBucket("edge.no_launch", REST, "edge", "launch not in the trace", "idle between programs"),
    LedgerBucket("edge.head", REST, "edge", "before the first compute kernel", "before the first operation"),
    LedgerBucket("edge.queued_before_trace", REST, "edge", "work queued before the trace"),
    LedgerBucket("edge.tail", REST, "edge", "after the last kernel"),
    LedgerBucket("edge.not_recorded", REST, "edge", "graph work not recorded"),
)
BY_NAME = {bucket.name: bucket for bucket in BUCKETS}


# What limits a call (operator_floors); the roofs that it comes close to have their own names.
_LIMIT_WORDS = {
    "launch": "host launches",
    "latency": "short kernels",
    "compute below": "far below compute",
    "memory below": "far below memory",
}

# What a column named after a binary unit counts in bytes.
BINARY_UNITS = {"kib": 2**10, "mib": 2**20, "gib": 2**30}

# Names of kernels longer than this lose their namespaces.
LONG_NAME = 40
_CALL_VERSION = re.compile(r"_v\d{4,}$")  # nsys: cudaLaunchKernel_v7000
_RETURN_TYPE = re.compile(r"^(?:void|std::enable_if<.*?>::type) ")
# nsys writes template arguments as `(int)128, void f<…>`.
_CAST = re.compile(r"\((?:unsigned |long )*(?:int|long|short|char|bool)\)(?=-?\d)|(?<=[<, ])void (?=\w)")
_BUCKET_ID = re.compile(r"\b(?:host|dev|edge)\.\w+")
_NAMESPACE = re.compile(r"(?:\(anonymous namespace\)|<unnamed>|\b\w+)::")  # nsys writes <unnamed>
_ADDRESS = re.compile(r" at 0x[0-9a-f]+(?=>$)")  # Python's built-in methods: of the object of one of the calls
_ENDINGS = re.compile(r"(?:\.pt\.trace|\.trace)?\.(?:json|sqlite|nsys-rep)(?:\.gz)?$")


def bucket_words(bucket: str, device_name: str | None = None) -> str:
    """Say what a bucket of the time ledger of a device means; one that has no words is shown by its name."""
    known = BY_NAME.get(bucket)
    if known is None:
        return bucket
    return known.tpu_words or known.words if is_tpu(device_name) else known.words


def is_tpu(device_name: str | None) -> bool:
    """Return whether a device is a TPU, by the name that its profiler gives it."""
    return device_name is not None and device_name.startswith("TPU")


def with_bucket_words(text: str) -> str:
    """Return a bucket, or a text that names buckets, with what each means in their place."""
    return bucket_words(text) if text in BY_NAME else _BUCKET_ID.sub(lambda match: bucket_words(match[0]), text)


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Say how many there are of something: `1 step`, `1,200 steps`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def duration(dur_ns: float) -> str:
    """Say a time in the unit that leaves three significant digits: `177.6 ms`, `4.21 µs`."""
    for unit, size_ns in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(dur_ns) >= size_ns:
            value = dur_ns / size_ns
            return f"{value:,.{0 if abs(value) >= 1e4 else 1 if abs(value) >= 100 else 2}f} {unit}"
    return f"{dur_ns:.0f} ns"


def times(count: int) -> str:
    """Say how often something is: `once`, `7 times`."""
    return "once" if count == 1 else f"{count:,} times"


def percent(share: float) -> str:
    """Say a share of 0 to 1 in percent, with one decimal; what is not nothing never reads 0."""
    return "<0.1 %" if 0 < share < 0.0005 else f"{share * 100:.1f} %"


def speedup(share: float) -> str:
    """Say how much faster a run gets that loses this share of its time: `1.50× faster`."""
    return f"{1 / (1 - share):.2f}× faster" if share < 0.95 else "over 20× faster"


def gain(share: float) -> str:
    """Say what a fix saves as a change: `−3.2 %`, `0.0 %` where it saves nothing, `+1.4 %` where it costs."""
    sign = "−" if share > 0 else "+" if share < 0 else ""
    return f"{sign}{percent(abs(share))}"


def listed(names: Sequence[str]) -> str:
    """Say a few names as a sentence does: `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def size(size_bytes: float) -> str:
    """Say a size in binary units, as nvidia-smi and PyTorch do: `12.4 MiB`."""
    for unit, unit_bytes in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(size_bytes) >= unit_bytes:
            return f"{size_bytes / unit_bytes:,.1f} {unit}"
    return f"{size_bytes:.0f} B"


def operations(count: float) -> str:
    """Say a number of arithmetic operations: `141 GFLOP`."""
    for prefix, factor in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(count) >= factor:
            return f"{count / factor:.3g} {prefix}FLOP"
    return f"{count:.0f} FLOP"


def ranges(numbers: Sequence[int]) -> str:
    """Say a set of numbers shortly: `0-3, 7`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)


def apportion(parts: Sequence[float], total: int) -> list[int]:
    """Share out `total` whole units in proportion to `parts` so that they add up (largest remainder)."""
    whole = sum(parts)
    if whole <= 0:
        return [0] * len(parts)
    exact = [part * total / whole for part in parts]
    units = [int(value) for value in exact]
    by_remainder = sorted(range(len(parts)), key=lambda i: (units[i] - exact[i], i))
    for i in by_remainder[: total - sum(units)]:
        units[i] += 1
    return units


def tenths_of_percent(parts: Sequence[float]) -> list[int]:
    """Round shares to tenths of a percent so that they add up; those that were nearest to the other side give way.

    The first, compute, is quoted elsewhere and must read the same there.
    """
    whole = sum(parts)
    if whole <= 0:
        return [0] * len(parts)
    exact = [part / whole * 1000 for part in parts]
    units = [round(float(f"{value / 10:.1f}") * 10) for value in exact]
    excess = sum(units) - 1000
    sign = 1 if excess > 0 else -1
    by_error = sorted(range(1, len(parts)), key=lambda i: (-sign * (units[i] - exact[i]), i))
    for i in by_error[: abs(excess)]:
        units[i] -= sign
    return units


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return traces' names without the endings of their formats, where that leaves them different."""
    short = {name: _ENDINGS.sub("", name) for name in names}
    return short if len(set(short.values())) == len(short) else {name: name for name in names}


# Columns of evidence that count; other whole numbers are names, such as steps.
_COUNTS = frozenset({"blocks", "calls", "copies", "kernels", "launches", "registers", "threads"})


def value_words(column: str, value: Any) -> str:
    """Say a value of a table by the unit in its column's name."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return bucket_words(value) if column == "bucket" else name_words(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if column == "at_ms":
        return f"{value:,.3f} ms"
    if column == "ms" or column.endswith("_ms"):
        return duration(value * 1e6)
    if column.endswith("_ns"):
        return duration(value)
    if column.endswith("_share"):
        return percent(value)
    if column.endswith("_bytes"):
        return size(value)
    if column in BINARY_UNITS or column.endswith(tuple(f"_{unit}" for unit in BINARY_UNITS)):
        return size(value * BINARY_UNITS[column.rpartition("_")[2]])
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if column in _COUNTS or column.endswith("_count") else str(value)


def readable(name: str) -> str:
    """Return a mangled name as C++ writes it, without namespaces and parameters; other names as they are."""
    if not name.startswith("_Z"):
        return name
    from traceanalyzer.text.mangled_names import demangled  # few traces have any

    return demangled(name)


def name_words(name: str) -> str:
    """Say a name without versions of calls, addresses, mangling, and the namespaces and casts of long names in C++."""
    name = _ADDRESS.sub("", readable(name))
    if len(name) <= LONG_NAME or "<" not in name:
        return _CALL_VERSION.sub("", name)
    return _CAST.sub("", _NAMESPACE.sub("", _RETURN_TYPE.sub("", name)))


def told_apart(names: Sequence[str], longest: int) -> list[str]:
    """Return names cut to this length; those that would read the same are cut where they begin to differ instead."""
    shown = [_cut(name, longest) for name in names]
    # Of names that differ at several places, some are told apart only in the second round.
    for _ in range(2):
        alike: dict[str, list[str]] = {}
        for words, name in zip(shown, names, strict=True):
            alike.setdefault(words, []).append(name)
        shared = {words: _shared_letters(group) for words, group in alike.items() if len(set(group)) > 1}
        head = longest // 3
        for at, name in enumerate(names):
            if len(name) > longest and shown[at] in shared:
                differs = max(shared[shown[at]], head + 1)
                rest = min(differs, len(name) - (longest - head - 1))  # what is short gets letters before it
                shown[at] = _cut(f"{name[:head]}…{name[rest:]}", longest)
    return shown


def _shared_letters(names: Sequence[str]) -> int:
    """Return with how many equal letters all names begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(min(names), max(names), strict=False)))


def _cut(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def limit_words(limit: str) -> str:
    """Say what limits an operator, as operator_floors names it."""
    return _LIMIT_WORDS.get(limit, limit)


def column_words(column: str) -> str:
    """Say a column's name without its unit, which its values carry."""
    if column in ("ms", "dur_ns"):
        return "time"
    if column in BINARY_UNITS:
        return "size"
    for unit in ("_ns", "_ms", "_share", "_bytes", "_mib", "_gib", "_kib"):
        column = column.removesuffix(unit)
    return column.replace("_", " ")


def confidence_words(level: str, because: str) -> str:
    """Say how sure a finding is, and what that rests on: `medium confidence: one step`."""
    return f"{level} confidence: {because}"


def lower_first(sentence: str) -> str:
    """Lower the first letter of a sentence that goes on inside another, acronyms left alone."""
    text = sentence.rstrip(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
