"""What counters of Nsight Compute say of a run, as its diagnosis shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.diagnosis import CountedKernel, KernelCounters, ModelDisagreement

if TYPE_CHECKING:
    import duckdb

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
    operator, input_shapes, sum_ns, flops_factor, traffic_factor,
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
