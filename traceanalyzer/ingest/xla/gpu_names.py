"""What names and details of GPU work mean: kinds of work and copies, launch grids, sizes, memory."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_COPY = re.compile(r"Memcpy|Copy(?:Host|Device)To(?:Host|Device)")
_COPY_KIND = re.compile(r"(?P<source>[HDP])(?:to|2)(?P<target>[HDP])", re.IGNORECASE)
_LONG_COPY_KIND = re.compile(r"Copy(?P<source>Host|Device)To(?P<target>Host|Device)")
_KINDS_OF_COPIES = {"HD": "HtoD", "DH": "DtoH", "DD": "DtoD", "PP": "PtoP", "HH": "HtoH"}
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


def kind_of(name: str, line: str, seen: Presence) -> str:
    """Return what an event of a stream is, by the order of XLA's own tests."""
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
    is_unset: bool  # the profiler left values as memory happened to hold them


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
    return Details(
        _sides(found.get("grid")),
        _sides(found.get("block")),
        None if _above(registers, _MOST_REGISTERS) else registers,
        None if is_unset or _above(shared, _MOST_SHARED_BYTES) else shared,
        None if _above(size, _MOST_COPY_BYTES) else size,
        _memory(found.get("kind_src")),
        _memory(found.get("kind_dst", found.get("kind"))),
        is_unset,
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
