"""How well devices were used: FLOPs utilisation (MFU, HFU), and what counters of Nsight Compute say of kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traceanalyzer.answers.top_questions import NO_PEAKS
from traceanalyzer.diagnosis import CountedKernel, KernelCounters, ModelDisagreement
from traceanalyzer.text.words import is_tpu, percent, ranges

if TYPE_CHECKING:
    import duckdb


# One row per device with GPU work, ranks in their order.
QUERY = """
SELECT used.*, devices.name
FROM flops_utilisation AS used
LEFT JOIN canonical.devices AS devices USING (trace_id, device)
ORDER BY rank NULLS LAST, trace_id, device
"""

# Operations of the rest may be products, too: from this share of known work on they change little.
MOSTLY_KNOWN = 0.95
_MEANING = "of the peak rate over {time}; HFU counts what is computed again in the backward pass, too"
_REASONS = {
    "no products": "no matmul, convolution or attention with recorded input shapes ran there (record_shapes=True)",
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
        least = "at least " if self.known_share < MOSTLY_KNOWN else ""
        return f"MFU {least}{_span(self.mfu)}, HFU {least}{_span(self.hfu)}"

    @property
    def note(self) -> str:
        """Say what the numbers are of, and what they leave open."""
        if self.mfu is None or self.hfu is None:
            return ""
        notes = [_MEANING.format(time=self.time)]
        if self.hfu[0] < self.hfu[1]:
            notes.append("a range where an attention's mask was not recorded: causal, or full")
        if self.known_share < MOSTLY_KNOWN:
            notes.append(f"operations are known for {percent(self.known_share)} of the GPU time")
        return "; ".join(notes)


def flops_uses_in(con: duckdb.DuckDBPyConnection) -> list[FlopsUse]:
    """Return the use of the run of a connection, see `flops_uses`."""
    result = con.execute(QUERY)
    columns = [column[0] for column in result.description or ()]
    return flops_uses([dict(zip(columns, row, strict=True)) for row in result.fetchall()])


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

    mfu, hfu = ((bound(f"{which}_least"), bound(f"{which}_most")) for which in ("mfu", "hfu"))
    time = "the whole trace" if is_tpu(rows[0].get("name")) else FlopsUse.time
    return FlopsUse(place, mfu, hfu, known, time=time)


def _span(bounds: tuple[float, float]) -> str:
    least, most = map(percent, bounds)
    return least if least == most else f"{least.removesuffix(' %')} to {most}"


_FILES = """
SELECT
    list(file ORDER BY file),
    CAST(sum(launch_count) AS BIGINT),
    CAST(sum(lost_line_count + lost_value_count) AS BIGINT),
    min_by(example, file) FILTER (WHERE example IS NOT NULL)
FROM canonical.ncu_files
"""
_MATCHED = "SELECT sum(matched_share * sum_ns) / nullif(sum(sum_ns), 0) FROM ncu_coverage"
_KERNELS = """
SELECT name, tier, sum_ns, limited_by, sm_percent / 100, memory_percent / 100, headroom_ns
FROM ncu_join
WHERE tier IS NOT NULL
ORDER BY headroom_ns DESC NULLS LAST, sum_ns DESC, trace_id, device, name, grid_x, grid_y, grid_z, block_x, block_y
LIMIT 10
"""
_COMPARED = "SELECT count(*) FROM ncu_model WHERE flops_verdict IS NOT NULL OR bytes_verdict IS NOT NULL"
_DISAGREEMENTS = """
SELECT
    operator,
    input_shapes,
    sum_ns,
    flops_factor,
    traffic_factor,
    CASE
        WHEN flops_verdict IN ('more', 'fewer') THEN flops_verdict || ' operations'
        ELSE 'impossibly few bytes'
    END
FROM ncu_model
WHERE disagrees
ORDER BY sum_ns DESC, trace, device, operator, input_shapes, input_types
"""
QUERIES = (_FILES, _MATCHED, _KERNELS, _COMPARED, _DISAGREEMENTS)


def kernel_counters_of(con: duckdb.DuckDBPyConnection) -> KernelCounters:
    """Return what the counters of a connection say, which has the metrics that `QUERIES` read."""
    ((files, launch_count, lost_count, example),) = con.execute(_FILES).fetchall()
    ((matched_share,),) = con.execute(_MATCHED).fetchall()
    ((compared_count,),) = con.execute(_COMPARED).fetchall()
    return KernelCounters(
        tuple(files),
        launch_count,
        lost_count,
        example,
        matched_share,
        tuple(CountedKernel(*row) for row in con.execute(_KERNELS).fetchall()),
        compared_count,
        tuple(ModelDisagreement(*row) for row in con.execute(_DISAGREEMENTS).fetchall()),
    )
