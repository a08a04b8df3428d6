"""Stacks of a run as a tree: what devices, the host, idle time and memory cost below each frame."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import duckdb

from traceanalyzer.answers.top import check_rank

DEFAULT_ROWS = 40
# A frame that holds this much of the one around it is put together with it, which hides the small rest: the first share
# that fills the screen counts.
CHAIN_SHARES = (0.99, 0.999, 0.9999, 1)

# A frame of a module (nn.Module: Linear_7) or of the profiler's step (ProfilerStep#3).
_NUMBERED = re.compile(r"(?:(?<=;)|^)(?:(nn\.Module: [^;]*)_\d+|(ProfilerStep)#\d+)(?=;|$)")

KINDS = {
    "device": "Time of GPU operations, below the stack of the call that launched them.",
    "host": "Time of the host in each frame.",
    "idle": "Time without compute on a device, below the stack of the host that the device waited for.",
    "memory": "Bytes that the framework allocated on devices, below the operator that allocated them.",
}


@dataclass
class Frame:
    """A frame with those inside it; `value` is nanoseconds, or bytes of memory, with what is inside."""

    name: str
    value: int = 0
    own: int = 0  # without what is inside
    inside: dict[str, Frame] = field(default_factory=dict)

    def largest_first(self) -> list[Frame]:
        """Return the frames inside by their value."""
        return sorted(self.inside.values(), key=lambda frame: (-frame.value, frame.name))


@dataclass(frozen=True)
class FlameRow:
    """A frame as one line of a tree; `around` are the frames put together with it, the outermost first."""

    depth: int
    frame: Frame
    around: tuple[str, ...]


def folded_stacks(con: duckdb.DuckDBPyConnection, kind: str, rank: int | None = None) -> list[tuple[str, int]]:
    """Return the folded stacks of a kind (KINDS) with their values, all traces together, the largest first.

    Raises TraceAnalyzerError where the run has no such rank.
    """
    check_rank(con, rank)
    query = """
        SELECT stack, CAST(sum(value) AS BIGINT) AS value
        FROM flame
        WHERE kind = $kind AND ($rank IS NULL OR rank = $rank)
        GROUP BY stack
        ORDER BY value DESC, stack
    """
    return con.execute(query, {"kind": kind, "rank": rank}).fetchall()


def put_together(stacks: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return stacks without the numbers of modules and steps, so that equal layers and steps are one frame."""
    totals: dict[str, int] = {}
    for stack, value in stacks:
        plain = without_numbers(stack)
        totals[plain] = totals.get(plain, 0) + value
    return list(totals.items())


def without_numbers(stack: str) -> str:
    """Return a folded stack, or a frame, without the numbers that tell modules of one class and steps apart."""
    return _NUMBERED.sub(lambda match: match[1] or match[2], stack)


def tree_of(stacks: Sequence[tuple[str, int]]) -> Frame:
    """Return folded stacks as a tree; its root stands for all of them and has no name."""
    root = Frame("")
    for stack, value in stacks:
        root.value += value
        frame = root
        for name in stack.split(";"):
            frame = frame.inside.setdefault(name, Frame(name))
            frame.value += value
        frame.own += value
    return root


def largest_rows(root: Frame, limit: int = DEFAULT_ROWS) -> list[FlameRow]:
    """Return the `limit` largest frames with all frames around them, in the order of a tree."""
    rows: list[FlameRow] = []
    for chain_share in CHAIN_SHARES:
        rows = _largest_rows(root, limit, chain_share)
        if len(rows) == limit:
            break
    return rows


def _largest_rows(root: Frame, limit: int, chain_share: float) -> list[FlameRow]:
    waiting: list[tuple[int, int, Frame, tuple[str, ...], int]] = []
    kept: dict[int, list[tuple[Frame, tuple[str, ...], int]]] = {}
    count = 0

    def offer(parent: Frame, number: int) -> None:
        nonlocal count
        for frame in parent.largest_first():
            last, around = _end_of_chain(frame, chain_share)
            count += 1
            heapq.heappush(waiting, (-last.value, count, last, around, number))

    offer(root, 0)
    for _ in range(limit):
        if not waiting:
            break
        _, number, frame, around, parent = heapq.heappop(waiting)
        kept.setdefault(parent, []).append((frame, around, number))
        offer(frame, number)
    return list(_in_order(kept, 0, 0))


def _end_of_chain(frame: Frame, chain_share: float) -> tuple[Frame, tuple[str, ...]]:
    around: list[str] = []
    while True:
        largest = max(frame.inside.values(), key=lambda inner: inner.value, default=None)
        if largest is None or largest.value < chain_share * frame.value:
            return frame, tuple(around)
        around.append(frame.name)
        frame = largest


def _in_order(kept: dict[int, list[tuple[Frame, tuple[str, ...], int]]], parent: int, depth: int) -> Iterator[FlameRow]:
    for frame, around, number in kept.get(parent, []):
        yield FlameRow(depth, frame, around)
        yield from _in_order(kept, number, depth + 1)
