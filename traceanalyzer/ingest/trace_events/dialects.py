"""Files of other recorders that write trace-event JSON: what their processes, lanes and arrows mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import duckdb

from traceanalyzer.ingest.trace_events.chunks import sql

_WHOLE_US = "SELECT bool_and(start_ns % 1000 = 0) FROM read_parquet($other) WHERE phase = 's'"
_PROCESSES = """
SELECT DISTINCT args ->> '$.name'
FROM read_parquet($other)
WHERE phase = 'M' AND name = 'process_name'
"""
# Calls are numbered by themselves, and so is what they launched.
_LINK_HOST = """
UPDATE recast_host SET correlation = event_id
WHERE event_id IN (SELECT call_id FROM links) AND correlation IS NULL
"""
_LINK_GPU = """
UPDATE recast_gpu SET correlation = calls.correlation
FROM links
JOIN recast_host AS calls ON calls.event_id = links.call_id
WHERE links.event_id = recast_gpu.event_id AND recast_gpu.correlation IS NULL
"""


@dataclass(frozen=True)
class Recorder:
    """A recorder whose JSON needs words of its own.

    `arrow` begins the category of its arrows from calls to work. Where it `launches_later`, another thread may launch
    the work of an operator.
    """

    dialect: str | None  # its SQL file; None: its events have their kinds already
    recorder: str
    vendor: str | None
    is_it: Callable[[Collection[str]], bool]  # by the names of processes
    arrow: str = ""
    launches_later: bool = False


def _any(pattern: str) -> Callable[[Collection[str]], bool]:
    known = re.compile(pattern)
    return lambda processes: any(known.search(name) for name in processes)


RECORDERS = (
    Recorder(None, "rocprof", "amd", _any(r"^(\d+ )?CPU (HIP|HSA|KFD) API\b"), "DataFlow"),
    Recorder("rocprof2", "rocprof", "amd", lambda names: {"CPU", "GPU", "COPY", "HIPBLITKERNELS"} <= set(names)),
    Recorder(
        "ascend", "torch_npu", "ascend", lambda names: "Ascend Hardware" in names, "HostToDevice", launches_later=True
    ),
    Recorder("unitrace", "unitrace", "intel", _any(r"^(RANK \d+ )?DEVICE<"), "Flow_H2D"),
    Recorder("tensorflow", "tensorflow", None, _any(r"/(device:)?[gG][pP][uU]:\d+(/\S+)? Compute$")),
    Recorder("rpd", "rocprof", "amd", _any(r"^GPU\d+$"), "api_op"),
)

# Its Perfetto traces as JSON have categories of their own, and need no rewriting.
ROCPROFV3 = Recorder(None, "rocprof", "amd", lambda names: False)


def find_recorder(database: duckdb.DuckDBPyConnection, other: Collection[str]) -> Recorder | None:
    """Return which of these recorders wrote the file; None: none of them. `other` are the parts with naming events."""
    rows = database.execute(_PROCESSES, {"other": list(other)}).fetchall()
    names = {name for (name,) in rows if name is not None}
    return next((recorder for recorder in RECORDERS if recorder.is_it(names)), None)


def recast(
    database: duckdb.DuckDBPyConnection,
    stage: Path,
    recorder: Recorder,
    files: Callable[[str], list[str]],
    args: list[str],
) -> None:
    """Rewrite the parts of host slices and GPU work as the recorder means them; `args` are files of arguments."""
    known = {
        "other": files("other"),
        "host": files("host"),
        "gpu_events": files("gpu_events"),
        "gpu": files("gpu"),
        "args": args,
    }

    def run(name: str, **more: object) -> None:
        for statement in duckdb.extract_statements(sql(f"dialects/{name}")):
            wanted = {key: value for key, value in (known | more).items() if key in statement.named_parameters}
            database.execute(statement, wanted)

    run("recast")
    if recorder.dialect is not None:
        run(recorder.dialect)
    run("apply")
    for part, table in (("host", "recast_host"), ("gpu", "recast_gpu")):
        _replace(database, stage, part, table, known[part])
    if recorder.arrow:
        whole = database.execute(_WHOLE_US, {"other": known["other"]}).fetchall()[0][0]
        run("arrows", host=files("host"), arrow=recorder.arrow, unit=1000 if whole else 1)
        database.execute(_LINK_HOST)
        database.execute(_LINK_GPU)
        for part, table in (("host", "recast_host"), ("gpu", "recast_gpu")):
            _replace(database, stage, part, table, files(part))
    for table in ("recast", "recast_host", "recast_gpu", "lanes", "process_names", "links"):
        database.execute(f"DROP TABLE IF EXISTS {table}")


def _replace(database: duckdb.DuckDBPyConnection, stage: Path, part: str, table: str, before: list[str]) -> None:
    """Write a table in place of a part's files."""
    target = stage / f"{part}-recast.parquet.new"
    database.table(table).write_parquet(str(target))
    for file in before:
        Path(file).unlink()
    target.rename(stage / f"{part}-recast.parquet")
