"""The numbers behind the heat map of a report: the own time of each rank in each step, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.run import Run
from traceanalyzer.text.visible import as_cell

LAYOUTS = (".parquet", ".csv")
_STEPS = """
SELECT traces.trace, steps.device, list(steps.step ORDER BY steps.step)
FROM attribution.steps AS steps
JOIN canonical.traces AS traces USING (trace_id)
WHERE steps.kept
GROUP BY ALL
"""
# Each row is a device in a step.
_COLUMNS: dict[str, pa.DataType] = {
    "rank": pa.int32(),
    "trace": pa.string(),
    "device": pa.int32(),
    "step": pa.int64(),
    "role": pa.int32(),  # devices that run the same kernels equally often have the same number
    "own_ns": pa.int64(),  # time without communication
    "more_share": pa.float64(),  # by how much that is above the median of the role in this step
    "stands_out": pa.bool_(),  # the device is slower than its role in most steps
}


def check_layout(file: Path) -> None:
    """Raise TraceAnalyzerError for a file of another kind than those that can be written."""
    if file.suffix not in LAYOUTS:
        raise TraceAnalyzerError("names no kind of table", file, f"name a file that ends in {' or '.join(LAYOUTS)}")


def heat_map_table(run: Run, diagnosis: Diagnosis) -> pa.Table:
    """Return a row for each device and step; raise TraceAnalyzerError where devices cannot be compared."""
    if not diagnosis.ranks:
        hint = "it takes four devices or more, with equally many steps"
        raise TraceAnalyzerError("no devices can be compared step by step", str(run.root), hint)
    steps = {(trace, device): numbers for trace, device, numbers in run.connection.execute(_STEPS).fetchall()}
    rows = [
        (item.rank, item.trace, item.device, step, item.role, own_ns, more_share, item.stands_out is not None)
        for item in diagnosis.ranks
        for step, own_ns, more_share in zip(steps[item.trace, item.device], item.own_ns, item.more_share, strict=True)
    ]
    columns = zip(*rows, strict=True)
    return pa.table(
        {name: pa.array(values, kind) for (name, kind), values in zip(_COLUMNS.items(), columns, strict=True)}
    )


def write_heat_map(table: pa.Table, layout: str, target: IO[bytes]) -> None:
    if layout == ".csv":
        position = table.schema.get_field_index("trace")
        names = pa.array(map(as_cell, table.column(position).to_pylist()), pa.string())
        pyarrow.csv.write_csv(table.set_column(position, "trace", names), target)
    else:
        pq.write_table(table, target, compression="zstd")
