"""rocpd databases: what rows mean, and what becomes of rows that are not as AMD's writer makes them."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.amd import AmdIngester
from traceanalyzer.ingest.amd.agents import QueueTimes
from traceanalyzer.schema import trace_tables
from tracesim import simulate
from tracesim.writers.rocpd import BOOTED_NS, write_rocpd

SUFFIX = "_0000cffb_c705_7dba_a6bc_8787feeb5e5b"
OTHER = "_0000cffc_c705_7dba_a6bc_8787feeb5e5b"
BASE = BOOTED_NS + 1  # as the recording begins
TOKEN = "hf_" + "x" * 30


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = simulate({"device": "MI300X", "steps": 2, "kernels": 4, "item_per_step": 1})
    return run.write_rocpd(tmp_path_factory.mktemp("rocpd") / "1_results.db")


@pytest.fixture
def database(simulated: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(simulated, tmp_path / "1_results.db"))


def change(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        for statement in statements:
            connection.execute(statement.replace("{s}", SUFFIX))
        connection.commit()


def insert(database: Path, table: str, **row: Any) -> None:
    with closing(sqlite3.connect(database)) as connection:
        names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO rocpd_{table}{SUFFIX} ({names}) VALUES ({marks})", list(row.values()))
        connection.commit()


def ask(database: Path, *queries: str) -> list[list[tuple[Any, ...]]]:
    """Return what queries say about the canonical tables of all traces of a file."""
    folder = Path(tempfile.mkdtemp(dir=database.parent, prefix="tables"))
    AmdIngester().ingest(database, folder, IngestOptions())
    with duckdb.connect() as connection:
        for table in trace_tables():
            files = [str(file) for file in folder.glob(f"*/{table}*.parquet")]
            if files:
                connection.from_parquet(files, union_by_name=True).create_view(table)
            else:
                connection.execute(trace_tables()[table].sql)
        return [connection.execute(query).fetchall() for query in queries]


# Every recording has the note about its clock.
DEFECTS = "SELECT defect, defect_count FROM defects WHERE defect <> 'clock-since-boot'"
REPEATED = """UPDATE rocpd_kernel_dispatch{s}
    SET dispatch_id = (SELECT max(dispatch_id) FROM rocpd_kernel_dispatch{s}) WHERE id = 1"""
WORKS = "SELECT count(*), count(launch_id), count(name), min(dur_ns) >= 0 FROM gpu_ops"


def test_a_database_is_a_trace_of_its_process(database: Path) -> None:
    change(
        database,
        f"""UPDATE rocpd_info_process{{s}} SET environment = '{json.dumps({"RANK": "3", "HF_TOKEN": TOKEN})}'""",
    )
    traces, devices, kinds = ask(
        database,
        "SELECT format, recorder, vendor, host, rank, base_ns FROM traces",
        "SELECT device, name, sm_count, warp_size, memory_bytes, max_threads_per_sm FROM devices",
        "SELECT DISTINCT category, raw_category FROM host_slices ORDER BY ALL",
    )
    assert traces == [("rocpd", "rocprof", "amd", "host0", 3, None)]
    assert devices == [(0, "AMD Instinct MI300X", 304, 64, 206_141_652_992, 2048)]
    assert kinds == [
        ("annotation", "MARKER_CORE_RANGE_API"),
        ("cpu_op", "MARKER_CORE_RANGE_API"),
        ("runtime", "HIP_RUNTIME_API_EXT"),
    ]
    for file in database.parent.rglob("*/*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes()


@pytest.mark.check
@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "5", "SLURM_NTASKS": "9"}, (3, 8)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "7"}, (2, 4)),
        ({"PMIX_RANK": "6", "PMI_RANK": "1", "PMI_SIZE": "7"}, (6, 7)),
        ({"PMI_RANK": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, (1, 2)),
        ({"SLURM_PROCID": 5, "SLURM_NTASKS": 9}, (5, 9)),
        ({"LOCAL_RANK": "3", "SLURM_LOCALID": "3", "NPROC": "8"}, (None, None)),
        ({"RANK": "first", "SLURM_PROCID": "4"}, (4, None)),
    ],
)
def test_ranks_are_what_launchers_say(
    database: Path, environment: dict[str, object], found: tuple[int | None, int | None]
) -> None:
    change(database, f"UPDATE rocpd_info_process{{s}} SET environment = '{json.dumps(environment)}'")
    (traces,) = ask(database, "SELECT rank, world_size FROM traces")
    assert traces == [found]


def test_a_call_of_no_length_and_a_marker_without_a_message_are_slices(database: Path) -> None:
    insert(database, "string", id=900, string="HIP_RUNTIME_API_EXT")
    insert(database, "string", id=901, string="MARKER_CORE_RANGE_API")
    insert(database, "string", id=902, string="prefill")
    insert(database, "event", id=9001, category_id=900, stack_id=77, extdata="{}")
    insert(database, "event", id=9002, category_id=901, stack_id=78, extdata="{}")
    insert(database, "track", id=1, tid=7, name_id=900)
    insert(database, "sample", id=1, track_id=1, timestamp=BASE, event_id=9001)
    insert(database, "region", id=78, tid=7, start=BASE, end=BASE + 50, name_id=902, event_id=9002)
    slices, marks = ask(
        database,
        f"""SELECT category, name, dur_ns, correlation FROM host_slices
            WHERE start_ns = {BASE} AND dur_ns <= 50 ORDER BY ALL""",
        "SELECT name FROM instants",
    )
    assert slices == [("annotation", "prefill", 50, 78), ("runtime", None, 0, 77)]
    assert marks == []


@pytest.mark.parametrize(("nid", "host"), [(99, "later"), (1234, "host0"), (None, "host0")])
def test_the_host_is_the_node_of_the_process(database: Path, nid: int | None, host: str) -> None:
    insert(database, "info_node", id=99, machine_id="m9", hostname="later")
    change(database, f"UPDATE rocpd_info_process{{s}} SET nid = {'NULL' if nid is None else nid}")
    (traces,) = ask(database, "SELECT host FROM traces")
    assert traces == [(host,)]


def test_nodes_of_graphs_and_zeros_for_none(database: Path) -> None:
    change(database, "UPDATE rocpd_kernel_dispatch{s} SET graph_exec_id = 5, graph_node_id = 6 WHERE id = 1")
    (found,) = ask(database, "SELECT graph_id, graph_node_id, count(*) > 1 FROM gpu_ops GROUP BY ALL ORDER BY ALL")
    assert found == [(5, 6, False), (None, None, True)]


# What is wrong with it, and the defect that counts it.
@pytest.mark.check
@pytest.mark.parametrize(
    ("statement", "defect"),
    [
        ("UPDATE rocpd_kernel_dispatch{s} SET kernel_id = 99 WHERE id = 1", ("missing-kernel", 1)),
        ("UPDATE rocpd_kernel_dispatch{s} SET agent_id = 99 WHERE id = 1", ("missing-agent", 1)),
        ("UPDATE rocpd_kernel_dispatch{s} SET event_id = 9999 WHERE id = 1", ("missing-event", 1)),
        ("UPDATE rocpd_kernel_dispatch{s} SET start = 0 WHERE id = 1", ("no-times", 1)),
        ('UPDATE rocpd_kernel_dispatch{s} SET "end" = start - 5 WHERE id = 1', ("negative-duration", 1)),
        ("UPDATE rocpd_kernel_dispatch{s} SET start = 9223372036854775807 WHERE id = 1", ("number-out-of-range", 1)),
        (
            REPEATED,
            ("repeated-dispatch", 1),
        ),
        ("UPDATE rocpd_kernel_dispatch{s} SET group_segment_size = 'many' WHERE id = 1", ("mixed-types", 1)),
        ("UPDATE rocpd_region{s} SET name_id = 9999, event_id = NULL WHERE id = 1", ("missing-string", 1)),
        ("UPDATE rocpd_region{s} SET start = 0 WHERE id = (SELECT max(id) FROM rocpd_region{s})", ("no-times", 1)),
        ("UPDATE rocpd_info_agent{s} SET type = 'TPU' WHERE type = 'GPU'", ("unknown-agent", 1)),
        ("UPDATE rocpd_info_agent{s} SET extdata = '{broken' WHERE type = 'GPU'", ("bad-json", 1)),
        *(
            (f"DROP TABLE rocpd_{table}{{s}}", ("missing-table", 1))
            for table in ("info_kernel_symbol", "string", "event", "region", "info_agent")
        ),
        ("ALTER TABLE rocpd_region{s} DROP COLUMN start", ("unreadable-table", 1)),
    ],
)
def test_a_bad_row_is_one_defect(database: Path, statement: str, defect: tuple[str, int]) -> None:
    ((before,),) = ask(database, WORKS)
    change(database, statement)
    (defects, (works,)) = ask(database, DEFECTS, WORKS)
    assert defect in defects
    is_lost = "dispatch" in statement and defect[0] in ("no-times", "number-out-of-range")
    assert works[0] == before[0] - is_lost
    assert works[3]


@pytest.mark.parametrize("table", ["kernel_dispatch", "memory_copy"])
def test_a_table_of_work_that_is_not_there_is_a_loss(table: str, database: Path) -> None:
    change(database, f"DROP TABLE rocpd_{table}{{s}}")
    defects, works = ask(database, "SELECT severity, example FROM defects WHERE defect = 'missing-table'", WORKS)
    assert defects == [("loss", f"rocpd_{table}")]
    assert works[0][0] > 0


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DROP TABLE rocpd_event{s}", "parts of the file could not be read, or values are not known; see the defects"),
        ("UPDATE rocpd_kernel_dispatch{s} SET start = 0 WHERE id = 1", "1 event or record left out in reading"),
    ],
)
def test_info_counts_as_left_out_only_events(
    statement: str, says: str, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(database, statement)
    assert main(["info", str(database), "--store", str(tmp_path / "store")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert says in said
    assert said.count("in reading") == said.count("left out in reading") == ("left out" in says)


def test_a_copy_of_a_negative_size_has_no_size(database: Path) -> None:
    change(database, "UPDATE rocpd_memory_copy{s} SET size = -5 WHERE id = (SELECT min(id) FROM rocpd_memory_copy{s})")
    defects, sizes = ask(
        database,
        "SELECT defect, defect_count, example FROM defects WHERE severity = 'loss'",
        "SELECT count(*) FROM gpu_ops WHERE copy_kind IS NOT NULL AND size_bytes IS NULL",
    )
    assert defects == [("number-out-of-range", 1, "a copy of fewer than 0 bytes")]
    assert sizes == [(1,)]


def test_two_gpus_of_one_number_are_two_devices(database: Path) -> None:
    """A file that was merged by hand holds the first GPU of two machines."""
    with closing(sqlite3.connect(database)) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info(rocpd_info_agent{SUFFIX})")]
    others = ", ".join(f'"{name}"' for name in columns if name not in ("id", "product_name"))
    change(
        database,
        f"""INSERT INTO rocpd_info_agent{{s}} (id, product_name, {others})
            SELECT id + 7, 'AMD Instinct MI308X', {others} FROM rocpd_info_agent{{s}} WHERE type = 'GPU'""",
        "UPDATE rocpd_kernel_dispatch{s} SET agent_id = agent_id + 7 WHERE id <= 3",
    )
    devices, works, defects = ask(
        database,
        "SELECT device, name FROM devices ORDER BY ALL",
        "SELECT device, count(*) FROM gpu_ops WHERE kind = 'kernel' GROUP BY ALL ORDER BY ALL",
        "SELECT defect, severity, defect_count, example FROM defects WHERE defect <> 'clock-since-boot'",
    )
    assert devices == [(0, "AMD Instinct MI300X"), (1, "AMD Instinct MI308X")]
    assert works[1] == (1, 3)
    assert works[0][1] > 3
    assert defects == [("repeated-agent", "note", 1, "GPU 0: AMD Instinct MI308X")]


def test_rows_that_are_odd_and_allowed_raise_nothing(database: Path) -> None:
    change(
        database,
        "UPDATE rocpd_kernel_dispatch{s} SET tid = NULL, grid_size_x = 0, workgroup_size_x = 0 WHERE id = 1",
        "CREATE VIEW rocpd_kernel_dispatch AS SELECT * FROM rocpd_kernel_dispatch{s} WHERE id < 3",
        "CREATE VIEW kernels AS SELECT abs(-9223372036854775808) AS id",
        "CREATE TRIGGER rocpd_event{s}_trigger AFTER INSERT ON rocpd_event{s} BEGIN SELECT 1; END",
        "CREATE TABLE rocpd_event_operation{s} (id INTEGER, operation TEXT)",
    )
    defects, works = ask(database, DEFECTS, WORKS)
    assert defects == []
    assert works[0][0] == works[0][1] > 8


def test_ranges_marks_and_allocations(database: Path) -> None:
    event = {"category_id": 900, "stack_id": 0}
    insert(database, "string", id=900, string="MARKER_CORE_API")
    insert(database, "string", id=901, string="roctxProcessRangeA")
    insert(database, "event", id=9001, **event, extdata='{"message": "mark"}')
    insert(database, "event", id=9002, **event, extdata='{"message": "request 7"}')
    insert(database, "track", id=1, tid=7, name_id=900)
    insert(database, "sample", id=1, track_id=1, timestamp=BASE, event_id=9001)
    insert(database, "sample", id=2, track_id=1, timestamp=0, event_id=9001)
    times = {"start": BASE, "end": BASE + 50}
    insert(database, "region", id=5001, tid=7, name_id=901, event_id=9002, **times)
    memory = {"tid": 7, "level": "REAL", "address": 4096}
    insert(database, "memory_allocate", **memory, **times, type="ALLOC", size=1024, agent_id=2)
    later = {"start": BASE + 60, "end": BASE + 70}
    insert(database, "memory_allocate", **memory, **later, type="FREE", size=0, agent_id=None)
    insert(database, "memory_allocate", **(memory | {"level": "SCRATCH"}), **later, type="ALLOC", size=9, agent_id=2)
    marks, crossing, allocations = ask(
        database,
        "SELECT name, start_ns FROM instants",
        "SELECT name, dur_ns, category FROM async_slices",
        "SELECT kind, device, size_bytes, start_ns FROM memory_events ORDER BY start_ns",
    )
    assert marks == [("mark", BASE)]
    assert crossing == [("request 7", 50, "async")]
    assert allocations == [("alloc", 0, 1024, BASE + 50), ("free", 0, -1024, BASE + 70)]


def test_counters_are_sums_over_the_instances_of_the_hardware(database: Path) -> None:
    insert(database, "info_pmc", id=4, name="SQ_WAVES", symbol="SQ_WAVES")
    event = "(SELECT event_id FROM rocpd_kernel_dispatch{s} WHERE id = 2)"
    change(
        database,
        *[
            f"INSERT INTO rocpd_pmc_event{{s}} (event_id, pmc_id, value) VALUES ({event}, 4, {value})"
            for value in (3, 4)
        ],
    )
    (counters,) = ask(database, "SELECT name, value, start_ns > 0, series <> '' FROM counters")
    assert counters == [("SQ_WAVES", 7.0, True, True)]


def test_counters_that_are_read_while_a_kernel_runs_are_rows_at_their_times(database: Path) -> None:
    event = "(SELECT event_id FROM rocpd_kernel_dispatch{s} WHERE id = 2)"
    insert(database, "info_pmc", id=4, name="SQ_WAVES", symbol="SQ_WAVES")
    change(
        database,
        "ALTER TABLE rocpd_pmc_event{s} ADD COLUMN sample_id INTEGER",
        "ALTER TABLE rocpd_pmc_event{s} ADD COLUMN xcc INTEGER",
        "INSERT INTO rocpd_track{s} (id) VALUES (1)",
        *[
            f"INSERT INTO rocpd_sample{{s}} (id, track_id, timestamp, event_id) VALUES ({at}, 1, {BASE + at}, {event})"
            for at in (5, 6)
        ],
        f"INSERT INTO rocpd_pmc_event{{s}} (event_id, pmc_id, value) VALUES ({event}, 4, 7)",
        *[
            f"INSERT INTO rocpd_pmc_event{{s}} (event_id, sample_id, xcc, pmc_id, value) "
            f"VALUES ({event}, {at}, {xcc}, 4, {10 * at + xcc})"
            for at in (5, 6)
            for xcc in (0, 1)
        ],
    )
    counters, marks = ask(
        database,
        f"SELECT name, start_ns - {BASE}, value, series <> '' FROM counters ORDER BY value",
        "SELECT count(*) FROM instants",
    )
    assert [row for row in counters if row[2] > 7] == [("SQ_WAVES", 5, 101.0, True), ("SQ_WAVES", 6, 121.0, True)]
    assert [row[2] for row in counters] == [7.0, 101.0, 121.0]
    assert marks == [(0,)]


def test_the_load_of_a_device_is_a_counter_and_no_mark(database: Path) -> None:
    insert(database, "info_pmc", id=4, name="device_busy_gfx", symbol="gfx_activity")
    insert(database, "string", id=900, string="GPU [0] Busy")
    insert(database, "track", id=1, name_id=900)
    for at, share in ((1, 20.0), (2, 80.0)):
        insert(database, "event", id=9000 + at, category_id=900, stack_id=0, extdata="{}")
        insert(database, "sample", id=at, track_id=1, timestamp=BASE + at, event_id=9000 + at)
        insert(database, "pmc_event", event_id=9000 + at, pmc_id=4, value=share)
    counters, marks, defects = ask(
        database,
        f"SELECT name, series, start_ns - {BASE}, value FROM counters ORDER BY ALL",
        "SELECT count(*) FROM instants",
        DEFECTS,
    )
    assert counters == [("gfx_activity", "GPU [0] Busy", 1, 20.0), ("gfx_activity", "GPU [0] Busy", 2, 80.0)]
    assert marks == [(0,)]
    assert defects == []


def test_calls_of_rocprof_sys_have_the_categories_of_rocprofv3(database: Path) -> None:
    change(database, "UPDATE rocpd_string{s} SET string = 'rocm_hip_api' WHERE string = 'HIP_RUNTIME_API_EXT'")
    works, kinds = ask(database, WORKS, "SELECT DISTINCT raw_category FROM host_slices WHERE category = 'runtime'")
    assert kinds == [("rocm_hip_api",)]
    assert works[0][0] == works[0][1]


def test_repetitions_of_a_dispatch_are_no_work(database: Path) -> None:
    change(
        database,
        "ALTER TABLE rocpd_kernel_dispatch{s} ADD COLUMN replay_pass INTEGER DEFAULT 0",
        "UPDATE rocpd_kernel_dispatch{s} SET replay_pass = 1 WHERE id IN (1, 2)",
    )
    (defects,) = ask(database, DEFECTS)
    assert ("replayed-dispatch", 2) in defects


def test_kernels_of_hip_and_copies_between_devices(database: Path) -> None:
    insert(database, "info_kernel_symbol", id=801, display_name="__amd_rocclr_copyBuffer")
    insert(database, "string", id=900, string="MEMORY_COPY_DEVICE_TO_DEVICE")
    insert(database, "info_agent", id=9, type="GPU", type_index=4, product_name="AMD Instinct MI300X")
    times = {"start": BASE, "end": BASE + 50}
    insert(database, "kernel_dispatch", **times, agent_id=9, kernel_id=801, dispatch_id=801)
    insert(database, "memory_copy", **times, src_agent_id=2, dst_agent_id=9, name_id=900, size=64)
    (works,) = ask(
        database, f"SELECT kind, copy_kind, size_bytes, device FROM gpu_ops WHERE start_ns = {BASE} ORDER BY ALL"
    )
    assert works == [("memcpy", "PtoP", 64, 4), ("memcpy", None, None, 4)]


def test_a_copy_that_the_host_makes_by_itself_is_no_work_of_a_device(database: Path) -> None:
    insert(database, "string", id=900, string="MEMORY_COPY_HOST_TO_HOST")
    insert(database, "memory_copy", start=BASE, end=BASE + 50, src_agent_id=0, dst_agent_id=1, name_id=900, size=64)
    works, copies, defects = ask(
        database,
        f"SELECT count(*) FROM gpu_ops WHERE start_ns = {BASE} AND kind = 'memcpy'",
        "SELECT name, dur_ns, args FROM async_slices JOIN event_args USING (event_id)",
        DEFECTS,
    )
    assert works == [(0,)]
    assert copies == [("MEMORY_COPY_HOST_TO_HOST", 50, '{"bytes": 64}')]
    assert defects == []


def test_a_copy_of_no_bytes_has_an_unknown_size(database: Path) -> None:
    insert(database, "string", id=900, string="MEMORY_COPY_HOST_TO_DEVICE")
    insert(database, "memory_copy", start=BASE, end=BASE + 50, src_agent_id=1, dst_agent_id=2, name_id=900, size=0)
    (sizes,) = ask(database, f"SELECT size_bytes FROM gpu_ops WHERE start_ns = {BASE} AND kind = 'memcpy'")
    assert sizes == [(None,)]


def test_a_simulated_copy_between_devices_names_both(tmp_path: Path) -> None:
    step = [{"replicas": {"mb": 4}, "do": [{"kernel": {"us": 60}}]}]
    run = simulate({"device": "MI300X", "steps": 1, "device_count": 2, "program": step})
    (kinds,) = ask(run.write_rocpd(tmp_path / "1_results.db"), "SELECT DISTINCT copy_kind FROM gpu_ops ORDER BY ALL")
    assert ("PtoP",) in kinds


def test_a_merged_file_has_a_trace_for_each_process(database: Path, tmp_path: Path) -> None:
    run = simulate({"device": "MI300X", "steps": 1, "kernels": 3})
    other = write_rocpd(tmp_path / "other.db", run.scenario, run.recorded, run.seed, suffix=OTHER)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("ATTACH ? AS s", (str(other),))
        for name, text in connection.execute("SELECT name, sql FROM s.sqlite_master WHERE type = 'table'").fetchall():
            connection.execute(text)
            connection.execute(f'INSERT INTO main."{name}" SELECT * FROM s."{name}"')
        connection.commit()
    other.unlink()
    (traces,) = ask(database, "SELECT count(*), count(DISTINCT trace) FROM traces")
    assert traces == [(2, 2)]


@pytest.mark.sampled
@pytest.mark.parametrize("table", ["kernel_dispatch", "region", "event"])
def test_an_empty_table_is_no_error(database: Path, table: str) -> None:
    change(database, f"DELETE FROM rocpd_{table}{{s}}")
    defects, works = ask(database, DEFECTS, WORKS)
    assert (works[0][0] > 0) or ("no-gpu-work", 1) in defects


@pytest.mark.parametrize(
    "sign",
    [
        "UPDATE rocpd_metadata{s} SET value = '4.1.0' WHERE tag = 'schema_version'",
        "UPDATE rocpd_metadata{s} SET value = '5' WHERE tag = 'schema_version'",
        "UPDATE rocpd_metadata{s} SET value = '10.0.0' WHERE tag = 'schema_version'",
        "INSERT INTO rocpd_metadata{s} (tag, value) VALUES ('compression', 'lz4-frame-v1')",
    ],
)
def test_schemas_after_3_are_refused_by_name(database: Path, sign: str) -> None:
    change(database, sign)
    with pytest.raises(TraceAnalyzerError, match="schema"):
        ask(database, DEFECTS)


def test_a_database_that_was_cut_gives_what_can_be_read_or_one_error(database: Path) -> None:
    whole = database.read_bytes()
    for share in (0.3, 0.9):
        database.write_bytes(whole[: int(len(whole) * share)])
        try:
            (defects,) = ask(database, DEFECTS)
        except TraceAnalyzerError:
            continue
        assert "unreadable-rows" in dict(defects)


def test_rows_in_any_order_give_the_same(database: Path) -> None:
    query = "SELECT name, start_ns, dur_ns, correlation FROM gpu_ops ORDER BY ALL"
    (before,) = ask(database, query)
    change(
        database,
        "CREATE TABLE shuffled AS SELECT * FROM rocpd_kernel_dispatch{s} ORDER BY id DESC",
        "DELETE FROM rocpd_kernel_dispatch{s}",
        "UPDATE shuffled SET id = 1000 - id",
        "INSERT INTO rocpd_kernel_dispatch{s} SELECT * FROM shuffled ORDER BY id",
    )
    assert ask(database, query) == [before]


def test_streams_that_share_a_queue_overlap_once_for_each_kernel(database: Path) -> None:
    (ordered,) = ask(database, "SELECT op_id, start_ns, dur_ns FROM gpu_ops WHERE kind = 'kernel' ORDER BY start_ns")
    (before,) = ask(database, "SELECT defect FROM defects WHERE defect = 'overlap-in-queue'")
    assert before == []
    early = ordered[1][1] - ordered[0][1] - ordered[0][2] + 300
    change(
        database,
        "UPDATE rocpd_kernel_dispatch{s} SET stream_id = 100 + id, queue_id = 1",
        f"UPDATE rocpd_kernel_dispatch{{s}} SET start = start - {early} WHERE start = {ordered[1][1]}",
    )
    defects, streams, queues = ask(
        database,
        "SELECT defect_count, example FROM defects WHERE defect = 'overlap-in-queue'",
        "SELECT count(DISTINCT stream) FROM gpu_ops WHERE kind = 'kernel'",
        """SELECT DISTINCT args ->> '$.queue' FROM event_args
            JOIN gpu_ops ON gpu_ops.op_id = event_args.event_id WHERE kind = 'kernel'""",
    )
    assert defects == [(1, "by up to 300 ns")]
    assert streams == [(len(ordered),)]
    assert queues == [("1",)]


def test_work_of_a_damaged_duration_is_no_inexact_time_of_what_is_behind_it() -> None:
    queues, start = QueueTimes(), 1_000 * np.arange(1, 100)
    end = start + 900
    end[[9, 50]] = start[9] + 5 * 10**9, start[51] + 40
    one = np.zeros(len(start), np.int64)
    queues.add(one, one, start, end, start)
    assert queues.overlaps() == (0, 0)
    inexact = QueueTimes()
    end[9] = start[9] + 900
    inexact.add(one, one, start, end, start)
    assert inexact.overlaps() == (1, 40)


def test_overlaps_of_queues_are_those_of_brute_force_in_any_batches() -> None:
    chosen = random.Random(3)
    rows = [(chosen.randrange(2), chosen.randrange(3), chosen.randrange(90), chosen.randrange(9)) for _ in range(200)]
    queues, early = QueueTimes(), []
    for at in range(0, len(rows), 30):
        device, queue, start, dur = (np.array(column, np.int64) for column in zip(*rows[at : at + 30], strict=True))
        queues.add(device, queue, start, start + dur, start)
    for place in {row[:2] for row in rows}:
        times = sorted((start, start + dur) for *where, start, dur in rows if tuple(where) == place)
        early += [max(end for _, end in times[:at]) - times[at][0] for at in range(1, len(times))]
    assert queues.overlaps() == (sum(one > 0 for one in early), max(early))
    assert queues.repeated() == len(rows) - len({start for *_, start, _ in rows})
