"""The nesting of slices on a host thread, shared by the tables and by annotations on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import xxhash

from tracesim.catalogue.recording import HostSlice


@dataclass(frozen=True, slots=True)
class Ancestry:
    """Positions (in the list of slices) of a slice's parent and of its nearest operator, annotation, frame and module.

    `stack` is that of the parent, as `host_slices.stack_id`; 0 for none.
    """

    depth: int
    parent: int | None
    operator: int | None
    annotation: int | None
    python: int | None
    module: int | None
    stack: int


# host_slices.stack_id: of a stack, the sum of its names' hashes, each times this factor as often as it has names below.
_STACK_FACTOR = 0x9E3779B97F4A7C15
ROOT = Ancestry(-1, None, None, None, None, None, 0)


def ancestries(slices: Sequence[HostSlice]) -> list[Ancestry]:
    """Return the ancestry of each slice; a slice without length encloses later slices with the same start."""
    nested = [ROOT] * len(slices)
    order = sorted(
        range(len(slices)),
        key=lambda at: (slices[at].thread, slices[at].start_ns, slices[at].start_ns - slices[at].end_ns, at),
    )
    open_at: list[int] = []
    thread: int | None = None
    for at in order:
        taken = slices[at]
        if taken.thread != thread:
            thread, open_at = taken.thread, []
        while open_at and _is_over(slices[open_at[-1]], taken.start_ns):
            open_at.pop()
        if open_at:
            nested[at] = _below(nested[open_at[-1]], open_at[-1], slices[open_at[-1]])
        else:
            nested[at] = Ancestry(0, None, None, None, None, None, 0)
        open_at.append(at)
    return nested


def _is_over(taken: HostSlice, now_ns: int) -> bool:
    if taken.end_ns == taken.start_ns:
        return taken.start_ns < now_ns
    return taken.end_ns <= now_ns


def _below(above: Ancestry, parent: int, taken: HostSlice) -> Ancestry:
    is_python = taken.category == "python"
    return Ancestry(
        above.depth + 1,
        parent,
        parent if taken.category == "cpu_op" else above.operator,
        parent if taken.category == "annotation" else above.annotation,
        parent if is_python else above.python,
        parent if is_python and taken.name.startswith("nn.Module: ") else above.module,
        stack_below(above.stack, taken.name),
    )


def stack_below(above: int, name: str) -> int:
    """Return the stack of a slice of this name below the stack `above`, as a signed number of 64 bits."""
    number = (above * _STACK_FACTOR + _hash_of(name)) % 2**64
    return number - 2**64 if number >= 2**63 else number


@lru_cache
def _hash_of(name: str) -> int:
    return xxhash.xxh3_64_intdigest(name.encode())
