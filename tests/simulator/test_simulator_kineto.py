"""Written traces against the tables built directly: reading one must give the other."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.trace_events import TraceEventIngester
from tracesim import SimulatedRun, simulate
from tracesim.writers.kineto import Dialect

EVERYTHING: dict[str, Any] = {
    "steps": 3,
    "kernels": 20,
    "op_us": 3,
    "item_per_step": 1,
    "comm_us": 300,
    "world_size": 2,
    "sync_events": True,
    "memory": True,
    "stacks": True,
    "module_load_us": 500,
    "overhead_us": 30,
    "gc_us": 100,
    "compile_us": 50,
    "attention": "unfused",
    "attention_layers": 2,
    "malloc_per_step": 2,
    "free_per_step": 1,
}


def ingested(path: Path, folder: Path) -> Path:
    """Ingest a file and return the folder of its one trace."""
    folder.mkdir()
    TraceEventIngester().ingest(path, folder, IngestOptions())
    return folder / "0"


def assert_same_rows(run: SimulatedRun, folder: Path, tables: tuple[str, ...]) -> None:
    """Compare tables column by column; threads by what the trace calls them, as their numbers are the reader's own."""
    expected = run.canonical_tables()
    with duckdb.connect() as database:
        database.register("built_threads", expected["threads"])
        database.execute(f"CREATE VIEW read_threads AS FROM '{folder}/threads.parquet'")
        for table in tables:
            database.register("built", expected[table])
            file = folder / f"{table}.parquet"
            if not file.is_file():
                assert not expected[table].num_rows, f"{table}: none read"
                continue
            database.execute(f"CREATE OR REPLACE VIEW read AS FROM '{file}'")
            names = expected[table].column_names
            columns = ", ".join(name for name in names if name not in ("trace_id", "thread_id"))
            by_thread = "thread_id" in names
            rows = {
                side: f"SELECT {columns}{', pid, tid' if by_thread else ''} FROM {side}"
                + (f" LEFT JOIN {side}_threads USING (thread_id)" if by_thread else "")
                for side in ("read", "built")
            }
            for left, right in (("read", "built"), ("built", "read")):
                rest = database.sql(f"{rows[left]} EXCEPT ALL {rows[right]}").fetchall()
                assert not rest, f"{table}: rows only {left}"
            assert database.sql("SELECT count(*) FROM read").fetchall() == [(expected[table].num_rows,)]


@pytest.mark.check
@pytest.mark.parametrize(
    ("scenario", "dialect"),
    [
        (EVERYTHING, "2025"),
        (EVERYTHING, "2024"),
        ({"steps": 2, "kernels": 20, "jitter": 0.2, "h2d_pinned": False, "drop_kernels": 0.1}, "2024"),
        ({"steps": 2, "kernels": 5, "carry_in": 4}, "2025"),
        ({"steps": 2, "kernels": 10, "graph": True}, "2025"),
        ({"steps": 2, "kernels": 10, "no_gpu": True}, "2025"),
        (
            {"steps": 2, "device_count": 2, "sync_events": True, "program": [{"replicas": {}, "do": [{"kernel": 5}]}]},
            "2025",
        ),
        ({"steps": 2, "kernels": 10, "blocking_launches": True, "core_clock": 0.8}, "2025"),
        (
            {
                "steps": 2,
                "memory": True,
                "program": [{"capture": {}, "do": [{"kernel": 5}]}, {"graph": {}}, {"oom": 9}],
            },
            "2025",
        ),
        ({"steps": 2, "kernels": 10, "truncate": 0.1}, "2025"),
        ({"steps": 2, "kernels": 10, "truncate": 0.6, "clock_offset_us": -12.5}, "2025"),
        ({"steps": 2, "kernels": 20, "device": "MI300X"}, "rocm"),
    ],
)
def test_reading_a_written_trace_gives_the_tables_built_directly(
    scenario: dict[str, Any], dialect: Dialect, tmp_path: Path
) -> None:
    run = simulate(scenario, seed=3)
    folder = ingested(run.write_kineto(tmp_path / "trace.json", dialect), tmp_path / "tables")
    assert_same_rows(run, folder, ("host_slices", "gpu_ops", "syncs", "memory_events", "devices", "async_slices"))


def test_the_dialect_of_2021_has_whole_microseconds_and_threads_as_text(tmp_path: Path) -> None:
    run = simulate({"steps": 2, "kernels": 6, "h2d_us": 40})
    path = run.write_kineto(tmp_path / "trace.json", "2021")
    events = json.loads(path.read_text())["traceEvents"]
    kernel = next(event for event in events if event.get("cat") == "Kernel")
    assert isinstance(kernel["ts"], int)
    assert kernel["tid"] == "stream 7"
    # Every cost of this scenario is a whole number of microseconds, so nothing is lost.
    folder = ingested(path, tmp_path / "tables")
    with duckdb.connect() as database:
        read = database.sql(f"SELECT start_ns, dur_ns, name, stream FROM '{folder}/gpu_ops.parquet' ORDER BY ALL")
        database.register("built", run.canonical_tables()["gpu_ops"])
        built = database.sql("SELECT start_ns, dur_ns, name, stream FROM built ORDER BY ALL")
        assert read.fetchall() == built.fetchall()


def test_the_dialect_of_2025_is_laid_out_as_kineto_does_it(tmp_path: Path) -> None:
    text = simulate({"steps": 1, "kernels": 1}).write_kineto(tmp_path / "trace.json").read_text()
    head, _, rest = text.partition('  "traceEvents": [\n')
    assert head.startswith('\n{\n  "schemaVersion": 1,\n  "deviceProperties": [\n')
    assert '  "baseTimeNanoseconds": 1775078550000000000,\n' in head
    assert rest.startswith(
        '  {\n    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 4242, "tid": 4242,'
    )
    assert '"name": "Record Window End"' in rest.splitlines()[-6]
    assert rest.endswith('  ],\n  "traceName": "simulated.json"\n}')


def test_the_same_run_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    paths = [simulate({"steps": 1}).write_kineto(tmp_path / name / "t.json.gz") for name in ("a", "b")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert json.loads(gzip.decompress(paths[0].read_bytes()))["schemaVersion"] == 1


def test_the_rocm_dialect_wants_an_amd_device(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="rocm dialect needs an AMD device"):
        simulate({"steps": 1}).write_kineto(tmp_path / "t.json", "rocm")


def test_dropped_kernels_keep_their_launches() -> None:
    whole, lossy = (simulate({"steps": 2, "kernels": 50, "drop_kernels": share}) for share in (0, 0.1))
    counts = [
        [run.canonical_tables()[table].num_rows for table in ("gpu_ops", "host_slices")] for run in (whole, lossy)
    ]
    assert counts[1] == [round(counts[0][0] * 0.9), counts[0][1]]


def test_carried_in_kernels_have_no_launch() -> None:
    ops = simulate({"steps": 2, "kernels": 5, "carry_in": 3}).canonical_tables()["gpu_ops"]
    assert ops["launch_id"].null_count == 3
