"""Which framework a program is written with, as the names in its trace show."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import duckdb

from traceanalyzer.ingest.sink import TraceSink


def recognise_framework(
    connection: duckdb.DuckDBPyConnection,
    sink: TraceSink,
    processes: Sequence[str] = (),
    *,
    by_pytorch: bool = False,
    vendor: str | None = None,
) -> str | None:
    """Return the most specific framework of the program, as `traces.framework` lists them; None: no name shows it.

    The sink's files of host slices and GPU work are finished. `processes` are the names of the trace's processes;
    `by_pytorch` says that PyTorch's own profiler recorded it, so that without better evidence it is a PyTorch program;
    `vendor` is that of all its devices.
    """
    parameters = {
        "host": sink.files("host_slices"),
        "gpu": sink.files("gpu_ops"),
        "processes": list(processes),
        "by_pytorch": by_pytorch,
        "vendor": vendor,
    }
    row = connection.execute(_query(), parameters).fetchall()[0]
    framework: str | None = row[0]
    return framework


@cache
def _query() -> str:
    return Path(__file__).with_name("framework.sql").read_text(encoding="utf-8")
