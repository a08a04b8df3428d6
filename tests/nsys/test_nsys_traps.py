"""What exports of different versions and captures hold that a reader gets wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nsys_export import (
    EVENT,
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
    RUNTIME,
    STRINGS,
    SYNC,
    Ingested,
    Rows,
    call,
    global_pid,
    global_tid,
    ingest,
    kernel,
    launched,
    name_id,
    nvtx,
    write_sqlite,
)

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import nesting

pytestmark = pytest.mark.check  # what is broken or hostile takes minutes


def test_kernels_are_tied_to_their_launch(tmp_path: Path) -> None:
    found = ingest(tmp_path, launched(2))
    calls = {row["correlation"]: row["slice_id"] for row in found.rows("host_slices")}
    assert [(row["name"], row["launch_id"]) for row in found.rows("gpu_ops")] == [
        ("gemm_kernel", calls[1]),
        ("gemm_kernel", calls[2]),
    ]


def test_calls_written_twice_with_their_backtrace_count_once(tmp_path: Path) -> None:
    tables = launched(2)
    doubled = [{**row, "eventClass": event_class} for row in tables[RUNTIME] for event_class in (0, 67)]
    found = ingest(tmp_path, {**tables, RUNTIME: doubled})
    assert len(found.rows("host_slices")) == 2
    assert len(found.rows("gpu_ops")) == 2
    assert found.defects() == {"backtrace-duplicate": 2}


@pytest.mark.check
def test_rows_that_are_there_twice_are_one_event(tmp_path: Path) -> None:
    tables = launched(3)
    ranges = [nvtx(50, 2_950, "step"), nvtx(1_050, 1_950, "step")]
    waits = [{"start": 2_960, "end": 2_980, "syncType": 2, "correlationId": 9, "globalPid": global_pid(10)}]
    tables |= {"NVTX_EVENTS": ranges, SYNC: waits}
    again = {name: [*rows, *rows[-2:]] for name, rows in tables.items() if name != "StringIds"}
    alone, found = (
        ingest(tmp_path, tables),
        Ingested(write_sqlite(tmp_path / "again.sqlite", tables | again), tmp_path / "other"),
    )
    for table in ("gpu_ops", "syncs"):
        assert found.column(table, "start_ns") == alone.column(table, "start_ns")
    nested = [[row[name] for name in ("name", "start_ns", "depth", "correlation")] for row in found.rows("host_slices")]
    assert nested == [
        [row[name] for name in ("name", "start_ns", "depth", "correlation")] for row in alone.rows("host_slices")
    ]
    assert found.defects() == alone.defects() | {"repeated-record": 7}


@pytest.mark.check
def test_rows_of_equal_times_that_differ_are_several_events(tmp_path: Path) -> None:
    tables = launched(2)
    node = tables[KERNEL][1]
    nodes = [{**node, "graphNodeId": number} for number in (1, 2)]
    other_stream = {**node, "streamId": 8, "correlationId": 7}
    found = ingest(tmp_path, {**tables, KERNEL: [tables[KERNEL][0], *nodes, other_stream]})
    assert len(found.rows("gpu_ops")) == 4
    assert "repeated-record" not in found.defects()


def test_correlation_ids_that_repeat_across_processes_stay_apart(tmp_path: Path) -> None:
    first, second = launched(2, pid=10), launched(2, pid=20)
    tables = {
        "StringIds": STRINGS,
        KERNEL: [*first[KERNEL], *({**row, "deviceId": 1} for row in second[KERNEL])],
        RUNTIME: [*first[RUNTIME], *second[RUNTIME]],
    }
    found = ingest(tmp_path, tables)
    assert found.names == ["pid10", "pid20"]
    for trace in found.names:
        calls = set(found.column("host_slices", "slice_id", trace))
        assert len(calls) == 2
        assert set(found.column("gpu_ops", "launch_id", trace)) == calls
    assert [found.rows("traces", trace)[0]["rank"] for trace in found.names] == [0, 1]


def test_work_of_none_of_several_processes_is_counted_as_lost(tmp_path: Path) -> None:
    first, second = launched(2, pid=10), launched(2, pid=20)
    nobodys = [{**row, "deviceId": 1, "globalPid": None} for row in second[KERNEL]]
    found = ingest(tmp_path, {"StringIds": STRINGS, KERNEL: [*first[KERNEL], second[KERNEL][0], *nobodys]})
    assert [len(found.rows("gpu_ops", trace)) for trace in found.names] == [2, 1]
    assert found.defects(found.names[0])["process-lost"] == 2


def test_processes_on_one_device_have_no_rank(tmp_path: Path) -> None:
    first, second = launched(1, pid=10), launched(1, pid=20)
    found = ingest(tmp_path, {"StringIds": STRINGS, KERNEL: [*first[KERNEL], *second[KERNEL]]})
    assert [found.rows("traces", trace)[0]["rank"] for trace in found.names] == [None, None]


def test_host_events_of_a_process_without_gpu_work_go_with_the_first_trace(tmp_path: Path) -> None:
    first, second = launched(1, pid=10), launched(1, pid=20)
    tables = {
        "StringIds": STRINGS,
        KERNEL: [*first[KERNEL], *second[KERNEL]],
        "NVTX_EVENTS": [nvtx(0, 5, "launcher", pid=5), nvtx(0, 5, "worker", pid=20)],
    }
    found = ingest(tmp_path, tables)
    assert found.column("host_slices", "name", "pid10") == ["launcher"]
    assert found.column("host_slices", "name", "pid20") == ["worker"]
    assert found.column("threads", "pid", "pid10") == ["5"]


def test_event_handles_are_reused_and_synchronisation_ids_are_not(tmp_path: Path) -> None:
    tables = {
        **launched(1),
        RUNTIME: [
            call(0, 10, 1),
            call(20, 30, 2, "cudaEventRecord_v3020"),
            call(40, 50, 3, "cudaEventRecord_v3020"),
            call(60, 70, 4, "cudaStreamWaitEvent_v3020"),
        ],
        EVENT: [_record(2, event=5, sync_id=100, stream=13), _record(3, event=5, sync_id=101, stream=14)],
        SYNC: [_sync(62, 65, 4, 2, eventId=5, eventSyncId=100, streamId=7)],
    }
    (row,) = ingest(tmp_path, tables).rows("syncs")
    assert (row["kind"], row["stream"]) == ("stream_wait", 7)
    assert (row["wait_on_stream"], row["wait_on_correlation"]) == (13, 2)


def test_without_synchronisation_ids_a_wait_is_for_the_latest_record(tmp_path: Path) -> None:
    records = [_record(2, event=5, stream=13), _record(3, event=5, stream=14), _record(6, event=5, stream=15)]
    wait = _sync(62, 65, 4, 3, eventId=5)
    del wait["eventSyncId"]
    tables = {
        **launched(1),
        RUNTIME: [
            call(20, 30, 2, "cudaEventRecord_v3020"),
            call(40, 50, 3, "cudaEventRecord_v3020"),
            call(60, 70, 4, "cudaStreamWaitEvent_v3020"),
            call(80, 90, 6, "cudaEventRecord_v3020"),
        ],
        EVENT: [{key: value for key, value in row.items() if key != "eventSyncId"} for row in records],
        SYNC: [wait],
    }
    (row,) = ingest(tmp_path, tables).rows("syncs")
    assert (row["kind"], row["wait_on_stream"], row["wait_on_correlation"]) == ("stream_wait", 14, 3)


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4])
def test_synchronisations_are_told_by_the_name_of_their_call(tmp_path: Path, number: int) -> None:
    names = {
        "cudaDeviceSynchronize_v3020": "device",
        "cudaStreamSynchronize_v3020": "stream",
        "cudaEventSynchronize_v3020": "event",
        "cudaStreamWaitEvent_v3020": "stream_wait",
        "cudaEventQuery_v3020": "event_query",
    }
    tables = {
        **launched(1),
        RUNTIME: [call(100 * i, 100 * i + 50, i, name) for i, name in enumerate(names, 1)],
        SYNC: [_sync(100 * i + 1, 100 * i + 40, i, number) for i, _ in enumerate(names, 1)],
    }
    assert ingest(tmp_path, tables).column("syncs", "kind") == list(names.values())


@pytest.mark.parametrize(
    ("version", "number", "event", "kind"),
    [
        ("3.0.0", 1, 4294967295, "device"),
        ("3.0.0", 2, 5, "event"),
        ("3.0.0", 3, 4294967295, "stream"),
        ("3.13.2", 3, 5, "stream_wait"),
        ("3.16.1", 0, 4294967295, "device"),
        ("3.17.2", 4, 4294967295, "device"),
        ("3.24.0", 2, 4294967295, "stream"),
        ("3.25.0", 2, 5, "stream_wait"),
        ("3.25.0", 3, 4294967295, "stream"),
        ("3.25.0", 9, 4294967295, "unknown"),
    ],
)
def test_a_synchronisation_without_its_call_is_told_by_the_exporters_numbering(
    tmp_path: Path, version: str, number: int, event: int, kind: str
) -> None:
    tables = {
        **launched(1),
        "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": version}],
        SYNC: [_sync(2000, 2100, 99, number, eventId=event)],
    }
    found = ingest(tmp_path, tables)
    assert found.column("syncs", "kind") == [kind]
    assert "sync-without-call" in found.notes()


def test_a_synchronisations_device_is_its_contexts(tmp_path: Path) -> None:
    tables = {
        **launched(1),
        KERNEL: [kernel(0, 5, 1, deviceId=1, contextId=2)],
        SYNC: [_sync(7, 9, 1, 3, deviceId=0, contextId=2)],
    }
    assert ingest(tmp_path, tables).column("syncs", "device") == [1]


def test_graph_replays_are_gpu_work(tmp_path: Path) -> None:
    tables = {**launched(1), GRAPH: [_replay(2000, 2500, 7)], RUNTIME: [call(1900, 1950, 7, "cudaGraphLaunch_v10000")]}
    found = ingest(tmp_path, tables)
    replay = next(row for row in found.rows("gpu_ops") if row["kind"] == "graph")
    assert (replay["start_ns"], replay["dur_ns"], replay["graph_id"]) == (2000, 500, 3)
    assert replay["launch_id"] == found.column("host_slices", "slice_id")[0]


def test_a_graph_recorded_node_by_node_counts_once(tmp_path: Path) -> None:
    nodes = [kernel(2000, 2200, 7, graphNodeId=1), kernel(2300, 2500, 7, graphNodeId=2)]
    tables = {
        **launched(1),
        KERNEL: nodes,
        GRAPH: [_replay(2000, 2500, 7), _replay(3000, 3500, 8)],
        RUNTIME: [call(1900, 1950, 7, "cudaGraphLaunch_v10000"), call(2900, 2950, 8, "cudaGraphLaunch_v10000")],
    }
    found = ingest(tmp_path, tables)
    assert sorted((row["kind"], row["start_ns"]) for row in found.rows("gpu_ops")) == [
        ("graph", 3000),
        ("kernel", 2000),
        ("kernel", 2300),
    ]
    assert found.defects() == {"graph-replay-seen-twice": 1}


def test_memory_kinds_are_numbered_as_nsys_does(tmp_path: Path) -> None:
    kinds = [(1, 0, 2), (1, 1, 2), (2, 2, 0), (2, 2, 1), (8, 2, 2), (11, 7, 7), (10, 2, 2), (1, 4, 2)]
    copies = [
        {**kernel(i, i + 1, 0), "bytes": 8, "copyKind": kind, "srcKind": source, "dstKind": target}
        for i, (kind, source, target) in enumerate(kinds)
    ]
    found = ingest(tmp_path, {"StringIds": STRINGS, MEMCPY: copies})
    assert [(row["copy_kind"], row["src_kind"], row["dst_kind"]) for row in found.rows("gpu_ops")] == [
        ("HtoD", "pageable", "device"),
        ("HtoD", "pinned", "device"),
        ("DtoH", "device", "pageable"),
        ("DtoH", "device", "pinned"),
        ("DtoD", "device", "device"),
        ("HtoD", None, None),
        ("PtoP", "device", "device"),
        ("HtoD", "managed", "device"),
    ]
    names = found.column("gpu_ops", "name")
    assert names[0] == "Memcpy HtoD (Pageable -> Device)"
    assert names[5] == "Memcpy UVM HtoD (Unknown -> Unknown)"


def test_memsets_tell_where_and_how_much(tmp_path: Path) -> None:
    memset = {**kernel(0, 4, 1), "value": 0, "bytes": 64, "memKind": 2}
    (row,) = ingest(tmp_path, {"StringIds": STRINGS, MEMSET: [memset]}).rows("gpu_ops")
    assert (row["kind"], row["name"], row["size_bytes"], row["dst_kind"]) == ("memset", "Memset (Device)", 64, "device")


def test_communication_kernels_are_told_by_name(tmp_path: Path) -> None:
    nccl = kernel(10, 20, 2, demangledName=name_id("ncclDevKernel_AllReduce_Sum_f32_RING_LL"))
    found = ingest(tmp_path, {**launched(1), KERNEL: [kernel(0, 5, 1), nccl]})
    assert found.column("gpu_ops", "is_comm") == [False, True]


def test_columns_that_users_add_are_passed_over(tmp_path: Path) -> None:
    recipes = [
        f"ALTER TABLE {KERNEL} ADD COLUMN kernel_name TEXT",
        f"UPDATE {KERNEL} SET kernel_name = 'mine'",
        f"ALTER TABLE {RUNTIME} ADD COLUMN name TEXT",
        "CREATE TABLE SystemInfo (a, b)",
        f"CREATE INDEX mine ON {KERNEL} (start)",
    ]
    found = ingest(tmp_path, launched(2), recipes)
    assert found.column("gpu_ops", "name") == ["gemm_kernel", "gemm_kernel"]


def test_views_in_the_place_of_tables_are_refused_and_a_users_own_are_passed_over(tmp_path: Path) -> None:
    own = [f"CREATE VIEW slowest AS SELECT * FROM {KERNEL}", f"CREATE VIEW {KERNEL}_V2 AS SELECT 1 AS x"]
    assert len(ingest(tmp_path, launched(2), own).rows("gpu_ops")) == 2
    (tmp_path / "report.sqlite").unlink()
    for_tables = []
    for table in (KERNEL, RUNTIME):
        for_tables += [
            f"ALTER TABLE {table} RENAME TO raw_{table}",
            f"CREATE VIEW {table} AS SELECT * FROM raw_{table}",
        ]
    with pytest.raises(TraceAnalyzerError, match=f"only tables are read: {KERNEL} and 1 more"):
        ingest(tmp_path, launched(2), for_tables)


def test_tables_with_a_version_in_their_name_are_read(tmp_path: Path) -> None:
    tables = launched(2)
    renamed = {f"{KERNEL}_V2": tables[KERNEL], **{name: rows for name, rows in tables.items() if name != KERNEL}}
    found = ingest(tmp_path, renamed, [f"CREATE TABLE {KERNEL} (start, end)"])
    assert len(found.rows("gpu_ops")) == 2


def test_strings_that_share_an_id_do_not_double_rows(tmp_path: Path) -> None:
    found = ingest(tmp_path, {**launched(2), "StringIds": [*STRINGS, *STRINGS]})
    assert len(found.rows("gpu_ops")) == len(found.rows("host_slices")) == 2
    assert found.defects() == {"repeated-string": len(STRINGS)}


def test_a_large_exports_slices_are_sorted_in_less_memory_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [call(start % 700, start % 700 + start % 11, start + 1) for start in range(3000)]
    tables = {**launched(2), RUNTIME: calls, "NVTX_EVENTS": [nvtx(n % 70, 90 - n % 7, f"r{n}") for n in range(500)]}
    for name in ("whole", "spilled"):
        (tmp_path / name).mkdir()
    whole = ingest(tmp_path / "whole", tables)
    monkeypatch.setattr(nesting, "_SORTED_BYTES", 2**14)
    monkeypatch.setattr(nesting, "_BLOCK_ROWS", 64)
    spilled = ingest(tmp_path / "spilled", tables)
    for table in ("host_slices", "gpu_ops"):
        assert spilled.rows(table) == whole.rows(table)


def test_calls_that_share_a_correlation_id_launch_once(tmp_path: Path) -> None:
    # A call inside another one ends first and may be written first.
    calls = [call(12, 18, 1, eventClass=1), call(10, 20, 1), call(30, 40, 2)]
    found = ingest(tmp_path, {**launched(2), RUNTIME: calls})
    first, _, second = found.column("host_slices", "slice_id")
    assert found.column("host_slices", "start_ns") == [10, 12, 30]
    assert found.column("gpu_ops", "launch_id") == [first, second]
    assert found.defects() == {"duplicate-correlation": 1}


def test_kernels_that_share_a_plain_launch_are_tied_to_none(tmp_path: Path) -> None:
    tables = launched(3)
    shared = [{**row, "correlationId": 1} if row["correlationId"] == 2 else row for row in tables[KERNEL]]
    found = ingest(tmp_path, {**tables, KERNEL: shared})
    calls = {row["correlation"]: row["slice_id"] for row in found.rows("host_slices")}
    assert found.column("gpu_ops", "launch_id") == [None, None, calls[3]]
    assert found.column("gpu_ops", "correlation") == [1, 1, 3]


def test_kernels_of_a_replayed_graph_share_its_launch(tmp_path: Path) -> None:
    tables = launched(3)
    nodes = [{**row, "correlationId": 1, "graphNodeId": 5 + at} for at, row in enumerate(tables[KERNEL])]
    calls = [{**row, "nameId": name_id("cudaGraphLaunch_v10000")} for row in tables[RUNTIME]]
    found = ingest(tmp_path, {**tables, KERNEL: nodes, RUNTIME: calls})
    assert len(set(found.column("gpu_ops", "launch_id"))) == 1
    assert None not in found.column("gpu_ops", "launch_id")


@pytest.mark.parametrize("number", [0, 4_294_967_295])
def test_numbers_that_stand_for_no_id_tie_nothing(tmp_path: Path, number: int) -> None:
    tables = launched(2)
    nameless = [{**row, "correlationId": number} if row["correlationId"] == 1 else row for row in tables[KERNEL]]
    calls = [{**row, "correlationId": number} if row["correlationId"] == 1 else row for row in tables[RUNTIME]]
    found = ingest(tmp_path, {**tables, KERNEL: nameless, RUNTIME: calls})
    assert [launch is None for launch in found.column("gpu_ops", "launch_id")] == [True, False]
    assert found.column("gpu_ops", "correlation") == [None, 2]


@pytest.mark.parametrize("lowest", [-7, 2**31 - 1, 2**32, 2**62])
def test_ids_of_any_size_tie_work_to_its_call(tmp_path: Path, lowest: int) -> None:
    tables = launched(3)
    renamed = {
        table: [{**row, "correlationId": lowest + row["correlationId"]} for row in tables[table]]
        for table in (KERNEL, RUNTIME)
    }
    found = ingest(tmp_path, {**tables, **renamed})
    calls = {row["slice_id"]: row["correlation"] for row in found.rows("host_slices")}
    assert [calls[launch] for launch in found.column("gpu_ops", "launch_id")] == [lowest + at for at in (1, 2, 3)]


def test_names_are_missing_where_there_are_no_strings(tmp_path: Path) -> None:
    tables = {name: rows for name, rows in launched(2).items() if name != "StringIds"}
    found = ingest(tmp_path, tables)
    assert found.column("gpu_ops", "name") == [None, None]
    assert [row["category"] for row in found.rows("host_slices")] == ["runtime", "runtime"]
    assert found.defects() == {"missing-string": 2}


def test_ranges_are_named_inline_or_by_id_in_one_file(tmp_path: Path) -> None:
    ranges = [
        nvtx(0, 100, "step 1"),
        nvtx(10, 20, None, textId=name_id("forward")),
        nvtx(30, 40, "", textId=name_id("main")),
    ]
    found = ingest(tmp_path, {**launched(1), "NVTX_EVENTS": ranges})
    drawn = [row for row in found.rows("host_slices") if row["category"] == "annotation"]
    assert [(row["name"], row["depth"]) for row in drawn] == [("step 1", 0), ("forward", 1), ("main", 1)]


def test_an_operators_numbers_become_columns_and_its_sizes_arguments(tmp_path: Path) -> None:
    ranges = [
        nvtx(0, 900, "FSDP::pre_forward (layer 1), op_id = 1"),
        nvtx(50, 400, "aten::linear, seq = 12, op_id = 2, sizes = [[1, 2], []], input_op_ids = [(1,0), (7,-1)]"),
        nvtx(60, 390, "ncclAllReduce", domainId=1),
    ]
    found = ingest(tmp_path, {**launched(1), "NVTX_EVENTS": ranges})
    drawn = {row["name"]: row for row in found.rows("host_slices")}
    operator, wrapper = drawn["aten::linear"], drawn["FSDP::pre_forward (layer 1)"]
    assert (operator["category"], operator["sequence"], operator["external_id"]) == ("cpu_op", 12, 2)
    assert (wrapper["category"], wrapper["sequence"], wrapper["external_id"]) == ("annotation", None, 1)
    assert (operator["input_shapes"], wrapper["input_shapes"]) == ("[[1,2],[]]", None)
    said = _args(found.rows("event_args"), found.rows("host_slices"))
    assert said["aten::linear"] == {"Input Dims": [[1, 2], []], "input_op_ids": [[1, 0], [7, -1]]}
    assert found.rows("traces")[0]["has_shapes"]
    (op,) = found.rows("gpu_ops")
    assert (op["cpu_op_id"], op["link_source"]) == (operator["slice_id"], "nesting")
    assert op["annotation_id"] == drawn["ncclAllReduce"]["slice_id"]


def test_an_operator_that_never_ended_says_its_sizes_in_one_row_with_that(tmp_path: Path) -> None:
    ranges = [nvtx(0, None, "aten::mm, op_id = 1, sizes = [[3, 4]]"), nvtx(10, 20, None, textId=16)]
    tables = {**launched(1), "NVTX_EVENTS": ranges}
    tables["StringIds"] = [*STRINGS, {"id": 16, "value": "aten::add, op_id = 2, sizes = [[5]]"}]
    found = ingest(tmp_path, tables)
    said = _args(found.rows("event_args"), found.rows("host_slices"))
    assert said == {"aten::mm": {"Input Dims": [[3, 4]], "open": True}, "aten::add": {"Input Dims": [[5]]}}
    assert len(found.rows("event_args")) == 2


def test_a_mark_and_a_range_across_threads_keep_texts_that_look_like_an_operators(tmp_path: Path) -> None:
    text = "mine, op_id = 1"
    drawn = [nvtx(5, None, None, eventType=34, textId=16), nvtx(6, 9, None, textId=16, endGlobalTid=global_tid(10, 77))]
    tables = {**launched(1), "NVTX_EVENTS": drawn, "StringIds": [*STRINGS, {"id": 16, "value": text}]}
    found = ingest(tmp_path, tables)
    assert found.column("instants", "name") == found.column("async_slices", "name") == [text]


def test_operator_numbers_of_a_process_without_gpu_work_tie_nothing(tmp_path: Path) -> None:
    ranges = [nvtx(0, 9, "aten::mm, op_id = 5"), nvtx(0, 9, "aten::mm, op_id = 5", pid=11)]
    found = ingest(tmp_path, {**launched(1), "NVTX_EVENTS": ranges})
    drawn = [row for row in found.rows("host_slices") if row["category"] == "cpu_op"]
    assert [row["external_id"] for row in drawn] == [5, None]


def test_domains_are_named_by_their_creation_or_by_what_nccl_draws(tmp_path: Path) -> None:
    ranges = [
        nvtx(0, None, "MyLibrary", eventType=75, domainId=3),
        nvtx(1, 5, "work", domainId=3),
        nvtx(6, 9, "ncclAllReduce", domainId=4),
        nvtx(10, 11, "plain"),
    ]
    found = ingest(tmp_path, {**launched(1), "NVTX_EVENTS": ranges})
    said = _args(found.rows("event_args"), found.rows("host_slices"))
    assert said["work"] == {"domain": "MyLibrary", "domain_id": 3}
    assert said["ncclAllReduce"] == {"domain": "NCCL", "domain_id": 4}
    assert "plain" not in said


@pytest.mark.parametrize(
    ("ranges", "kernel_end", "dur_ns"),
    [
        ([nvtx(100, None, "forever"), nvtx(200, 700, "last")], 900, 800),
        ([nvtx(100, None, "forever"), nvtx(200, 1700, "last")], 900, 1600),
        ([nvtx(100, None, "forever")], 900, 800),
        ([nvtx(100, None, "forever")], 10**18, 100),  # a kernel of 30 years has a damaged end
    ],
)
def test_open_ranges_end_with_the_capture(
    tmp_path: Path, ranges: list[dict[str, Any]], kernel_end: int, dur_ns: int
) -> None:
    tables = {**launched(1), "NVTX_EVENTS": ranges}
    tables[KERNEL] = [{**tables[KERNEL][0], "end": kernel_end}]
    found = ingest(tmp_path, tables)
    forever = next(row for row in found.rows("host_slices") if row["name"] == "forever")
    assert forever["dur_ns"] == dur_ns
    assert found.defects()["open-range"] == 1
    assert _args(found.rows("event_args"), found.rows("host_slices"))["forever"] == {"open": True}


def test_ranges_that_end_on_another_thread_lie_on_none(tmp_path: Path) -> None:
    ranges = [nvtx(0, 50, "request", eventType=60, rangeId=9, endGlobalTid=global_tid(10, 11)), nvtx(0, 5, "here")]
    found = ingest(
        tmp_path, {**launched(1), "NVTX_EVENTS": [ranges[0], ranges[1] | {"rangeId": None, "eventType": 59}]}
    )
    (request,) = found.rows("async_slices")
    assert (request["name"], request["dur_ns"], request["async_id"]) == ("request", 50, "9")
    assert "request" not in found.column("host_slices", "name")


def test_marks_are_instants_and_thread_names_name_threads(tmp_path: Path) -> None:
    ranges = [nvtx(5, None, "here", eventType=34), nvtx(6, None, "trainer", eventType=39), nvtx(7, 9, "work")]
    found = ingest(tmp_path, {**launched(1), "NVTX_EVENTS": ranges})
    assert [(row["name"], row["start_ns"]) for row in found.rows("instants")] == [("here", 5)]
    assert found.column("threads", "thread_name") == ["trainer"]


def test_text_that_is_no_utf8_survives(tmp_path: Path) -> None:
    tables = {**launched(2), "NVTX_EVENTS": [nvtx(0, 5, "x"), nvtx(6, 9, "good")]}
    found = ingest(tmp_path, tables, ["UPDATE NVTX_EVENTS SET text = CAST(x'666ff6' AS TEXT) WHERE text = 'x'"])
    names = [row["name"] for row in found.rows("host_slices") if row["category"] == "annotation"]
    assert names == ["fo\ufffd", "good"]
    assert found.defects() == {"invalid-utf8": 1}


def test_numbers_that_are_none_are_unknown(tmp_path: Path) -> None:
    found = ingest(tmp_path, launched(3), [f"UPDATE {KERNEL} SET streamId = 'seven' WHERE correlationId = 2"])
    assert found.column("gpu_ops", "stream") == [7, None, 7]
    assert found.defects() == {"mixed-types": 1}


def test_an_event_that_ends_before_it_starts_has_no_length(tmp_path: Path) -> None:
    found = ingest(tmp_path, {**launched(1), KERNEL: [kernel(500, 400, 1), kernel(600, 700, 2)]})
    assert found.column("gpu_ops", "dur_ns") == [0, 100]
    assert found.defects() == {"negative-duration": 1}


def test_os_calls_and_scheduling_have_ends(tmp_path: Path) -> None:
    thread = global_tid(10)
    tables = {
        **launched(1),
        "OSRT_API": [
            _os(0, 0, 31, thread),
            _os(10, 60, 27, thread),
        ],
        "SCHED_EVENTS": [
            {"start": 5, "cpu": 3, "isSchedIn": 1, "globalTid": thread},
            {"start": 20, "cpu": 3, "isSchedIn": 0, "globalTid": thread},
            {"start": 50, "cpu": 4, "isSchedIn": 1, "globalTid": thread},
        ],
    }
    found = ingest(tmp_path, tables)
    slices = [(r["category"], r["name"], r["start_ns"], r["dur_ns"], r["depth"]) for r in found.rows("host_slices")[:3]]
    assert slices == [
        ("other", "nanosleep", 0, 0, 0),
        ("os", "nanosleep", 10, 50, 0),
        ("os", "off-CPU", 20, 30, 1),
    ]
    assert [(r["name"], r["start_ns"], r["dur_ns"]) for r in found.rows("async_slices")] == [
        ("CPU 3", 5, 15),
        ("CPU 4", 50, None),
    ]


def test_mpi_calls_are_slices_and_tell_the_rank(tmp_path: Path) -> None:
    collective = {
        "start": 0,
        "end": 9,
        "globalTid": global_tid(10),
        "textId": name_id("MPI_Allreduce"),
        "commHandle": 1,
        "rootRank": None,
        "size": 64,
        "recvSize": 64,
    }
    ranks = [{"globalTid": global_tid(10), "rank": 3}, {"globalTid": global_tid(11), "rank": 4}]
    found = ingest(tmp_path, {**launched(1), "MPI_COLLECTIVES_EVENTS": [collective], "MPI_RANKS": ranks})
    allreduce = found.rows("host_slices")[0]
    assert (allreduce["name"], allreduce["raw_category"]) == ("MPI_Allreduce", "MPI_COLLECTIVES_EVENTS")
    (trace,) = found.rows("traces")
    assert (trace["rank"], trace["rank_source"], trace["world_size"]) == (3, "metadata", 2)


def test_gpu_metrics_are_counters_by_name(tmp_path: Path) -> None:
    tables = {
        **launched(1),
        "GPU_METRICS": [{"timestamp": 5, "typeId": 256, "metricId": 1, "value": 40}],
        "TARGET_INFO_GPU_METRICS": [{"typeId": 256, "metricId": 1, "typeName": "ad10x", "metricName": "SMs Active"}],
        "NET_NIC_METRIC": [{"start": 7, "end": 8, "globalId": 2, "metricsListId": 1, "metricsIdx": 0, "value": 9}],
        "TARGET_INFO_NETWORK_METRICS": [{"metricsListId": 1, "metricsIdx": 0, "name": "Bytes sent"}],
    }
    found = ingest(tmp_path, tables)
    assert sorted((r["name"], r["series"], r["start_ns"], r["value"]) for r in found.rows("counters")) == [
        ("Bytes sent", "NIC 2", 7, 9.0),
        ("SMs Active", "GPU 0", 5, 40.0),
    ]


def test_device_memory_events(tmp_path: Path) -> None:
    usage = {
        "start": 5,
        "globalPid": global_pid(10),
        "deviceId": 0,
        "address": 4096,
        "bytes": 64,
        "memKind": 2,
        "memoryOperationType": 0,
    }
    pinned = {**usage, "memKind": 1, "address": 8192}
    found = ingest(
        tmp_path, {**launched(1), "CUDA_GPU_MEMORY_USAGE_EVENTS": [usage, {**usage, "memoryOperationType": 1}, pinned]}
    )
    assert [(r["kind"], r["size_bytes"], r["device_type"], r["device"]) for r in found.rows("memory_events")] == [
        ("alloc", 64, 1, 0),
        ("free", -64, 1, 0),
        ("alloc", 64, 0, -1),
    ]
    assert found.rows("traces")[0]["has_memory"] is True


def test_a_processs_devices_are_numbered_as_it_numbers_them(tmp_path: Path) -> None:
    gpus = [{"id": i, "name": f"GPU {i}", "cuDevice": 3 - i, "smCount": 108} for i in range(4)]
    mapped = [{"gpuId": 2, "cudaId": 0, "pid": 10}]
    plain = ingest(tmp_path, {**launched(1), "TARGET_INFO_GPU": gpus})
    assert [(r["device"], r["name"]) for r in plain.rows("devices")] == [(i, f"GPU {3 - i}") for i in range(4)]
    (tmp_path / "b").mkdir()
    told = ingest(tmp_path / "b", {**launched(1), "TARGET_INFO_GPU": gpus, "TARGET_INFO_CUDA_DEVICE": mapped})
    assert told.rows("devices")[0]["name"] == "GPU 2"


def test_calls_that_failed_say_so(tmp_path: Path) -> None:
    found = ingest(tmp_path, {**launched(1), RUNTIME: [call(0, 5, 1, returnValue=2)]})
    assert [json.loads(row["args"]) for row in found.rows("event_args")] == [{"returnValue": 2}]


def _record(correlation: int, *, event: int, stream: int, sync_id: int | None = None) -> dict[str, Any]:
    return {
        "deviceId": 0,
        "contextId": 1,
        "streamId": stream,
        "correlationId": correlation,
        "globalPid": global_pid(10),
        "eventId": event,
        "eventSyncId": sync_id,
        "timestamp": 0,
    }


def _sync(start: int, end: int, correlation: int, number: int, **more: Any) -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "deviceId": 0,
        "contextId": 1,
        "streamId": 4294967295,
        "correlationId": correlation,
        "globalPid": global_pid(10),
        "syncType": number,
        "eventId": 4294967295,
        "eventSyncId": 0,
    } | more


def _replay(start: int, end: int, correlation: int) -> dict[str, Any]:
    return {**kernel(start, end, correlation), "graphId": 3, "graphExecId": 4}


def _os(start: int, end: int, event_class: int, thread: int) -> dict[str, Any]:
    return {"start": start, "end": end, "eventClass": event_class, "globalTid": thread, "nameId": name_id("nanosleep")}


def _args(arguments: Rows, slices: Rows) -> dict[str, Any]:
    names = {row["slice_id"]: row["name"] for row in slices}
    return {names[row["event_id"]]: json.loads(row["args"]) for row in arguments if row["event_id"] in names}


@pytest.mark.parametrize(
    ("wrong", "defects"),
    [
        ({"start": 1.5e300}, {"no-times"}),
        ({"start": -(2**63), "end": 2**63 - 1}, {"number-out-of-range", "no-times"}),
        ({"deviceId": 2**62}, {"number-out-of-range"}),
        ({"gridX": 2**62, "gridY": 2**16, "gridZ": -(2**62)}, {"number-out-of-range"}),
        ({"blockX": 2**31 - 1, "dynamicSharedMemory": 2**63 - 1}, {"number-out-of-range"}),
        ({"start": "soon"}, {"mixed-types", "no-times"}),
        ({"end": b"\xff"}, {"mixed-types", "no-times"}),
        # CUPTI's documentation of CUpti_ActivityKernel: both are 0 where the times could not be collected.
        ({"start": 0, "end": 0}, {"no-times"}),
    ],
    ids=["a float that no integer holds", "all of 64 bits", "device", "grid", "block", "text", "bytes", "zeros"],
)
def test_an_absurd_number_costs_one_row_or_itself(tmp_path: Path, wrong: dict[str, object], defects: set[str]) -> None:
    tables = launched(3)
    absent = dict.fromkeys(wrong)
    kernels = [{**absent, **row, **(wrong if position == 1 else {})} for position, row in enumerate(tables[KERNEL])]
    read = ingest(tmp_path, {**tables, KERNEL: kernels})
    assert {0, 2} <= {row["op_id"] - min(read.column("gpu_ops", "op_id")) for row in read.rows("gpu_ops")}
    assert defects <= read.defects().keys()


def test_an_absurd_size_of_a_copy_is_unknown_and_counted(tmp_path: Path) -> None:
    copy = {"start": 1, "end": 2, "deviceId": 0, "copyKind": 1}
    found = ingest(tmp_path, {**launched(), MEMCPY: [{**copy, "bytes": 5}, {**copy, "bytes": 2**62}]})
    assert sorted(row["size_bytes"] or 0 for row in found.rows("gpu_ops") if row["kind"] == "memcpy") == [0, 5]
    assert found.defects()["number-out-of-range"] == 1


def test_absurd_warps_of_a_device_are_unknown_and_counted(tmp_path: Path) -> None:
    device = {"id": 0, "cuDevice": 0, "name": "GPU", "threadsPerWarp": 2**31 - 1, "maxWarpsPerSm": 2**31 - 1}
    found = ingest(tmp_path, {**launched(), "TARGET_INFO_GPU": [device]})
    assert found.column("devices", "max_threads_per_sm") == [None]
    assert found.defects()["number-out-of-range"] == 2
