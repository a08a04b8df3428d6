"""The nesting of slices on a host thread, shared by the tables and by annotations on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.simulator.catalogue.recording import HostSlice


@dataclass(frozen=True, slots=True)
class Ancestry:
    """Positions (in the list of slices) of a slice's parent and of its nearest operator, annotation and frame."""

    depth: int
    parent: int | None
    operator: int | None
    annotation: int | None
    python: int | None


ROOT = Ancestry(-1, None, None, None, None)


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
            nested[at] = _below(nested[open_at[-1]], open_at[-1], slices[open_at[-1]].category)
        else:
            nested[at] = Ancestry(0, None, None, None, None)
        open_at.append(at)
    return nested


def _is_over(taken: HostSlice, now_ns: int) -> bool:
    if taken.end_ns == taken.start_ns:
        return taken.start_ns < now_ns
    return taken.end_ns <= now_ns


def _below(above: Ancestry, parent: int, category: str) -> Ancestry:
    return Ancestry(
        above.depth + 1,
        parent,
        parent if category == "cpu_op" else above.operator,
        parent if category == "annotation" else above.annotation,
        parent if category == "python" else above.python,
    )
