"""Sentences on the formats of AMD's recorders, each on the smallest file that shows it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.mark import ParameterSet
from test_amd_bad_input import CALLS, KERNELS, read, rpd, tool
from test_amd_processes import COUNTS

from traceanalyzer.cli import main

OLD_SUFFIX, SUFFIX = "cc3883073c204c7da65be8c5f67fa23c", "_0000cffb_c705_7dba_a6bc_8787feeb5e5b"
T = 3_000_000_000_000_000


class Case(NamedTuple):
    """A sentence, a file, and what the columns of a table hold."""

    section: str
    sentence: str
    made: Callable[[Path], Path]
    table: str
    columns: tuple[str, ...]
    wanted: list[tuple[Any, ...]]


Row = dict[str, Any]
# A process on one GPU: a call that launches a kernel.
BASIC: dict[str, list[Row]] = {
    "metadata": [{"tag": "schema_version", "value": "3"}],
    "string": [
        {"id": number, "string": text}
        for number, text in enumerate(
            ("", "hipLaunchKernel", "HIP_RUNTIME_API_EXT", "KERNEL_DISPATCH", "MEMORY_COPY", "MARKER_CORE_RANGE_API"), 1
        )
    ],
    "info_node": [{"id": 1, "machine_id": "m0", "hostname": "host0"}],
    "info_process": [{"id": 7, "nid": 1, "pid": 7, "command": "./program", "environment": "{}"}],
    "info_agent": [
        {"id": 0, "nid": 1, "type": "CPU", "type_index": 0, "name": "EPYC"},
        {"id": 4, "nid": 1, "type": "GPU", "type_index": 0, "name": "gfx942", "product_name": "AMD Instinct MI300X"},
    ],
    "info_kernel_symbol": [{"id": 5, "kernel_name": "gemm.kd", "display_name": "gemm"}],
    "event": [{"id": 1, "category_id": 3, "stack_id": 9}, {"id": 2, "category_id": 4, "stack_id": 9}],
    "region": [{"id": 9, "tid": 7, "start": T, "end": T + 50, "name_id": 2, "event_id": 1}],
    "memory_copy": [],
    "kernel_dispatch": [
        {"id": 1, "dispatch_id": 1, "agent_id": 4, "kernel_id": 5, "queue_id": 1, "stream_id": 3, "start": T + 100,
         "end": T + 150, "grid_size_x": 1000, "workgroup_size_x": 256, "region_name_id": 1, "event_id": 2}
    ],
}  # fmt: skip
Tables = dict[str, list[Row]]


def rocpd(*statements: str, suffix: str = SUFFIX, more: Tables | None = None, **less: None) -> Callable[[Path], Path]:
    """Return what writes the tables above, with more rows, without some, changed by statements."""
    tables = {name: [*rows, *(more or {}).get(name, [])] for name, rows in BASIC.items() if name not in less}
    tables |= {name: rows for name, rows in (more or {}).items() if name not in BASIC}

    def write(folder: Path) -> Path:
        file = folder / "7_results.db"
        with closing(sqlite3.connect(file)) as connection:
            put(connection, suffix, tables)
            for statement in statements:
                connection.execute(statement.replace("{s}", suffix))
            connection.commit()
        return file

    return write


def put(connection: sqlite3.Connection, suffix: str, tables: Tables) -> None:
    for name, rows in tables.items():
        columns = list(dict.fromkeys(key for row in rows for key in row)) or ["id", "start", "end"]
        connection.execute(f'CREATE TABLE "rocpd_{name}{suffix}" ({", ".join(map(quoted, columns))})')
        for row in rows:
            marks = ", ".join("?" * len(row))
            into = f'"rocpd_{name}{suffix}" ({", ".join(map(quoted, row))})'
            connection.execute(f"INSERT INTO {into} VALUES ({marks})", list(row.values()))


def quoted(name: str) -> str:
    return f'"{name}"'


def merged(folder: Path) -> Path:
    """Write what `rocpd merge` does: the tables of two processes, one with more columns, and views that fail."""
    other = SUFFIX.replace("cffb", "cffc")
    file = rocpd()(folder)
    second = {name: [dict(row) for row in rows] for name, rows in BASIC.items()}
    second["kernel_dispatch"][0] |= {"graph_exec_id": 6, "graph_node_id": 2}
    second["info_process"][0] |= {"id": 8, "pid": 8}
    with closing(sqlite3.connect(file)) as connection:
        put(connection, other, second)
        for name in ("kernel_dispatch", "event", "region", "metadata"):
            both = " UNION ALL ".join(f'SELECT * FROM "rocpd_{name}{suffix}"' for suffix in (SUFFIX, other))
            connection.execute(f"CREATE VIEW rocpd_{name} AS {both}")
        connection.commit()
    return file


def call(stack: int, category: str, name: str, **more: Any) -> Tables:
    """Return the rows of one more call."""
    number = 100 + stack
    strings = [{"id": number, "string": category}, {"id": number + 1000, "string": name}]
    region = {"id": stack, "tid": 7, "start": T + 10, "end": T + 20, "name_id": number + 1000, "event_id": number}
    return {
        "string": strings,
        "event": [{"id": number, "category_id": number, "stack_id": stack, "extdata": json.dumps(more)}],
        "region": [region],
    }


COUNTED: Tables = {
    "info_pmc": [{"id": 1, "name": "SQ_WAVES", "symbol": "SQ_WAVES"}],
    "pmc_event": [{"id": 1, "event_id": 2, "pmc_id": 1, "value": 4.0}],
}
CLOCK = ("clock-since-boot", "note", 1, None)


def sdk(*tools: Row) -> Callable[[Path], Path]:
    """Return what writes rocprofv3's JSON of processes."""

    def write(folder: Path) -> Path:
        file = folder / "7_results.json"
        file.write_text(json.dumps({"rocprofiler-sdk-tool": list(tools)}))
        return file

    return write


def renamed() -> Row:
    one = tool()
    one["strings"]["correlation_id"] = {"external": [{"key": 55, "value": "my step"}]}
    one["buffer_records"]["kernel_dispatch"][0]["correlation_id"]["external"] = 55
    return one


def counted_in(place: str) -> Row:
    """Return a process whose kernels are in a list of counters alone."""
    one = tool(counters=[{"id": {"handle": 3}, "name": "SQ_WAVES"}])
    (kernel,) = one["buffer_records"].pop("kernel_dispatch")
    data = {key: kernel[key] for key in ("correlation_id", "start_timestamp", "end_timestamp", "dispatch_info")}
    counts = [{"counter_id": {"handle": 3}, "value": value} for value in (2.0, 3.0)]
    one.setdefault(place, {})["counter_collection"] = [{"thread_id": 7, "dispatch_data": data, "records": counts}]
    return one


def csv_of(**tables: str) -> Callable[[Path], Path]:
    """Return what writes tables of one prefix, and gives the one that leads them."""

    def write(folder: Path) -> Path:
        for name, text in tables.items():
            (folder / f"out_{name}.csv").write_text(text + "\n")
        return folder / f"out_{next(iter(tables))}.csv"

    return write


def rows_on(*agents: str) -> list[str]:
    return [f"KERNEL_DISPATCH,{agent},1,1,k{at},1,{1000 + at},{1001 + at}" for at, agent in enumerate(agents)]


def damaged(column: str, text: str) -> str:
    """Return a table of two counters of two dispatches with one bad value in its last row."""
    head = COUNTS.replace('"', "").split(",")
    rows = [
        [str(n), str(n), "Agent 1", "7", "7", "gemm", name, "5", str(1000 * n), str(1000 * n + 50)]
        for n in (1, 2)
        for name in ("A", "B")
    ]
    rows[-1][head.index(column)] = text
    return "\n".join(",".join(row) for row in [head, *rows])


def changed_rpd(*statements: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        file = rpd(folder)
        with closing(sqlite3.connect(file)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        return file

    return write


_API = f"Guid,{CALLS}\n".replace('"', "")
_GPUS = [("CPU", 0, 0, "EPYC"), *(("GPU", node, 304, "AMD Instinct MI300X") for node in (4, 5))]
# What `rocpd convert` writes of two processes.
CONVERTED = {
    "kernel_trace": "Guid,Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Name,Correlation_Id,"
    "Start_Timestamp,End_Timestamp,Lds_Block_Size,Duration,Graph_Exec_Id,Graph_Node_Id\n"
    "a,KERNEL_DISPATCH,Agent 4,1,0,7,1,gemm,1,1000,1050,512,50,5,6\n"
    "b,KERNEL_DISPATCH,Agent 5,1,0,8,1,gemm,1,1010,1060,512,50,0,0",
    "hip_api_trace": _API
    + "\n".join(f"{g},HIP_RUNTIME_API_EXT,hipLaunchKernel,{p},{p},1,900,950" for g, p in ("a7", "b8")),
    "marker_api_trace": _API + "a,MARKER_CORE_RANGE_API,step 1,7,7,3,890,2000",
    "rocdecode_api_trace": _API + "a,ROCDECODE_API,rocDecDecodeFrame,7,7,4,895,960",
    "agent_info": "Guid,Agent_Type,Node_Id,Logical_Node_Id,Cu_Count,Product_Name\n"
    + "\n".join(f"{guid},{kind},{node},{node},{units},{name}" for guid in "ab" for kind, node, units, name in _GPUS),
}
SECOND_GPU = (
    "INSERT INTO rocpd_op SELECT 3, 1, queueId, 0, '', 2000, 2050, 4, 3 FROM rocpd_op WHERE id = 1",
    "INSERT INTO rocpd_api_ops VALUES (3, 1, 3)",
)
RPD_WORK: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("KernelExecution", [("kernel", None)]),
    ("Task", [("kernel", None)]),
    ("CopyHostToDevice", [("memcpy", "HtoD")]),
    ("CopyDeviceToHost", [("memcpy", "DtoH")]),
    ("CopyDeviceToDevice", [("memcpy", "DtoD")]),
    ("MEMORY_COPY_DEVICE_TO_DEVICE", [("memcpy", "DtoD")]),
    ("FillBuffer", [("memset", None)]),
    ("Barrier", []),
]
RENAMED = renamed()
KERNEL = ("kind", "name", "device", "correlation", "grid_x", "block_x")
ONE = [("kernel", "gemm", 0, 9, 4, 256)]
CATEGORIES = (
    ("HIP_COMPILER_API_EXT", "runtime"),
    ("HSA_CORE_API", "driver"),
    ("HSA_AMD_EXT_API", "driver"),
    ("HSA_IMAGE_EXT_API", "driver"),
    ("HSA_FINALIZE_EXT_API", "driver"),
    ("RCCL_API", "other"),
    ("ROCDECODE_API", "other"),
    ("ROCJPEG_API", "other"),
    ("OMPT", "other"),
    ("MARKER_CORE_RANGE_API", "annotation"),
    ("MARKER_CONTROL_API", "annotation"),
)

TABLES_OF_CSV: list[tuple[str, dict[str, str], str, tuple[str, ...], list[tuple[Any, ...]]]] = [
    (
        "each process of a converted file has its own agents",
        CONVERTED,
        "devices",
        ("device", "name", "sm_count"),
        [(0, "AMD Instinct MI300X", 304), (1, "AMD Instinct MI300X", 304)] * 2,
    ),
    (
        "work of converted files is on the GPU that its agent names",
        CONVERTED,
        "gpu_ops",
        ("device", "name", "graph_id", "graph_node_id", "shared_memory_bytes", "launch_id"),
        [(0, "gemm", 5, 6, 512, 1), (1, "gemm", None, None, 512, 1)],
    ),
    (
        "tables of any API are of the set",
        CONVERTED,
        "host_slices",
        ("name", "category"),
        [("hipLaunchKernel", "runtime")] * 2 + [("step 1", "annotation"), ("rocDecDecodeFrame", "other")],
    ),
    (
        "an agent is named by its number among all, among those that are visible, or among GPUs",
        {
            "kernel_trace": "\n".join([KERNELS, *rows_on("Agent 7", "Agent 2", "GPU 0", "gpu 1")]),
            "agent_info": "Agent_Type,Node_Id,Logical_Node_Id\nCPU,0,0\nGPU,6,1\nGPU,7,2",
        },
        "gpu_ops",
        ("name", "device"),
        [("k0", 1), ("k1", 1), ("k2", 0), ("k3", 1)],
    ),
    (
        "numbers may be quoted, and columns in any order and case",
        {"kernel_trace": 'END_TIMESTAMP,start_timestamp,Kernel_name,KIND,agent_id\n"1050","1000","a<b, c>",K,GPU 3'},
        "gpu_ops",
        ("name", "device", "start_ns", "dur_ns"),
        [("a<b, c>", 3, 1000, 50)],
    ),
    (
        "a copy from memory of the host to memory of the host is of no GPU, which is no defect",
        {
            "kernel_trace": "\n".join([KERNELS, *rows_on("Agent 1")]),
            "memory_copy_trace": "Kind,Direction,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,"
            "End_Timestamp\nMEMORY_COPY,MEMORY_COPY_HOST_TO_HOST,Agent 0,Agent 0,9,2000,2050",
            "agent_info": "Agent_Type,Node_Id\nCPU,0\nGPU,1",
        },
        "defects",
        ("defect", "defect_count"),
        [("clock-since-boot", 1)],
    ),
    *(
        (
            f"a counter whose {column} is {text or 'missing'} costs its defect once",
            {"counter_collection": damaged(column, text)},
            "defects",
            ("defect", "defect_count"),
            [
                *((name, 1) for name in ("clock-since-boot", "devices-by-number", "serialised-by-counters")),
                *defects,
            ],
        )
        for column, text, defects in (
            ("Start_Timestamp", "", [("no-times", 1)]),
            ("Start_Timestamp", "soon", [("mixed-types", 1), ("no-times", 1)]),
            ("Counter_Value", "many", [("mixed-types", 1)]),
            ("Kernel_Name", "gemm,more", [("unreadable-record", 1)]),
        )
    ),
]

CASES = [
    Case(
        "1.2", "a suffix has no underscores in files of older writers", rocpd(suffix=OLD_SUFFIX), "gpu_ops", KERNEL, ONE
    ),
    Case("1.2", "a suffix is as good in capitals", rocpd(suffix=SUFFIX.upper()), "gpu_ops", KERNEL, ONE),
    Case(
        "1.2",
        "a table whose name begins like another one's is that other one's",
        rocpd(
            "CREATE TABLE rocpd_event_operation{s} (id, operation)",
            "CREATE TABLE rocpd_kernel_dispatch_more{s} AS SELECT * FROM rocpd_kernel_dispatch{s}",
            "CREATE TABLE rocpdxkernel_dispatch{s} AS SELECT * FROM rocpd_kernel_dispatch{s}",
        ),
        "gpu_ops",
        KERNEL,
        ONE,
    ),
    Case(
        "1.2",
        "a merged file has a trace a process",
        merged,
        "traces",
        ("trace", "format"),
        [
            ("7_results.db#7-0000cffb_c705_7dba_a6bc_8787feeb5e5b", "rocpd"),
            ("7_results.db#8-0000cffc_c705_7dba_a6bc_8787feeb5e5b", "rocpd"),
        ],
    ),
    Case(
        "1.2",
        "parts of a merged file may have different columns",
        merged,
        "gpu_ops",
        ("name", "graph_id", "graph_node_id"),
        [("gemm", None, None), ("gemm", 6, 2)],
    ),
    *(
        Case(
            "1.3",
            f"schema {version} is read",
            rocpd(f"UPDATE rocpd_metadata{{s}} SET value = '{version}'"),
            "traces",
            ("producer",),
            [(f"rocprofv3, rocpd schema {version}",)],
        )
        for version in ("3", "3.0.0", "3.0.1", "3.0.5", "3.1.0")
    ),
    Case(
        "1.3",
        "a network card is no device",
        rocpd(more={"info_agent": [{"id": 6, "nid": 1, "type": "NIC", "type_index": 0, "name": "mlx5"}]}),
        "devices",
        ("device", "name"),
        [(0, "AMD Instinct MI300X")],
    ),
    Case(
        "1.3",
        "tables that later versions add change nothing",
        rocpd(
            "CREATE TABLE rocpd_graph_launch{s} (id, graph_exec_id)",
            "CREATE TABLE rocpd_hip_event{s} (id, start, end)",
            "INSERT INTO rocpd_hip_event{s} VALUES (1, 5, 6)",
        ),
        "gpu_ops",
        KERNEL,
        ONE,
    ),
    *(
        Case(
            "1.5",
            f"{name} of {kind} is {category}",
            rocpd(more=call(20, kind, name)),
            "host_slices",
            ("name", "category", "raw_category", "correlation"),
            [("hipLaunchKernel", "runtime", "HIP_RUNTIME_API_EXT", 9), (name, category, kind, 20)],
        )
        for kind, category in CATEGORIES
        for name in ("ncclAllReduce" if kind == "RCCL_API" else "f",)
    ),
    Case(
        "1.5",
        "a dispatch table that counters alone filled is of serialised kernels",
        rocpd(more=COUNTED),
        "defects",
        ("defect", "severity", "defect_count", "example"),
        [("serialised-by-counters", "note", 1, "1 dispatches"), CLOCK],
    ),
    Case(
        "1.5",
        "kernels that were not counted ran as they do",
        rocpd(
            "INSERT INTO rocpd_kernel_dispatch{s} SELECT * FROM rocpd_kernel_dispatch{s}",
            "UPDATE rocpd_kernel_dispatch{s} SET event_id = 1, dispatch_id = 2 WHERE rowid = 2",
            'UPDATE rocpd_kernel_dispatch{s} SET start = start + 500, "end" = "end" + 500 WHERE rowid = 2',
            more=COUNTED,
        ),
        "defects",
        ("defect", "severity", "defect_count", "example"),
        [CLOCK],
    ),
    Case(
        "1.4",
        "the range that renames kernels is kept beside their names",
        rocpd(
            "UPDATE rocpd_kernel_dispatch{s} SET region_name_id = 77", more={"string": [{"id": 77, "string": 'a "b"'}]}
        ),
        "event_args",
        ("args",),
        [('{"queue": 1, "range": "a \\"b\\""}',)],
    ),
    Case("1.4", "kernels that no range renames have none", rocpd(), "event_args", ("args",), [('{"queue": 1}',)]),
    Case(
        "2",
        "the range that renames kernels is kept beside their names",
        sdk(RENAMED),
        "event_args",
        ("args",),
        [('{"queue": 1, "range": "my step"}',)],
    ),
    Case(
        "2",
        "kernels that were traced while their counters were collected are serialised",
        sdk({**counted_in("callback_records"), "buffer_records": tool()["buffer_records"]}),
        "defects",
        ("defect", "defect_count"),
        [("clock-since-boot", 1), ("serialised-by-counters", 1)],
    ),
    *(
        Case("2", f"counters of {place} alone show each dispatch once", sdk(counted_in(place)), table, columns, wanted)
        for place in ("callback_records", "buffer_records")
        for table, columns, wanted in (
            (
                "gpu_ops",
                ("kind", "name", "start_ns"),
                [("kernel", "gemm", 1000), ("memcpy", "MEMORY_COPY_HOST_TO_DEVICE", 2000)],
            ),
            ("counters", ("name", "series", "start_ns", "value"), [("SQ_WAVES", "gemm", 1000, 5.0)]),
            ("defects", ("defect", "defect_count"), [("clock-since-boot", 1), ("serialised-by-counters", 1)]),
        )
    ),
    Case(
        "1.5",
        "a FREE without its ALLOC is of no known device",
        rocpd(more={"memory_allocate": [{"start": T, "end": T + 5, "type": "FREE", "level": "REAL", "address": 16}]}),
        "memory_events",
        ("kind", "device", "device_type", "size_bytes"),
        [("free", None, 6, None)],
    ),
    *(
        Case("3", sentence, csv_of(**files), table, columns, wanted)
        for sentence, files, table, columns, wanted in TABLES_OF_CSV
    ),
    Case(
        "4",
        "memory is of the one GPU that its process uses",
        changed_rpd("UPDATE rocpd_op SET gpuId = 2"),
        "memory_events",
        ("kind", "device", "size_bytes"),
        [("alloc", 2, 64)],
    ),
    Case(
        "4",
        "no allocation says which of several GPUs it is on",
        changed_rpd(*SECOND_GPU),
        "memory_events",
        ("kind", "device", "size_bytes"),
        [("alloc", None, 64)],
    ),
    Case(
        "4",
        "arguments have a table of their own since schema 3",
        changed_rpd(
            "CREATE TABLE rocpd_ustring (id INTEGER PRIMARY KEY, string TEXT)",
            "INSERT INTO rocpd_ustring VALUES (1, 'generate'), (2, '')",
            "INSERT INTO rocpd_string VALUES (20, 'UserMarker')",
            "INSERT INTO rocpd_api VALUES (9, 7, 7, 700, 1200, 20, 1)",
            "UPDATE rocpd_metadata SET value = '3'",
        ),
        "host_slices",
        ("name", "category"),
        [("generate", "annotation"), ("hipMalloc", "runtime"), *[("hipLaunchKernel", "runtime")] * 2],
    ),
    Case(
        "4",
        "schema 3 says which ranges are operators of PyTorch",
        changed_rpd(
            "ALTER TABLE rocpd_api ADD COLUMN category_id INTEGER",
            "INSERT INTO rocpd_string VALUES (20, 'backward_function'), (21, 'MmBackward0')",
            "INSERT INTO rocpd_api VALUES (9, 7, 7, 700, 1200, 21, 2, 20)",
        ),
        "host_slices",
        ("name", "category"),
        [("MmBackward0", "cpu_op"), ("hipMalloc", "runtime"), *[("hipLaunchKernel", "runtime")] * 2],
    ),
    Case(
        "4",
        "work of NVIDIA's GPUs has its stream in the sequence, and copies their direction at the call",
        changed_rpd(
            "UPDATE rocpd_string SET string = 'cudaMemcpyAsync_v3020' WHERE id = 1",
            "INSERT INTO rocpd_string VALUES (20, 'Memcpy')",
            "UPDATE rocpd_op SET queueId = 1, sequenceId = 13, opType_id = 20, description_id = 2 WHERE id = 1",
            "CREATE TABLE rocpd_copyapi (api_ptr_id INTEGER PRIMARY KEY, size INTEGER, kind INTEGER)",
            "INSERT INTO rocpd_copyapi VALUES (1, 4096, 2)",
        ),
        "gpu_ops",
        ("name", "kind", "copy_kind", "stream", "size_bytes"),
        [("gemm", "kernel", None, 0, None), ("Memcpy", "memcpy", "DtoH", 13, 4096)],
    ),
    Case(
        "4",
        "calls of CUDA are calls, and the device is NVIDIA's",
        changed_rpd("UPDATE rocpd_string SET string = 'cudaLaunchKernel_v7000' WHERE id = 1"),
        "devices",
        ("device", "vendor"),
        [(0, "nvidia"), (1, "nvidia")],
    ),
    *(
        Case(
            "4",
            f"{kind} is {wanted}",
            changed_rpd(
                f"INSERT INTO rocpd_string VALUES (20, '{kind}')", "UPDATE rocpd_op SET opType_id = 20 WHERE id = 1"
            ),
            "gpu_ops",
            ("kind", "copy_kind"),
            [("kernel", None), *wanted],
        )
        for kind, wanted in RPD_WORK
    ),
    *(
        Case(
            "4",
            f"a copy from device {source} to device 1 is {wanted}",
            changed_rpd(
                "INSERT INTO rocpd_string VALUES (20, 'CopyDeviceToDevice')",
                "UPDATE rocpd_op SET opType_id = 20 WHERE id = 1",
                "CREATE TABLE rocpd_copyapi (api_ptr_id, size, kind, dstDevice, srcDevice)",
                f"INSERT INTO rocpd_copyapi VALUES (1, 64, 3, 1, {source})",
            ),
            "gpu_ops",
            ("copy_kind", "size_bytes"),
            [(wanted, 64), (None, None)],
        )
        for source, wanted in ((0, "PtoP"), (1, "DtoD"))
    ),
    *(
        Case(
            "4",
            f"{name} is {category}",
            changed_rpd(f"UPDATE rocpd_string SET string = '{name}' WHERE id = 5"),
            "host_slices",
            ("name", "category"),
            [(name, category), *[("hipLaunchKernel", "runtime")] * 2],
        )
        for name, category in (
            ("ApiTable::writeRows", "overhead"),
            ("hcc_activity_callback", "overhead"),
            ("rpdflush", "overhead"),
            ("hsa_signal_store", "driver"),
            ("__hipPushCallConfiguration", "runtime"),
        )
    ),
]


@pytest.mark.check
def test_memory_of_an_unknown_device_is_shown_as_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alloc = {"start": T, "end": T + 5, "type": "ALLOC", "level": "REAL", "address": 16, "size": 64, "agent_id": 4}
    free = {"start": T + 9, "end": T + 10, "type": "FREE", "level": "REAL", "address": 32}
    file = rocpd(more={"memory_allocate": [alloc, free]})(tmp_path)
    assert main(["memory", str(file), "--store", str(tmp_path / "store")]) == 0
    assert "None" not in capsys.readouterr().out
    file = changed_rpd(*SECOND_GPU)(tmp_path)
    assert main(["memory", str(file), "--store", str(tmp_path / "store")]) == 0
    assert "A device that was not recorded took 64 B more" in capsys.readouterr().out


def cases() -> Iterator[ParameterSet]:
    """Return all sentences; the loop has the first of each section."""
    in_loop = {case.section: case for case in reversed(CASES)}
    for case in CASES:
        marks = () if in_loop[case.section] is case else (pytest.mark.check,)
        yield pytest.param(case, id=f"{case.section} {case.sentence}", marks=marks)


@pytest.mark.parametrize("case", list(cases()))
def test_a_sentence_holds(case: Case, tmp_path: Path) -> None:
    tables = read(case.made(tmp_path))
    assert not isinstance(tables, str), tables
    found = sorted((tuple(row[name] for name in case.columns) for row in tables[case.table]), key=str)
    assert found == sorted(case.wanted, key=str)
