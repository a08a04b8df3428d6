"""Answers 'how long would a step take if …': causes that cost nothing and kernels that run faster, all at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import duckdb

from traceanalyzer.attribution.bounds import Bounds
from traceanalyzer.attribution.buckets import CAUSES
from traceanalyzer.attribution.lead_scan import Scenario
from traceanalyzer.errors import TraceAnalyzerError

# What `--remove host` and `--remove dev` stand for, and `--faster compute`.
_FAMILIES = ("host", "dev")
EVERY_KERNEL = "compute"
_FASTER = re.compile(r"^(?P<what>.+)=(?P<factor>[0-9.]+)x?$")

_DEVICES = """
SELECT trace_id, device, trace, rank, window_ns, step_count
FROM attribution.windows
JOIN canonical.traces USING (trace_id)
ORDER BY trace_id, device
"""
_KERNELS = """
SELECT ops.trace_id, ops.device, ops.op_id, ops.dur_ns
FROM gpu_ops AS ops
LEFT JOIN kernel_class_names AS names USING (name)
WHERE ops.kind = 'kernel'
  AND NOT ops.is_comm
  AND ($what = $every OR names.class = $what OR ($matches AND regexp_matches(ops.name, $what, 'i')))
"""
_CLASSES = "SELECT DISTINCT class FROM kernel_class_names"

Place = tuple[int, int]  # trace_id, device


@dataclass(frozen=True)
class Faster:
    """Kernels of a class, or whose names match a pattern, that run `factor` times as fast."""

    what: str
    factor: float


@dataclass(frozen=True)
class Change:
    """What is asked: causes that cost nothing, and faster kernels."""

    removed: tuple[str, ...] = ()
    faster: tuple[Faster, ...] = ()


@dataclass(frozen=True)
class Saving:
    """What a part of the change, or all of it, saves on a device; NULL (None) where bounds cannot be trusted."""

    change: str
    saved_ns: int | None
    seen: bool  # the trace holds what would change


@dataclass(frozen=True)
class DeviceAnswer:
    """One device: its window as it is, and what the change saves of it."""

    trace: str
    rank: int | None
    device: int
    window_ns: int
    step_count: int
    saved_ns: int | None
    abstains: str | None
    parts: tuple[Saving, ...]  # each part of the change alone; they may overlap, and are never summed


@dataclass(frozen=True)
class Answer:
    """What the change is worth, device by device."""

    change: Change
    devices: tuple[DeviceAnswer, ...]


def parse_faster(text: str) -> Faster:
    """Return what `gemm=2x` says."""
    match = _FASTER.match(text.strip())
    factor = float(match["factor"]) if match and match["factor"].count(".") < 2 else 0.0
    if match is None or factor <= 1:
        raise TraceAnalyzerError(
            f"{text!r} is not CLASS=FACTORx with a factor above 1", "--faster", "for example --faster gemm=2x"
        )
    return Faster(match["what"].strip(), factor)


def causes_named(names: Sequence[str]) -> tuple[str, ...]:
    """Return the causes that names stand for; raises for a name that is none."""
    found: list[str] = []
    for name in names:
        family = name.removesuffix(".*")
        if family in _FAMILIES:
            found += sorted(cause for cause in CAUSES if cause.startswith(f"{family}."))
        elif name in CAUSES:
            found.append(name)
        else:
            close = get_close_matches(name, CAUSES, n=1)
            hint = f"did you mean {close[0]}?" if close else f"host, dev or one of {', '.join(sorted(CAUSES))}"
            raise TraceAnalyzerError(f"no cause is called {name!r}", "--remove", hint)
    return tuple(dict.fromkeys(found))


def what_if(con: duckdb.DuckDBPyConnection, change: Change) -> Answer:
    """Return what a change saves on each device of the run behind a connection of the engine."""
    causes = [causes_named([name]) for name in change.removed]
    faster = [_savings(con, item) for item in change.faster]
    bounds = Bounds.load(con)
    rows = con.execute(_DEVICES).fetchall()
    found = []
    for trace_id, device, trace, rank, window_ns, step_count in rows:
        place = (trace_id, device)
        known = bounds.causes(*place)
        parts = [Scenario(frozenset(names)) for names in causes]
        parts += [Scenario(savings=savings.get(place, {})) for savings in faster]
        seen = [bool(known.intersection(part.removed)) or bool(part.savings) for part in parts]
        abstains = bounds.abstains(*place)
        saved = [None] * (len(parts) + 1) if abstains else bounds.bounds(*place, [*parts, _joined(parts)])
        labels = [*change.removed, *(f"{item.what} {item.factor:g}x" for item in change.faster)]
        found.append(
            DeviceAnswer(
                trace,
                rank,
                device,
                window_ns,
                step_count,
                saved[-1],
                abstains,
                tuple(map(Saving, labels, saved[:-1], seen)),
            )
        )
    return Answer(change, tuple(found))


def _joined(parts: Sequence[Scenario]) -> Scenario:
    """Return all parts at once; of two savings of one kernel the larger one counts."""
    savings: dict[int, int] = {}
    for part in parts:
        for op_id, saving_ns in (part.savings or {}).items():
            savings[op_id] = max(saving_ns, savings.get(op_id, 0))
    return Scenario(frozenset(cause for part in parts for cause in part.removed), savings)


def _savings(con: duckdb.DuckDBPyConnection, faster: Faster) -> dict[Place, dict[int, int]]:
    classes = {name for (name,) in con.execute(_CLASSES).fetchall()}
    by_name = faster.what not in classes
    try:
        rows = con.execute(_KERNELS, {"what": faster.what, "every": EVERY_KERNEL, "matches": by_name}).fetchall()
    except duckdb.InvalidInputException as error:
        raise TraceAnalyzerError(
            f"{faster.what!r} is no pattern: {error}", "--faster", "a class, or a regular expression over kernel names"
        ) from error
    if not rows:
        known = ", ".join(sorted(classes - {"comm"})) or "none: the run has no kernels"
        raise TraceAnalyzerError(
            f"no kernel is of the class {faster.what!r} or has it in its name", "--faster", f"classes here: {known}"
        )
    savings: dict[Place, dict[int, int]] = {}
    for trace_id, device, op_id, dur_ns in rows:
        savings.setdefault((trace_id, device), {})[op_id] = dur_ns - round(dur_ns / faster.factor)
    return savings
