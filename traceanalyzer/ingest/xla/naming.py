"""What names mean: of GPU work, its kind, launch grid, size and memory; of the host's events, whose they are.

The host's are frames, calls, operators, annotations of the user, and XLA's own work."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_COPY = re.compile(r"Memcpy|Copy(?:Host|Device)To(?:Host|Device)")
_COPY_KIND = re.compile(r"(?P<source>[HDP])(?:to|2)(?P<target>[HDP])", re.IGNORECASE)
# A stream of copies in one direction alone, as NVIDIA's profiler names it.
_COPY_STREAM = re.compile(r"Stream #\d+\((Memcpy\w+)\)")
_LONG_COPY_KIND = re.compile(r"Copy(?P<source>Host|Device)To(?P<target>Host|Device)")
_KINDS_OF_COPIES = {"HD": "HtoD", "DH": "DtoH", "DD": "DtoD", "PP": "PtoP", "HH": "HtoH"}
_ADDRESS = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})")
_DETAIL = re.compile(r"(\w+):([^\s]+)")
_COMM = re.compile(r"nccl|rccl|cross_device_reduce", re.IGNORECASE)
# What no device has: the profiler of ROCm before 2026 never set these.
_MOST_REGISTERS, _MOST_SHARED_BYTES = 1024, 256 * 1024
_MOST_COPY_BYTES = 2**44
_MOST_SIDE = 2**44

MEMORY, OVERHEAD, MANAGED, GRAPH, COPY, SET, KERNEL = (
    "memory",
    "overhead",
    "managed",
    "graph",
    "memcpy",
    "memset",
    "kernel",
)
WORK = (GRAPH, COPY, SET, KERNEL)


class Presence(NamedTuple):
    """Which values an event has that decide what it is."""

    is_memory: bool
    has_graph: bool
    is_copy: bool
    is_set: bool


def known_name(name: str, line: str) -> str:
    """Return the name of an event, or what its stream says where the file was cut before the names of events."""
    found = _COPY_STREAM.fullmatch(line) if name.startswith("?") else None
    return found[1] if found else name


def kind_of(name: str, line: str, seen: Presence) -> str:
    """Return what an event of a stream is, by the order of XLA's own tests."""
    name = known_name(name, line)
    if seen.is_memory:
        return MEMORY
    if line == "CUPTI overhead":
        return OVERHEAD
    if name.startswith("UM_"):
        return MANAGED
    if seen.has_graph or name.startswith("CudaGraphExec:"):
        return GRAPH
    if seen.is_copy or _COPY.match(name):
        return COPY
    if seen.is_set or name.startswith("Memset"):
        return SET
    if name.startswith("__amd_rocclr_copy"):
        return COPY
    return SET if name.startswith("__amd_rocclr_fill") else KERNEL


@lru_cache(2**14)
def is_comm(name: str) -> bool:
    """Return whether a kernel is of a collective, by its name."""
    return _COMM.search(name) is not None


@lru_cache(2**14)
def copy_kind(name: str, launch: str | None) -> str | None:
    """Return the direction of a copy, by its name, else by that of its launch; None: unknown."""
    if name.startswith("UM_"):
        return "HtoD" if "HTOD" in name else "DtoH" if "DTOH" in name else None
    long = _LONG_COPY_KIND.match(name)
    if long:
        return _KINDS_OF_COPIES[long["source"][0] + long["target"][0]]
    for text in (name if name.startswith("Memcpy") else None, launch):
        found = _COPY_KIND.search(text.partition("emcpy")[2]) if text else None
        if found:
            return _KINDS_OF_COPIES.get((found["source"] + found["target"]).upper())
    return None


class Details(NamedTuple):
    """What a launch or a copy is described with; None: not written, or no possible value."""

    grid: tuple[int | None, int | None, int | None]
    block: tuple[int | None, int | None, int | None]
    registers: int | None
    shared_bytes: int | None
    size_bytes: int | None
    source: str | None
    target: str | None
    occupancy_percent: int | None  # what the launch allows; AMD's profiler writes 0 where it does not know
    is_unset: bool  # the profiler left values as memory happened to hold them
    address: int | None


_NOTHING = (None, None, None)


@lru_cache(2**16)
def details_of(text: str | None) -> Details:
    """Parse `regs:32 static_shared:0 grid:64,1,1 block:128,1,1` or `kind_src:pinned kind_dst:device size:64`."""
    found = dict(_DETAIL.findall(text or ""))
    registers = _number(found.get("regs"))
    static, dynamic = _number(found.get("static_shared")), _number(found.get("dynamic_shared"))
    if static is None and dynamic is None:
        static = _number(found.get("shm", found.get("group_mem")))
    is_unset = _above(registers, _MOST_REGISTERS) or _above(static, _MOST_SHARED_BYTES)
    shared = None if static is None and dynamic is None else (static or 0) + (dynamic or 0)
    size = _number(found.get("size", found.get("num_bytes")))
    occupancy = _number(found.get("occ_pct"))
    return Details(
        _sides(found.get("grid")),
        _sides(found.get("block")),
        None if _above(registers, _MOST_REGISTERS) else registers,
        None if is_unset or _above(shared, _MOST_SHARED_BYTES) else shared,
        None if _above(size, _MOST_COPY_BYTES) else size,
        _memory(found.get("kind_src")),
        _memory(found.get("kind_dst", found.get("kind"))),
        None if is_unset or not 0 < (occupancy or 0) <= 100 else occupancy,
        is_unset,
        int(address[1], 16) & 2**63 - 1 if (address := _ADDRESS.fullmatch(found.get("addr", ""))) else None,
    )


def _above(number: int | None, most: int) -> bool:
    return number is not None and number > most


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None


def _sides(text: str | None) -> tuple[int | None, int | None, int | None]:
    sides = [_number(side) for side in (text or "").split(",")]
    if len(sides) != 3 or any(side is None or side > _MOST_SIDE for side in sides):
        return _NOTHING
    x, y, z = sides
    return (x, y, z) if (x or 0) * (y or 0) * (z or 0) <= _MOST_SIDE else _NOTHING


def _memory(word: str | None) -> str | None:
    return word if word in ("pageable", "pinned", "device", "managed", "array") else None


CATEGORIES = ("other", "annotation", "python", "runtime", "driver", "cpu_op")
OTHER, ANNOTATION, PYTHON, RUNTIME, DRIVER, CPU_OP = range(len(CATEGORIES))
_RUNTIME_NAME = re.compile(r"(?:cuda|hip)[A-Z]")
_DRIVER_NAME = re.compile(r"cu[A-Z]|hsa_")
# Names that XLA, its clients and the frameworks give what they do themselves: a missed annotation of the user costs
# less than an invented one.
_OWN_NAME = re.compile(
    r"\$|PjitFunction\(|Wait |end: |ParseArguments|DevicePut|shard_args|Handle |AllocateOutputBuffers|H2D Dispatch"
    r"|XLA|Xla|.*::|.*:XLA \w+ module|TF[A-Z_]|Eager|Compile|Executor|<unknown>|<UNKNOWN>|Build buffer|RecordUsage"
    r"|Memory(?:Allocation|Deallocation)|Copy(?:From|To)|Transfer|Linearize|ThenExecuteCallback"
    r"|Resolve constant globals|MakeOutputBuffers|ComputeSemaphoreAcquire|RunInvariantCheckers|cpp_pjit|pjit|pmap"
    r"|backend_compile|PJRT_|FunctionRun|IteratorGetNext|TPUExecute"
    r"|lower_sharding_computation|trace_to_jaxpr|BatchedCopyToDevice|batched_copy_|ExecuteReplicated|ExecuteSharded"
    r"|ValidateInputTypeAndPlacement|tf\.constant$|convert_to_tensor|.*SyncTensorsGraph|StepMarker$|SyncLiveTensorsGraph"
    r"|TensorCollectionBarrier|CollectSyncTensors|ExtractIRAndPrepareXlaData|RunPostOrder|SetTensorData|GetTensorsOpsData"
    # Passes and operations of compiled programs.
    r"|[\w-]+ \((?:jit|pjit|pmap|Sync|cluster)\w*\)|wrapped_|command_buffer"
    r"|custom-call|memcpy|memset|copy$"
    r"|.*fusion[._\d]*$|[a-z][\w-]*\.\d+$"
)
# An operator of TensorFlow: its place in the model, and its type. What feeds the model, or moves values, is none.
_TENSORFLOW_OP = re.compile(
    r"(?P<place>[^\s:]+):_?(?P<type>(?!(?:Eager)?PyFunc|Iterator|MultiDeviceIterator|RemoteCall|Optional|(?:Host)?Recv|(?:Host)?Send)"
    r"(?!\w*Dataset)[A-Z]\w*)"
)


@lru_cache(2**16)
def category_of_name(name: str) -> int:
    """Return the category that a name alone shows."""
    if name.startswith("$"):
        return PYTHON
    if _RUNTIME_NAME.match(name):
        return RUNTIME
    if _DRIVER_NAME.match(name):
        return DRIVER
    if _is_tensorflow_op(name):
        return CPU_OP
    return OTHER if _OWN_NAME.match(name) or not name else ANNOTATION


def _is_tensorflow_op(name: str) -> bool:
    """Return whether a name is that of an operator: `model/dense/MatMul:MatMul`, `mul:Mul`, and not `phase:Train`."""
    found = _TENSORFLOW_OP.fullmatch(name)
    return found is not None and ("/" in found["place"] or found["place"].lower().startswith(found["type"].lower()))
