"""The devices that AMD's recorders describe, their queues, and the ranks that launchers give to processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceanalyzer.ingest.amd.recording import AmdDefects, Lookup, copy_kinds, ints, on_host
from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.masks import Column

# Launchers' variables, in the order in which they are believed. No other variable of the environment is read.
RANK_KEYS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
SIZE_KEYS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Agent:
    """A processor or a GPU: the key by which rows name it, its kind, and what the tool says about it."""

    key: int
    kind: str  # CPU, GPU or NIC
    number: int | None  # of the GPU among the GPUs
    name: str | None
    facts: Mapping[str, Any]


class Agents:
    """Finds devices by the keys of agents."""

    def __init__(self, agents: Iterable[Agent], defects: AmdDefects, host: str | None) -> None:
        self._defects = defects
        by_key: dict[int, tuple[Agent, bool]] = {}
        for agent in agents:
            kind = agent.kind.upper()
            if kind not in ("CPU", "GPU", "NIC"):
                defects.add("unknown-agent", example=agent.kind)
            by_key.setdefault(agent.key, (agent, kind not in ("CPU", "NIC")))
        numbers = dict.fromkeys(by_key, NONE)
        devices: dict[int, dict[str, object]] = {}
        waiting: list[Agent] = []
        for key, (agent, is_gpu) in by_key.items():
            if is_gpu and agent.number is not None and 0 <= agent.number <= _LARGEST and agent.number not in devices:
                numbers[key] = agent.number
                devices[agent.number] = device_row(agent.number, agent.name, agent.facts, host)
            elif is_gpu:
                waiting.append(agent)
        for agent in waiting:
            if agent.number in devices:
                defects.add("repeated-agent", example=f"GPU {agent.number}: {agent.name or 'without a name'}")
            number = numbers[agent.key] = next(free for free in count() if free not in devices)
            devices[number] = device_row(number, agent.name, agent.facts, host)
        self.rows = [devices[number] for number in sorted(devices)]
        self._at = Lookup(np.array([*by_key], np.int64))
        # The last one stands for agents that are not described.
        self._is_gpu = np.array([*(is_gpu for _, is_gpu in by_key.values()), False], np.bool_)
        self._number = np.array([*numbers.values(), NONE], np.int64)

    def devices(self, keys: Column) -> Column:
        """Return the devices of agents; NULL, and counted, for those that are not described."""
        numbers = self._number[self._at.find(keys)]
        self._defects.add("missing-agent", int((numbers == NONE).sum()))
        return ints(numbers)

    def devices_of_copies(self, targets: Column, sources: Column, names: Column) -> tuple[Column, Column]:
        """Return the GPU at one end of copies, rather the target, and the kinds of the copies."""
        target, source = self._at.find(targets), self._at.find(sources)
        on = np.where(self._is_gpu[target], target, np.where(self._is_gpu[source], source, NONE))
        between = self._is_gpu[target] & self._is_gpu[source] & (target != source)
        kinds = copy_kinds(names, cast("Column", pa.array(between)))
        self._defects.add("missing-agent", int(((on == NONE) & ~on_host(kinds)).sum()))
        return ints(self._number[on]), kinds

    def gpus(self, keys: Int) -> Int:
        """Return the GPUs among agents; NONE for others."""
        places = self._at.find(keys)
        return np.where(self._is_gpu[places], self._number[places], NONE)


def device_row(device: int, name: str | None, facts: Mapping[str, Any], host: str | None = None) -> dict[str, object]:
    """Return the row of a GPU in the table `devices`, from what the tool says about its agent."""
    target = _number(facts.get("gfx_target_version"))
    waves = _number(facts.get("max_waves_per_cu"))
    if not waves:
        waves = (_number(facts.get("max_waves_per_simd")) or 0) * (_number(facts.get("simd_per_cu")) or 0)
    front = _number(facts.get("wave_front_size"))
    return {
        "device": device,
        "name": name or None,
        "vendor": "amd",
        "sm_count": _number(facts.get("cu_count")),
        "memory_bytes": _memory_bytes(facts),
        "compute_major": target // 10_000 if target else None,
        "compute_minor": target // 100 % 100 if target else None,
        "warp_size": front,
        "max_threads_per_sm": waves * front if waves and front and waves * front <= _LARGEST else None,
        "gpu": _identity(facts, host),
    }


def _identity(facts: Mapping[str, Any], host: str | None) -> str | None:
    """Return which GPU an agent is: its place on the bus of its host. Partitions of one have a render node each."""
    domain, place, node = (_number(facts.get(key)) for key in ("domain", "location_id", "drm_render_minor"))
    return f"{domain or 0:04x}:{place:x} {node or 0} {host}" if place and host else None


def _memory_bytes(facts: Mapping[str, Any]) -> int | None:
    banks = facts.get("mem_banks")
    first = banks[0] if isinstance(banks, list) and banks else None
    size = first.get("size_in_bytes") if isinstance(first, dict) else None
    return _number(size, 2**50) or _number(facts.get("local_mem_size"), 2**50)


def _number(value: object, largest: int = _LARGEST) -> int | None:
    """Return a positive whole number that is no larger than any device's; None for all else."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 < value <= largest else None  # type: ignore[operator,return-value]


_LEAST = np.iinfo(np.int64).min  # as `integers` shows NULL


def _are_in_order(pieces: list[tuple[Int, Int]]) -> bool:
    """Return whether each work starts after the one before it."""
    last = -1
    for start, _ in pieces:
        if int(start[0]) <= last or not (start[1:] > start[:-1]).all():
            return False
        last = int(start[-1])
    return True


def _sorted(pieces: list[tuple[Int, Int]]) -> tuple[Int, Int]:
    """Return the starts and ends of pieces, which are emptied, by start."""
    start, end = (np.concatenate(column) for column in zip(*pieces, strict=True))
    pieces.clear()
    order = np.lexsort((end, start))
    return start[order], end[order]


def _different(times: tuple[Int, Int]) -> tuple[Int, Int]:
    """Return starts and ends, which are in order, without those that are there twice."""
    start, end = times
    kept = np.append(True, (start[1:] != start[:-1]) | (end[1:] != end[:-1]) | (start[1:] == end[1:]))
    return start[kept], end[kept]


# Times of the firmware are off by less. Work that reaches further over others is damaged, and named as such.
_INEXACT_NS = 100_000


class QueueTimes:
    """The times of work by queue, and the numbers of dispatches: what is asked of all work together."""

    def __init__(self) -> None:
        self._times: dict[tuple[int, int], list[tuple[Int, Int]]] = {}
        self._dispatches: list[npt.NDArray[Any]] = []

    def add(self, device: Int, queue: Int, start_ns: Int, end_ns: Int, dispatch: Int) -> None:
        """Take some work; a queue or a dispatch that is the least integer is unknown."""
        for number in np.unique(queue).tolist():
            in_queue = queue == number
            for on in np.unique(device[in_queue]).tolist() if number != _LEAST else ():
                rows = in_queue & (device == on)
                self._times.setdefault((on, number), []).append((start_ns[rows], end_ns[rows]))
        known = dispatch[dispatch != _LEAST]
        is_small = len(known) > 0 and 0 <= int(known.min()) and int(known.max()) < 2**32
        self._dispatches.append(known.astype(np.uint32) if is_small else known)

    def overlaps(self, *, each_once: bool = False) -> tuple[int, int]:
        """Return how much work starts before what is ahead of it in its queue has ended, and by how many ns at most.

        `each_once`: of work of the same times, all but one was left out.
        """
        count, longest_ns = 0, 0
        while self._times:
            _, pieces = self._times.popitem()
            # Pieces come in order of time: each needs only the work of those before it that ends last.
            ordered = pieces if _are_in_order(pieces) else [_sorted(pieces)]
            ended = int(ordered[0][0][0])
            for start, end in map(_different, ordered) if each_once else ordered:
                until = np.maximum.accumulate(np.append(ended, end))
                early = until[:-1] - start
                early = early[(early > 0) & (early <= _INEXACT_NS)]
                ended = int(until[-1])
                count += len(early)
                longest_ns = max(longest_ns, int(early.max(initial=0)))
        return count, longest_ns

    def repeated(self) -> int:
        """Return how many dispatches have the number of another one."""
        numbers = np.concatenate(self._dispatches) if self._dispatches else np.empty(0, np.int64)
        if (numbers[1:] > numbers[:-1]).all():
            return 0
        return len(numbers) - len(np.unique(numbers))
