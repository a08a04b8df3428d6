"""How much of their peak rate devices reached: model and hardware FLOPs utilisation (MFU, HFU), or why not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traceanalyzer.answers.top_questions import NO_PEAKS
from traceanalyzer.text.words import percent, ranges

# Operations of the rest may be products, too: from this share of known work on they change little.
MOSTLY_KNOWN = 0.95
_MEANING = "of the peak rate over the analyzed time; HFU counts what is computed again in the backward pass, too"
_REASONS = {
    "no products": "no matmul, convolution or attention with recorded input shapes ran there (record_shapes=True)",
    "unknown peak": NO_PEAKS[:1].lower() + NO_PEAKS[1:].removesuffix("."),
    "unknown work": "operations are known for less than half of the GPU time",
    "above peak": "more operations than the device can do: its model, clock or a type is not what is assumed",
}


@dataclass(frozen=True)
class FlopsUse:
    """Bounds over devices with their wall times together, as shares of the peak rate; reason: why there are none."""

    place: str  # all devices, or a rank with its device
    mfu: tuple[float, float] | None
    hfu: tuple[float, float] | None
    known_share: float
    reason: str | None = None

    @property
    def words(self) -> str:
        """Say both numbers, or why they are unknown, in one clause."""
        if self.mfu is None or self.hfu is None:
            return f"MFU and HFU unknown: {_REASONS.get(self.reason or '', self.reason)}"
        least = "at least " if self.known_share < MOSTLY_KNOWN else ""
        return f"MFU {least}{_span(self.mfu)}, HFU {least}{_span(self.hfu)}"

    @property
    def note(self) -> str:
        """Say what the numbers are of, and what they leave open."""
        if self.mfu is None or self.hfu is None:
            return ""
        notes = [_MEANING]
        if self.hfu[0] < self.hfu[1]:
            notes.append("a range where an attention's mask was not recorded: causal, or full")
        if self.known_share < MOSTLY_KNOWN:
            notes.append(f"operations are known for {percent(self.known_share)} of the GPU time")
        return "; ".join(notes)


def flops_uses(rows: Sequence[Mapping[str, Any]]) -> list[FlopsUse]:
    """Return the use of the whole run first, where it has several devices, then that of each device."""
    places = [_place(row) for row in rows]
    each = [_use(place, [row]) for place, row in zip(places, rows, strict=True)]
    return each if len(each) < 2 else [_use(f"all {len(rows)} devices", rows), *each]


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['trace'] if row['rank'] is None else 'rank ' + ranges([row['rank']])}, device {row['device']}"


def _use(place: str, rows: Sequence[Mapping[str, Any]]) -> FlopsUse:
    reasons = [row["reason"] for row in rows if row["reason"]]
    known = min(row["known_share"] or 0.0 for row in rows)
    wall_ns = sum(row["wall_ns"] for row in rows)
    if reasons or not wall_ns:
        return FlopsUse(place, None, None, known, (reasons or ["no products"])[0])

    def bound(column: str) -> float:
        return float(sum(row[column] * row["wall_ns"] for row in rows) / wall_ns)

    return FlopsUse(place, (bound("mfu_least"), bound("mfu_most")), (bound("hfu_least"), bound("hfu_most")), known)


def _span(bounds: tuple[float, float]) -> str:
    least, most = map(percent, bounds)
    return least if least == most else f"{least.removesuffix(' %')} to {most}"
