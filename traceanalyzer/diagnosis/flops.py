"""How much of their peak rate devices reached: model and hardware FLOPs utilisation (MFU, HFU), or why not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from traceanalyzer.process import dicts_of
from traceanalyzer.text.words import is_tpu, percent, ranges

if TYPE_CHECKING:
    import duckdb

# One row per device with GPU work, ranks in their order.
QUERY = """
SELECT used.*, devices.name, shared.gpu AS shared_gpu, recordings.rank_id
FROM flops_utilisation AS used
LEFT JOIN canonical.devices AS devices USING (trace_id, device)
LEFT JOIN shared_gpus AS shared USING (trace_id, device)
JOIN recordings USING (trace_id)
ORDER BY used.rank NULLS LAST, used.trace_id, used.device
"""

# Whether anything ran on a device, and whether operations of it may be known: asking costs nothing beside the metric.
_WORK = "SELECT 1 FROM canonical.gpu_ops LIMIT 1"
_SHAPES = """
(SELECT 1 FROM canonical.host_slices WHERE input_shapes IS NOT NULL LIMIT 1)
UNION ALL (SELECT 1 FROM canonical.gpu_ops WHERE kind = 'op' LIMIT 1)
"""
# XLA's profiler writes no shapes on a GPU, AMD's recorders write none at all, and no setting changes that. Only
# PyTorch's has one that is named, for the operators that it records.
_WITHOUT_SHAPES = """
SELECT DISTINCT CASE
    WHEN recorder = 'rocprof' THEN 'no shapes'
    WHEN recorder IN ('jax', 'tensorflow', 'torch_xla') THEN 'no FLOPs'
    WHEN recorder = 'kineto' AND trace_id IN (SELECT trace_id FROM canonical.host_slices WHERE category = 'cpu_op')
    THEN 'shapes left out'
    ELSE 'no operators'
END FROM canonical.traces
"""
# Reasons of which nothing is said where the recorder has no shapes of operators to leave out.
WITHOUT_OPERATORS = ("no products", "no operators", "shapes left out")
# Operations of more events take longer to count than all else that is said.
MOST_EVENTS = 3_000_000
# Operations of the rest may be products, too: from this share of known work on they change little.
MOSTLY_KNOWN = 0.95
NO_PEAKS = (
    "The peaks of the device for the types that it computes with are not known: --device NAME says its model where the "
    "trace does not."
)
_MEANING = "of the peak rate over {time}; HFU counts what is computed again in the backward pass, too"
_REASONS = {
    "no products": "no matmul, convolution or attention ran there whose FLOPs follow from its recorded arguments",
    "shapes left out": "the input shapes of operators were not recorded (record_shapes=True)",
    "no operators": "no operators with input shapes were recorded",
    "no shapes": "the profiler records no input shapes of operators",
    "no FLOPs": "the profile says of no operation how many FLOPs it takes",
    "unknown peak": NO_PEAKS[:1].lower() + NO_PEAKS[1:].removesuffix("."),
    "unknown work": "operations are known for less than half of the GPU time",
    "too many events": "not computed for so large a run; `sql RUN 'FROM flops_utilisation'` computes them",
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
    time: str = "the analyzed time"

    @property
    def words(self) -> str:
        """Say both numbers, or why they are unknown, in one clause."""
        if self.mfu is None or self.hfu is None:
            return f"MFU and HFU unknown: {_REASONS.get(self.reason or '', self.reason)}"
        return f"MFU {self.span_of(self.mfu)}, HFU {self.span_of(self.hfu)}"

    def span_of(self, bounds: tuple[float, float] | None) -> str | None:
        """Say bounds of the use, of which the lower one alone is sure where operations of some work are not known."""
        if bounds is None:
            return None
        least, most = map(_percent, bounds)
        span = least if least == most else f"{least.removesuffix(' %')} to {most}"
        return f"at least {span}" if self.known_share < MOSTLY_KNOWN else span

    @property
    def note(self) -> str:
        """Say what the numbers are of, and what they leave open."""
        if self.mfu is None or self.hfu is None:
            return ""
        notes = [_MEANING.format(time=self.time)]
        if self.hfu[0] < self.hfu[1]:
            notes.append("a range where an attention's mask was not recorded: causal, or full")
        if self.known_share < MOSTLY_KNOWN:
            notes.append(f"operations are not known for {percent(1 - self.known_share)} of the GPU time")
        return "; ".join(notes)


def flops_uses_in(
    con: duckdb.DuckDBPyConnection, event_count: int, prepare: Callable[[duckdb.DuckDBPyConnection, str], None]
) -> list[FlopsUse]:
    """Return the use of the run of a connection, see `flops_uses`; without shapes and for many events only why not.

    `prepare` is `engine.compute_shared`.
    """
    if not con.execute(_WORK).fetchall():
        return []
    if not con.execute(_SHAPES).fetchall():
        reasons = [reason for (reason,) in con.execute(_WITHOUT_SHAPES).fetchall()]
        return [FlopsUse("run", None, None, 0.0, reasons[0] if len(reasons) == 1 else "no operators")]
    if event_count > MOST_EVENTS:
        return [FlopsUse("run", None, None, 0.0, "too many events")]
    prepare(con, "flops_utilisation")
    return flops_uses(dicts_of(con.execute(QUERY)))


def flops_uses(rows: Sequence[Mapping[str, Any]]) -> list[FlopsUse]:
    """Return the use of the whole run first, where several devices are listed, then that of each."""
    places = [_place(row) for row in rows]
    each = [_use(place, [row]) for place, row in zip(places, rows, strict=True)]
    return each if len(each) < 2 else [_use(_place_of_all(rows), rows), *each]


def flops_rows(uses: Sequence[FlopsUse]) -> list[dict[str, Any]]:
    return [asdict(use) | {"words": use.words, "note": use.note} for use in uses]


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['trace'] if row['rank'] is None else 'rank ' + ranges([row['rank']])}, device {row['device']}"


def _place_of_all(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say what the rows are: processes may share a GPU, and several recordings of a rank show the same."""
    gpus = {row.get("shared_gpu") or (row.get("rank_id", row["trace"]), row["device"]) for row in rows}
    if len(gpus) == 1 and rows[0].get("shared_gpu"):
        return "the shared GPU"
    count, what = (len(gpus), "devices") if len(gpus) > 1 else (len(rows), "recordings")
    return f"both {what}" if count == 2 else f"all {count} {what}"


def _wall_ns_of_gpus(rows: Sequence[Mapping[str, Any]]) -> dict[object, int]:
    """Return the time of each GPU, once where several processes share it: its rate is that of all of them together."""
    wall_ns: dict[object, int] = {}
    for at, row in enumerate(rows):
        gpu = row.get("shared_gpu") or at
        wall_ns[gpu] = max(wall_ns.get(gpu, 0), row["wall_ns"])
    return wall_ns


def _use(place: str, rows: Sequence[Mapping[str, Any]]) -> FlopsUse:
    reasons = [row["reason"] for row in rows if row["reason"]]
    known = min(row["known_share"] or 0.0 for row in rows)
    wall_ns = sum(_wall_ns_of_gpus(rows).values())
    if reasons or not wall_ns:
        return FlopsUse(place, None, None, known, (reasons or ["no products"])[0])

    def bound(column: str) -> float:
        return float(sum(row[column] * row["wall_ns"] for row in rows) / wall_ns)

    mfu, hfu = ((bound(f"{which}_least"), bound(f"{which}_most")) for which in ("mfu", "hfu"))
    if len(rows) > 1 and hfu[0] > 1:
        return FlopsUse(place, None, None, known, "above peak")
    time = "the whole trace" if is_tpu(rows[0].get("name")) else FlopsUse.time
    return FlopsUse(place, mfu, hfu, known, time=time)


def _percent(share: float) -> str:
    """Say a share, a tiny one by its first digit: a bound from below cannot be `<0.1 %`."""
    return f"{100 * share:.1g} %" if 1e-6 < share < 0.001 else percent(share)
