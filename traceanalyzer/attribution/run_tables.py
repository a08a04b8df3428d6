"""Bounds that need all of a run: of each cause on all ranks, and of each class of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from traceanalyzer.attribution.arrow_columns import column
from traceanalyzer.attribution.bounds import TRACES, Bounds, Place
from traceanalyzer.attribution.lead_scan import Savings, Scenario

# Twice as fast is half as long.
FASTER = 2

_METRICS = Path(__file__).parent.parent / "metrics"
# The names' classes are a metric, which is defined before metrics are there: it only reads GPU operations.
_KERNELS = f"""
WITH
gpu_ops AS (
    FROM canonical.gpu_ops
),
kernel_class_patterns AS (
{(_METRICS / "kernel_class_patterns.sql").read_text()}
),
names AS (
{(_METRICS / "kernel_class_names.sql").read_text()}
)
SELECT
    trace_id,
    device,
    op_id,
    dur_ns,
    COALESCE(class, 'other') AS class
FROM gpu_ops
LEFT JOIN names USING (name)
WHERE kind = 'kernel'
  AND NOT is_comm
ORDER BY trace_id, device, class, op_id
"""


def bounds_of(con: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> Bounds:
    """Return the bounds of a run whose attribution is not on its connection yet."""
    return Bounds.of_tables(
        tables["windows"],
        tables["lead_events"],
        tables["lead_costs"],
        tables["collective_members"],
        con.sql(TRACES).to_arrow_table(),
    )


def with_run(cause_bounds: pa.Table, bounds: Bounds) -> pa.Table:
    """Return the bounds of causes with what removing each on all ranks saves the run."""
    rows = cause_bounds.select(["cause", "bound_ns"]).to_pylist()
    if len(bounds.places) == 1:
        run_ns = [row["bound_ns"] for row in rows]
    elif bounds.run_abstains() is not None:
        run_ns = [None] * len(rows)
    else:
        found = {cause: bounds.run_bound(frozenset({cause})) for cause in {row["cause"] for row in rows}}
        run_ns = [found[row["cause"]] for row in rows]
    at = cause_bounds.schema.get_field_index("run_ns")
    return cause_bounds.set_column(at, cause_bounds.schema.field(at), pa.array(run_ns, pa.int64()))


def op_bounds(con: duckdb.DuckDBPyConnection, bounds: Bounds, schema: pa.Schema) -> pa.Table:
    """Return what kernels of each class would save if they ran twice as fast."""
    kernels = con.sql(_KERNELS).to_arrow_table()
    dur_ns, op_id = column(kernels, "dur_ns"), column(kernels, "op_id")
    classes = kernels["class"].combine_chunks().dictionary_encode()
    names = classes.dictionary.to_pylist()
    keys = np.stack([column(kernels, "trace_id"), column(kernels, "device"), classes.indices.to_numpy()], axis=1)
    found, first = np.unique(keys, axis=0, return_index=True)
    order = np.argsort(first)
    last = np.append(first[order], len(keys))[1:]
    savings: dict[str, dict[Place, Savings]] = {}
    rows = []
    for (trace_id, device, code), low, high in zip(
        found[order].tolist(), first[order].tolist(), last.tolist(), strict=True
    ):
        shorter = dur_ns[low:high] - dur_ns[low:high] // FASTER
        savings.setdefault(names[code], {})[trace_id, device] = dict(
            zip(op_id[low:high].tolist(), shorter.tolist(), strict=True)
        )
        rows.append(((trace_id, device), names[code], high - low, int(dur_ns[low:high].sum())))
    alone = _alone(bounds, savings)
    together = _together(bounds, savings)
    table = [
        (*place, name, count, dur_sum_ns, alone.get((place, name)), together.get(name))
        for place, name, count, dur_sum_ns in rows
    ]
    columns = zip(*table, strict=True) if table else ([] for _ in schema)
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )


def _alone(bounds: Bounds, savings: Mapping[str, Mapping[Place, Savings]]) -> dict[tuple[Place, str], int]:
    found = {}
    for place in bounds.places:
        if bounds.abstains(*place) is None:
            asked = [name for name, of_places in savings.items() if place in of_places]
            scenarios = [Scenario(savings=savings[name][place]) for name in asked]
            for name, saved_ns in zip(asked, bounds.bounds(*place, scenarios), strict=True):
                found[place, name] = saved_ns
    return found


def _together(bounds: Bounds, savings: Mapping[str, Mapping[Place, Savings]]) -> dict[str, int]:
    if bounds.run_abstains() is not None:
        return {}
    return {name: bounds.run_bound(frozenset(), of_places) for name, of_places in savings.items()}
