"""Bounds that need the whole run: of each cause on all ranks, and of each class of kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from traceanalyzer.attribution.lead_scan.bounds import Bounds
from traceanalyzer.attribution.lead_scan.scan import OpSavings, Savings, WhatIf
from traceanalyzer.attribution.lead_scan.stored_scans import Place
from traceanalyzer.attribution.run_ledger import run_rows
from traceanalyzer.attribution.vocabulary.arrow_columns import array_of, codes_of, column
from traceanalyzer.query.kernel_patterns import case_of

# Twice as fast is half as long.
FASTER = 2

_KERNELS = f"""
WITH
names AS (
    SELECT name, {case_of("class")} AS class
    FROM (SELECT DISTINCT name FROM canonical.gpu_ops WHERE kind = 'kernel')
)
SELECT
    trace_id,
    device,
    op_id,
    dur_ns,
    COALESCE(class, 'other') AS class
FROM canonical.gpu_ops
LEFT JOIN names USING (name)
WHERE kind = 'kernel'
  AND NOT is_comm
ORDER BY trace_id, device, class, op_id
"""


@dataclass(frozen=True)
class Owned:
    """The time of a device's window that a cause owns: its sum, the number of steps, and the longest row."""

    dur_ns: int
    step_hits: int
    worst_ns: int
    worst_step: int | None
    worst_start_ns: int | None


NOTHING = Owned(0, 0, 0, None, None)


@dataclass(frozen=True)
class _Kernels:
    """Kernels of one class on one device, and how much shorter each is if it runs faster."""

    place: Place
    name: str
    count: int
    dur_sum_ns: int
    savings: Savings


def bound_tables(
    con: duckdb.DuckDBPyConnection,
    bounds: Bounds,
    tables: Mapping[str, pa.Table],
    owned: Mapping[Place, Mapping[str, Owned]],
    schemas: Mapping[str, pa.Schema],
) -> dict[str, pa.Table]:
    """Return the tables that need the whole run: its ledger, and the bounds of causes and of classes of kernels.

    `tables` are those of the devices; rows of the ledger that they lack are read from the connection.
    """
    kernels = _kernels(con)
    causes = {place: sorted(bounds.causes(*place) | owned.get(place, {}).keys()) for place in bounds.places}
    # All in one pass: a scan of twenty what-ifs takes hardly longer than one of ten.
    asked = {
        place: {cause: WhatIf(frozenset({cause})) for cause in causes[place]}
        for place in bounds.places
        if bounds.abstains(*place) is None
    }
    for item in kernels:
        if item.place in asked:
            asked[item.place][item.name] = WhatIf(savings=item.savings)
    answers = bounds.bounds_of_each({place: list(of_one.values()) for place, of_one in asked.items()})
    alone = {
        (place, name): saved_ns
        for place, of_one in asked.items()
        for name, saved_ns in zip(of_one, answers[place], strict=True)
    }
    run = _run_bounds(bounds, causes, kernels, alone)
    rows_of_causes = []
    for place in bounds.places:
        for cause in causes[place]:
            own = owned.get(place, {}).get(cause, NOTHING)
            rows_of_causes.append((*place, cause, alone.get((place, cause)), run.get(cause), *astuple(own)))
    rows_of_classes = [
        (*item.place, item.name, item.count, item.dur_sum_ns, alone.get((item.place, item.name)), run.get(item.name))
        for item in kernels
    ]
    reason = bounds.run_abstains()
    return {
        "windows": _with_reason(tables["windows"], reason),
        "run_rows": run_rows(con, tables, schemas["run_rows"]) if reason is None else table_of([], schemas["run_rows"]),
        "cause_bounds": table_of(rows_of_causes, schemas["cause_bounds"]),
        "op_bounds": table_of(rows_of_classes, schemas["op_bounds"]),
    }


def _with_reason(windows: pa.Table, reason: str | None) -> pa.Table:
    at = windows.schema.get_field_index("run_abstains")
    reasons = array_of([reason] * windows.num_rows, pa.string())
    return windows.set_column(at, windows.schema.field(at), reasons)


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.Table.from_arrays(
        [array_of(list(values), field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )


def _run_bounds(
    bounds: Bounds,
    causes: Mapping[Place, Sequence[str]],
    kernels: Sequence[_Kernels],
    alone: Mapping[tuple[Place, str], int],
) -> dict[str, int]:
    """Return the bound of each cause, and of each class of kernels, on all ranks; empty where it is not known."""
    if bounds.run_abstains() is not None:
        return {}
    if len(bounds.places) == 1:
        return {name: saved_ns for (_, name), saved_ns in alone.items()}
    savings: dict[str, dict[Place, Savings]] = {}
    for item in kernels:
        savings.setdefault(item.name, {})[item.place] = item.savings
    asked = {cause: bounds.what_ifs(frozenset({cause})) for cause in sorted(set(chain(*causes.values())))}
    asked |= {name: bounds.what_ifs(frozenset(), of_places) for name, of_places in savings.items()}
    answers = bounds.runs(list(asked.values()))
    return {name: answer.saved_ns for name, answer in zip(asked, answers, strict=True)}


def _kernels(con: duckdb.DuckDBPyConnection) -> list[_Kernels]:
    table = con.sql(_KERNELS).to_arrow_table()
    dur_ns, op_id = column(table, "dur_ns"), column(table, "op_id")
    codes, names = codes_of(table["class"])
    keys = np.stack([column(table, "trace_id"), column(table, "device"), codes], axis=1)
    first = np.flatnonzero(np.any(np.diff(keys, axis=0, prepend=-1), axis=1)) if len(keys) else np.zeros(0, np.int64)
    groups = []
    for low, high in zip(first.tolist(), np.append(first, len(keys))[1:].tolist(), strict=True):
        trace_id, device, code = keys[low].tolist()
        shorter = dur_ns[low:high] - dur_ns[low:high] // FASTER
        savings = OpSavings(op_id[low:high], shorter)
        groups.append(_Kernels((trace_id, device), str(names[code]), high - low, int(dur_ns[low:high].sum()), savings))
    return groups
