"""Whatever a file of AMD's recorders holds, reading it ends in tables with counted defects, or in one clear error."""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from fuzz.mutating import mutate_bytes, mutate_sqlite

import traceanalyzer as ta
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.amd import AmdIngester
from traceanalyzer.schema import trace_tables
from tracesim import simulate

SEEDS = range(40)
KERNELS = ",".join(
    ("Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Kernel_Name", "Correlation_Id", "Start_Timestamp", "End_Timestamp")
)
ROW = 'KERNEL_DISPATCH,Agent 1,1,1,"void k<int, float>(int)",{0},{1},{2}'
CALLS = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"'
CALL = 'HIP_RUNTIME_API,hipLaunchKernel,7,7,{0},"{1}",{2}'


def rocpd(folder: Path) -> Path:
    return simulate({"device": "MI300X", "steps": 2, "kernels": 4, "item_per_step": 1}).write_rocpd(folder / "a.db")


def tool(**changes: Any) -> dict[str, Any]:
    """Return one process as rocprofv3's JSON has it."""
    operations = {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel"]}
    copies = {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]}
    kernels = {"kind": "KERNEL_DISPATCH", "operations": ["KERNEL_DISPATCH_COMPLETE"]}
    side = {"x": 256, "y": 1, "z": 1}
    info = {"agent_id": {"handle": 9}, "queue_id": {"handle": 1}, "kernel_id": 5, "dispatch_id": 1}
    info |= {"private_segment_size": 0, "group_segment_size": 0, "workgroup_size": side, "grid_size": side}

    def at(start: int, kind: int, operation: int = 0, **more: Any) -> dict[str, Any]:
        ids = {"internal": 1, "external": 0}
        record = {"kind": kind, "operation": operation, "thread_id": 7, "correlation_id": ids}
        return {**record, "start_timestamp": start, "end_timestamp": start + 50, **more}

    return {
        "metadata": {"pid": 7, "node": {"hostname": "host0"}, "command": ["./program"]},
        "agents": [{"id": {"handle": 9}, "type": 2, "logical_node_type_id": 0, "product_name": "AMD Instinct MI300X"}],
        "kernel_symbols": [{"kernel_id": 5, "formatted_kernel_name": "gemm", "arch_vgpr_count": 32}],
        "strings": {"buffer_records": [operations, copies, kernels], "marker_api": []},
        "buffer_records": {
            "kernel_dispatch": [at(1_000, 2, dispatch_info=info, stream_id={"handle": 1})],
            "hip_api": [at(900, 0)],
            "memory_copy": [
                at(
                    2_000,
                    1,
                    1,
                    dst_agent_id={"handle": 9},
                    src_agent_id={"handle": 3},
                    bytes=64,
                    stream_id={"handle": 1},
                )
            ],
        },
        **changes,
    }


HOUR_NS = 3_600 * 10**9


@pytest.mark.check
@pytest.mark.parametrize(
    ("damage", "defect", "lost"),
    [
        ('SET start = 1, "end" = 9 WHERE start = (SELECT min(start) FROM work)', "far-timestamp", 1),
        (f'SET start = start + {9_000 * HOUR_NS}, "end" = "end" + {9_000 * HOUR_NS} '
         "WHERE start = (SELECT max(start) FROM work)", "far-timestamp", 1),
        (f'SET "end" = "end" + {HOUR_NS} WHERE id = (SELECT min(id) + 40 FROM work)', "overrun-duration", 0),
    ],
    ids=["far before", "far behind", "too long"],
)  # fmt: skip
def test_one_damaged_time_changes_nothing_but_one_kernel(damage: str, defect: str, lost: int, tmp_path: Path) -> None:
    kernels = "SELECT count(*), max(start_ns + dur_ns) - min(start_ns) FROM gpu_ops WHERE kind = 'kernel'"

    def found(name: str) -> tuple[int, int, list[Any]]:
        path = tmp_path / name
        with ta.open(path, store=tmp_path / f"store {name}", attribution=False) as run:
            ((count, span_ns),) = run.sql(kernels).fetchall()
            defects = run.sql("SELECT defect, defect_count FROM defects WHERE severity <> 'note'").fetchall()
        return count, span_ns, defects

    job = simulate({"device": "MI300X", "steps": 4, "kernels": 20})
    for name in ("sound.db", "damaged.db"):
        path = job.write_rocpd(tmp_path / name)
    with closing(sqlite3.connect(path)) as database:
        query = "SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_kernel_dispatch%' AND type = 'table'"
        ((table,),) = database.execute(query)
        changed = database.execute(f'UPDATE "{table}" ' + damage.replace("FROM work", f'FROM "{table}"'))
        assert changed.rowcount == 1
        database.commit()
    count, span_ns, defects = found("sound.db")
    assert defects == []
    found_count, found_ns, found_defects = found("damaged.db")
    assert found_count == count - lost
    assert abs(found_ns - span_ns) < 0.05 * span_ns
    assert found_defects == [(defect, 1)]


def sdk_json(folder: Path) -> Path:
    file = folder / "a_results.json"
    file.write_text(json.dumps({"rocprofiler-sdk-tool": [tool()]}))
    return file


def csv_set(folder: Path) -> Path:
    times = [(number, 1_000 + 100 * number, 1_050 + 100 * number) for number in range(1, 9)]
    (folder / "a_hip_api_trace.csv").write_text("\n".join([CALLS, *(CALL.format(*row) for row in times)]))
    file = folder / "a_kernel_trace.csv"
    file.write_text("\n".join([KERNELS, *(ROW.format(*row) for row in times)]))
    return file


@pytest.mark.parametrize("name", ["hipStreamSynchronize", "hipLaunchKernel", "hipMemcpyAsync"])
def test_an_id_that_many_calls_share_ties_no_work(name: str, tmp_path: Path) -> None:
    times = [(5 if number < 30 else number, 1_000 + 100 * number, 1_050 + 100 * number) for number in range(1, 41)]
    calls = [CALL.format(*row).replace("hipLaunchKernel", name if row[0] == 5 else "hipLaunchKernel") for row in times]
    (tmp_path / "a_hip_api_trace.csv").write_text("\n".join([CALLS, *calls]))
    work = [ROW.format(own, start + 60, end + 30) for own, start, end in times[28:]]
    (tmp_path / "a_kernel_trace.csv").write_text("\n".join([KERNELS, *work]))
    tables = read(tmp_path / "a_kernel_trace.csv")
    assert isinstance(tables, dict)
    assert [row["launch_id"] is None for row in tables["gpu_ops"]] == [True] + [False] * 11


def rpd(folder: Path) -> Path:
    file = folder / "a.rpd"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            """
            CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);
            CREATE TABLE rocpd_metadata (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
            CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start INTEGER, "end" INTEGER,
                apiName_id INTEGER, args_id INTEGER);
            CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INTEGER, queueId INTEGER, sequenceId INTEGER,
                completionSignal TEXT, start INTEGER, "end" INTEGER, description_id INTEGER, opType_id INTEGER);
            CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id INTEGER, op_id INTEGER);
            INSERT INTO rocpd_string VALUES (1, 'hipLaunchKernel'), (2, ''), (3, 'KernelExecution'), (4, 'gemm'),
                (5, 'hipMalloc'), (6, 'ptr=0x10 | size=0x40');
            INSERT INTO rocpd_metadata VALUES (1, 'schema_version', '2');
            INSERT INTO rocpd_api VALUES (1, 7, 7, 900, 950, 1, 2), (2, 7, 7, 800, 850, 5, 6),
                (3, 8, 8, 900, 950, 1, 2);
            INSERT INTO rocpd_op VALUES (1, 0, 0, 0, '', 1000, 1050, 4, 3), (2, 1, 0, 0, '', 1000, 1050, 4, 3);
            INSERT INTO rocpd_api_ops VALUES (1, 1, 1), (2, 3, 2);
            """
        )
        connection.commit()
    return file


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("statement", "defect"),
    [
        ("UPDATE rocpd_op SET gpuId = NULL WHERE id = 1", ("missing-agent", 1)),
        ("UPDATE rocpd_op SET gpuId = -1 WHERE id = 1", ("missing-agent", 1)),
        ("UPDATE rocpd_op SET opType_id = 99 WHERE id = 1", ("missing-string", 1)),
        ("DROP TABLE rocpd_api_ops", ("missing-table", 1)),
    ],
)
def test_a_bad_row_of_rpd_is_one_defect_and_keeps_its_work(
    statement: str, defect: tuple[str, int], tmp_path: Path
) -> None:
    file = rpd(tmp_path)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()
    tables = read(file)
    assert not isinstance(tables, str)
    assert len(tables["gpu_ops"]) == 2
    assert defect in [(row["defect"], row["defect_count"]) for row in tables["defects"]]


CONTAINERS: dict[str, Callable[[Path], Path]] = {"rocpd": rocpd, "json": sdk_json, "csv": csv_set, "rpd": rpd}


def read(file: Path) -> dict[str, list[dict[str, Any]]] | str:
    """Return the tables of all traces of a file, or the one sentence that says why there are none."""
    folder = Path(tempfile.mkdtemp(dir=file.parent, prefix="tables"))
    try:
        AmdIngester().ingest(file, folder, IngestOptions())
    except TraceAnalyzerError as error:
        return str(error)
    found = {}
    with duckdb.connect() as connection:
        for table in trace_tables():
            files = [str(path) for path in folder.glob(f"*/{table}*.parquet")]
            found[table] = (
                connection.from_parquet(files, union_by_name=True).to_arrow_table().to_pylist() if files else []
            )
    assert all(row["dur_ns"] >= 0 for table in ("gpu_ops", "host_slices") for row in found[table])
    return found


def changed_json(text: bytes, chosen: random.Random) -> bytes:
    """Return JSON with one value replaced, or with its bytes changed."""
    document = json.loads(text)
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            walk(value[key])

    walk(document["rocprofiler-sdk-tool"])
    holder, key = chosen.choice(places)
    holder[key] = chosen.choice(
        [None, -1, 2**63, 2**64, 1.5, "x", [], {}, True, 10**30, "é\u202e", [[]], {"handle": "x"}]
    )
    return json.dumps(document).encode()


def mutated(container: str, file: Path, seed: int) -> None:
    """Change the values of a file, or its bytes, or cut it."""
    chosen = random.Random(seed)
    data = file.read_bytes()
    way = chosen.randrange(3)
    if way == 0:
        data = data[: chosen.randrange(len(data))]
    elif way == 1:
        data = mutate_bytes(data, chosen)
    elif container == "json":
        data = changed_json(data, chosen)
    elif container in ("rocpd", "rpd"):
        data = mutate_sqlite(data, chosen, file).data
    else:
        words = data.split(b",")
        words[chosen.randrange(len(words))] = chosen.choice([b"", b'"', b"x\n", b"-1", b"9" * 30, b"\xff\xfe", b"\x00"])
        data = b",".join(words)
    file.write_bytes(data)


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_whole_file_is_read(container: str, tmp_path: Path) -> None:
    tables = read(CONTAINERS[container](tmp_path))
    assert not isinstance(tables, str)
    assert tables["gpu_ops"]
    assert all(op["launch_id"] is not None for op in tables["gpu_ops"] if op["kind"] == "kernel")


@pytest.mark.check
@pytest.mark.parametrize("container", CONTAINERS)
def test_damaged_files_are_one_error_or_counted_defects(container: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        file = CONTAINERS[container](folder)
        mutated(container, file, seed)
        read(file)


@pytest.mark.parametrize(
    ("change", "example"),
    [
        ({"kind": 99}, "kind 99, operation 0"),
        ({"kind": "HIP"}, "kind HIP, operation 0"),
        ({"operation": 99}, "HIP_RUNTIME_API, operation 99"),
    ],
)
def test_a_call_of_an_unknown_operation_is_kept_and_the_defect_names_it(
    change: dict[str, Any], example: str, tmp_path: Path
) -> None:
    one = tool()
    one["buffer_records"]["hip_api"][0].update(change)
    file = tmp_path / "a_results.json"
    file.write_text(json.dumps({"rocprofiler-sdk-tool": [one]}))
    tables = read(file)
    assert not isinstance(tables, str)
    assert [(row["name"], row["dur_ns"]) for row in tables["host_slices"]] == [(None, 50)]
    found = [(row["defect_count"], row["example"]) for row in tables["defects"] if row["defect"] == "unknown-operation"]
    assert found == [(1, example)]


@pytest.mark.sampled
@pytest.mark.parametrize("table", ["hip_api", "kernel"])
@pytest.mark.parametrize(
    ("column", "text", "defects"),
    [
        ("Start_Timestamp", "soon", {"mixed-types", "no-times"}),
        ("End_Timestamp", "soon", {"mixed-types", "no-times"}),
        ("End_Timestamp", "", {"no-times"}),
        ("End_Timestamp", str(2**63), {"number-out-of-range", "no-times"}),
        ("Start_Timestamp", "0", {"no-times"}),
        ("End_Timestamp", "7", {"negative-duration"}),
        ("Correlation_Id", "x", {"mixed-types"}),
    ],
)
def test_a_row_of_a_table_is_left_out_where_its_defect_says_so(
    table: str, column: str, text: str, defects: set[str], tmp_path: Path
) -> None:
    leader = csv_set(tmp_path)
    file = tmp_path / f"a_{table}_trace.csv"
    lines = file.read_text().splitlines()
    names = [name.strip('"') for name in lines[0].split(",")]
    place = names.index(column) - len(names)
    *rest, last = lines
    cells = last.split(",")
    cells[place] = text
    file.write_text("\n".join([*rest, ",".join(cells), ""]))
    tables = read(leader)
    assert not isinstance(tables, str)
    counted = {row["defect"]: row["defect_count"] for row in tables["defects"] if row["severity"] != "note"}
    assert counted == dict.fromkeys(defects, 1)
    rows = tables["host_slices" if table == "hip_api" else "gpu_ops"]
    assert len(rows) == (7 if "no-times" in defects else 8)
    assert (0 in [row["dur_ns"] for row in rows]) is ("negative-duration" in defects)
