"""JSON of recorders whose processes, lanes and arrows have meanings of their own."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from both_readers import need_library
from trace_event_tables import Tables, events, read

from traceanalyzer.ingest.native import READER_VARIABLE
from traceanalyzer.ingest.trace_events.facts import RECORDERS, XLA

Event = dict[str, Any]


def process(pid: object, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def lane(pid: object, tid: object, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def drawn(pid: object, tid: object, name: str, ts: object, dur: object, **more: Any) -> Event:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur, **more}


def arrow(phase: str, category: str, number: object, pid: object, tid: object, ts: object) -> Event:
    return {"ph": phase, "cat": category, "name": "dep", "id": number, "pid": pid, "tid": tid, "ts": ts}


def tables_of(*events: Event) -> Tables:
    return read(json.dumps({"traceEvents": [{}, *events]}))


def works(tables: Tables) -> list[tuple[Any, ...]]:
    """Return what GPU work is, and the call that launched it."""
    names = {row["slice_id"]: row["name"] for row in tables["host_slices"]}
    ordered = sorted(tables["gpu_ops"], key=lambda op: op["start_ns"])
    return [(op["kind"], op["name"], op["device"], op["dur_ns"], names.get(op["launch_id"])) for op in ordered]


def categories(tables: Tables) -> dict[str, str]:
    return {row["name"]: row["category"] for row in tables["host_slices"]}


def recorded_by(tables: Tables) -> tuple[Any, ...]:
    (trace,) = tables["traces"]
    return trace["recorder"], trace["vendor"], trace["format"]


# rocprof 1 ----------------------------------------------------------------------------------------------------------


def rocprof1(section: int, tid: int, name: str, start_ns: int, end_ns: int, **args: str) -> Event:
    """Return an event as the converter writes it: no Index, at least one whole microsecond."""
    args = {"BeginNs": str(start_ns), "EndNs": str(end_ns), **args}
    shown = max((end_ns - start_ns) // 1000, 1)
    return drawn(section, tid, name, str(start_ns // 1000), str(shown), args=args)


ROCPROF1 = [process(0, "Markers and Ranges"), process(2, "CPU HIP API"), process(7, "GPU1")]
GPU1 = {"dev-id": "1", "queue-id": "3", "stream-id": "2", "DurationNs": "0"}


def test_rocprof_links_by_arrows_alone() -> None:
    tables = tables_of(
        *ROCPROF1,
        rocprof1(2, 9, "hipLaunchKernel", 1_000_000_100, 1_000_003_950),
        rocprof1(2, 9, "hipLaunchKernel", 1_000_004_000, 1_000_008_000),
        rocprof1(2, 9, "hipDeviceSynchronize", 1_000_009_000, 1_000_040_000),
        rocprof1(7, 2, "early", 1_000_003_500, 1_000_003_900, **GPU1),
        rocprof1(7, 2, "late", 1_000_020_000, 1_000_026_000, **GPU1),
        arrow("s", "DataFlow", 0, 2, 9, 1_000_003),
        arrow("t", "DataFlow", 0, 7, 2, 1_000_003),
        arrow("s", "DataFlow", 1, 2, 9, 1_000_004),
        arrow("t", "DataFlow", 1, 7, 2, 1_000_020),
        # A wait: it ends on the host.
        arrow("s", "DataFlow", 2, 7, 2, 1_000_020),
        arrow("t", "DataFlow", 2, 2, 9, 1_000_009),
    )
    assert works(tables) == [
        ("kernel", "early", 1, 400, "hipLaunchKernel"),
        ("kernel", "late", 1, 6_000, "hipLaunchKernel"),
    ]
    assert recorded_by(tables) == ("rocprof", "amd", "chrome")


def test_records_that_stand_twice_in_a_file_of_rocprof_count_once() -> None:
    once = [
        rocprof1(2, 9, "hipLaunchKernel", 1_000_000_100, 1_000_003_950),
        rocprof1(7, 2, "scale", 1_000_020_000, 1_000_026_000, **GPU1),
        arrow("s", "DataFlow", 0, 2, 9, 1_000_000),
        arrow("t", "DataFlow", 0, 7, 2, 1_000_020),
    ]
    twice = tables_of(*ROCPROF1, *once, *once)
    assert works(twice) == works(tables_of(*ROCPROF1, *once)) == [("kernel", "scale", 1, 6_000, "hipLaunchKernel")]
    assert [call["name"] for call in twice["host_slices"]] == ["hipLaunchKernel"]


def test_works_of_one_microsecond_belong_to_arrows_in_their_order() -> None:
    tables = tables_of(
        *ROCPROF1,
        rocprof1(2, 9, "hipLaunchKernel", 1_000_000_000, 1_000_002_000),
        rocprof1(2, 9, "hipExtModuleLaunchKernel", 1_000_003_000, 1_000_005_000),
        rocprof1(7, 2, "first", 1_000_010_100, 1_000_010_200, **GPU1),
        rocprof1(7, 2, "second", 1_000_010_500, 1_000_010_900, **GPU1),
        arrow("s", "DataFlow", 0, 2, 9, 1_000_001),
        arrow("t", "DataFlow", 0, 7, 2, 1_000_010),
        arrow("s", "DataFlow", 1, 2, 9, 1_000_004),
        arrow("t", "DataFlow", 1, 7, 2, 1_000_010),
    )
    assert [work[-1] for work in works(tables)] == ["hipLaunchKernel", "hipExtModuleLaunchKernel"]


def test_ranges_of_rocprof_without_a_duration_are_annotations() -> None:
    tables = tables_of(*ROCPROF1, rocprof1(0, 9, "step 1", 1_000_000_100, 1_000_090_000))
    assert categories(tables) == {"step 1": "annotation"}
    assert [row["dur_ns"] for row in tables["host_slices"]] == [89_900]


@pytest.mark.parametrize(
    ("name", "kind"), [("__amd_rocclr_fillBufferAligned.kd", "memset"), ("__amd_rocclr_copyBuffer", "memcpy")]
)
def test_kernels_of_hip_fill_and_copy(name: str, kind: str) -> None:
    tables = tables_of(*ROCPROF1, rocprof1(7, 2, name, 1_000_000_000, 1_000_002_000, **GPU1))
    assert [op["kind"] for op in tables["gpu_ops"]] == [kind]


# rocprofv2 ----------------------------------------------------------------------------------------------------------


def test_rocprofv2_is_read_by_its_four_processes() -> None:
    named = [process(pid, name) for pid, name in enumerate(("CPU", "GPU", "COPY", "HIPBLITKERNELS"), 1)]
    tables = tables_of(
        *named,
        drawn(1, 5, "hipLaunchKernel", "1000000", "4", cat="CPU", args={"cid": 4294967297}),
        drawn(1, 5, "hipMemcpyAsync", "1000005", "3", cat="CPU", args={"cid": 4294967298}),
        drawn(2, 11, "gemm", "1000004", "7", cat="GPU", args={"cid": 4294967297}),
        drawn(3, 1, "CopyHostToDevice", "1000012", "1", cat="COPY", args={"cid": 4294967298}),
        drawn(4, 12, "__amd_rocclr_fillBufferAligned", "1000014", "1", cat="HIPBLITKERNELS", args={"cid": 0}),
    )
    assert works(tables) == [
        ("kernel", "gemm", 0, 7_000, "hipLaunchKernel"),
        ("memcpy", "CopyHostToDevice", 0, 1_000, "hipMemcpyAsync"),
        ("memset", "__amd_rocclr_fillBufferAligned", 1, 1_000, None),
    ]
    assert recorded_by(tables) == ("rocprof", "amd", "chrome")


@pytest.mark.check
def test_records_that_stand_twice_in_a_file_of_rocprofv2_count_once() -> None:
    named = [process(pid, name) for pid, name in enumerate(("CPU", "GPU", "COPY", "HIPBLITKERNELS"), 1)]
    # Two kernels of one launch may look alike: this format names no stream.
    alike = drawn(2, 11, "gemm", "1000004", "7", cat="GPU", args={"cid": 8})
    once = [
        drawn(1, 5, "hipLaunchKernel", "1000000", "4", cat="CPU", args={"cid": 7}),
        drawn(2, 11, "scale", "1000004", "7", cat="GPU", args={"cid": 7}),
    ]
    assert len(works(tables_of(*named, *once, alike, alike))) == 3
    twice = tables_of(*named, *once, *once)
    assert works(twice) == works(tables_of(*named, *once))
    assert [(row["defect"], row["defect_count"]) for row in twice["defects"]] == [("repeated-record", 2)]


def test_categories_of_rocprofv2_mean_nothing_elsewhere() -> None:
    tables = tables_of(process(1, "CPU"), drawn(1, 5, "work", 1_000, 5, cat="GPU", args={"cid": 1}))
    assert tables["gpu_ops"] == []


# rocprofv3, by way of traceconv -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid_size", "workgroup_size", "sides"),
    [
        ("(1000, 2, 1)", "(256, 1, 1)", [4, 2, 1, 256, 1, 1]),
        (2000, 256, [8, 1, 1, 256, 1, 1]),  # as rocprofv3 writes it: the product of the sides
        (0, 0, [None] * 3 + [0, 1, 1]),
    ],
)
def test_perfetto_traces_of_rocprofv3_are_read_with_their_own_times(
    grid_size: object, workgroup_size: object, sides: list[int | None]
) -> None:
    launch = {"begin_ns": 1_000_100, "end_ns": 1_005_100, "corr_id": 7}
    dispatch = {"begin_ns": 1_010_000, "end_ns": 1_017_500, "corr_id": 7, "stream_ID": 3, "queue": 1, "agent": 0}
    sizes = {"grid_size": grid_size, "workgroup_size": workgroup_size}
    tables = tables_of(
        process(5, "program"),
        drawn(5, 6, "hipLaunchKernel", 1_000.1, 5.0, cat="hip_api", args=launch),
        drawn(
            5, 6, "roctx", 999.0, 9.0, cat="marker_api", args={"begin_ns": 999_000, "end_ns": 1_008_000, "corr_id": 1}
        ),
        drawn(5, 60, "gemm", 1_011.0, 6.5, cat="kernel_dispatch", args={**dispatch, **sizes}),
    )
    assert works(tables) == [("kernel", "gemm", 0, 7_500, "hipLaunchKernel")]
    (kernel,) = tables["gpu_ops"]
    assert (kernel["start_ns"], kernel["stream"]) == (1_010_000, 3)
    assert [kernel[f"{side}_{axis}"] for side in ("grid", "block") for axis in "xyz"] == sides
    assert tables["defects"] == []
    assert categories(tables) == {"hipLaunchKernel": "runtime", "roctx": "annotation"}
    assert recorded_by(tables)[:2] == ("rocprof", "amd")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "category", "ends", "wanted"),
    [
        ("MEMORY_COPY_HOST_TO_DEVICE", "memory_copy", (0, 4), ("memcpy", "HtoD", 4, 64)),
        ("MEMORY_COPY_DEVICE_TO_HOST", "memory_copy", (4, 0), ("memcpy", "DtoH", 4, 64)),
        ("MEMORY_COPY_DEVICE_TO_DEVICE", "memory_copy", (4, 4), ("memcpy", "DtoD", 4, 64)),
        ("MEMORY_COPY_DEVICE_TO_DEVICE", "memory_copy", (4, 5), ("memcpy", "PtoP", 5, 64)),
        ("__amd_rocclr_fillBufferAligned", "kernel_dispatch", None, ("memset", None, 4, None)),
        ("__amd_rocclr_copyBuffer", "kernel_dispatch", None, ("memcpy", None, 4, None)),
    ],
)
def test_copies_in_perfetto_traces_of_rocprofv3_are_on_the_device_of_their_agents(
    name: str, category: str, ends: tuple[int, int] | None, wanted: tuple[Any, ...]
) -> None:
    times = {"begin_ns": 1_000_000, "end_ns": 1_005_000, "corr_id": 7, "stream_ID": 1}
    args = {"agent": 4, "queue": 1} if ends is None else dict(zip(("src_agent", "dst_agent"), ends, strict=True))
    more = {} if ends is None else {"copy_bytes": 64}
    tables = tables_of(process(9, "program"), drawn(9, 6, name, 1_000, 5, cat=category, args={**times, **args, **more}))
    (op,) = tables["gpu_ops"]
    assert tuple(op[key] for key in ("kind", "copy_kind", "device", "size_bytes")) == wanted
    assert tables["defects"] == []


@pytest.mark.sampled
@pytest.mark.parametrize("odd", [{"x": 4}, ["4"], "none", -4, 2**40])
@pytest.mark.parametrize("key", ["src_agent", "dst_agent"])
def test_an_agent_that_is_no_number_is_counted(odd: object, key: str) -> None:
    ends = {"src_agent": 0, "dst_agent": 4, "begin_ns": 1_000_000, "end_ns": 1_005_000, "corr_id": 7}
    copies = [
        drawn(9, 6, "MEMORY_COPY_HOST_TO_DEVICE", 1_000, 5, cat="memory_copy", args={**ends, **more})
        for more in ({}, {key: odd, "corr_id": 8})
    ]
    tables = tables_of(process(9, "program"), *copies)
    left = [op["device"] for op in tables["gpu_ops"]]
    counted = {row["defect"]: row["defect_count"] for row in tables["defects"]}
    # The host's end of a copy places nothing.
    assert left == ([4, 4] if key == "src_agent" else [4])
    assert counted == ({"bad-number": 1} if key == "src_agent" else {"device-lost": 1})


@pytest.mark.parametrize("prefix", ["", "rocm_"])  # rocprofv3, rocprof-sys
def test_work_that_traceconv_writes_as_async_events_is_work_of_its_device(prefix: str) -> None:
    def pair(local: str, name: str, category: str, begin_ns: int, end_ns: int, args: dict[str, object]) -> list[Event]:
        """Return a slice of a track that is no thread: traceconv writes its pid as tid, and whole microseconds."""
        own = {"name": name, "cat": prefix + category, "pid": 5, "tid": 5, "id2": {"local": local}}
        times = {"begin_ns": begin_ns, "end_ns": end_ns, "corr_id": 7}
        return [
            {**own, "ph": "b", "ts": begin_ns // 1000, "args": {**times, **args}},
            {**own, "ph": "e", "ts": end_ns // 1000, "args": {}},
        ]

    copied: dict[str, object] = {"stream_id": 3, "bytes": 64} if prefix else {"dst_agent": "GPU-0", "copy_bytes": 64}
    computed: dict[str, object] = {"stream_id": 3} if prefix else {"agent": "GPU-0"}
    tables = tables_of(
        process(5, "program"),
        *pair("0x1a", "hipMemcpyAsync", "hip_api", 1_000_100, 1_005_100, {"tid": 61}),
        *pair("0x1b", "MEMORY_COPY_HOST_TO_DEVICE", "memory_copy", 1_010_000, 1_010_700, copied),
        *pair("0x1c", "gemm", "kernel_dispatch", 1_011_000, 1_017_500, computed),
    )
    assert works(tables) == [
        ("memcpy", "MEMORY_COPY_HOST_TO_DEVICE", 0, 700, "hipMemcpyAsync"),
        ("kernel", "gemm", 0, 6_500, "hipMemcpyAsync"),
    ]
    # Where no stream is named, each lane of the device is one.
    assert [op["stream"] for op in tables["gpu_ops"]] == ([3, 3] if prefix else [27, 28])
    assert [op["size_bytes"] for op in tables["gpu_ops"]] == [64, None]
    (call,) = tables["host_slices"]
    assert (call["start_ns"], call["dur_ns"], call["category"]) == (1_000_100, 5_000, "runtime")
    assert [thread["tid"] for thread in tables["threads"] if thread["thread_id"] == call["thread_id"]] == ["61"]
    assert (tables["async_slices"], tables["defects"]) == ([], [])
    assert recorded_by(tables)[:2] == ("rocprof", "amd")


def test_work_of_omnitrace_is_what_it_says_beside_the_name() -> None:
    """Omnitrace 1 (roctracer.cpp) draws work on tracks of devices, which traceconv writes as async events."""

    def work(name: str, op: str, at_us: int, corr_id: int) -> list[Event]:
        own = {"name": name, "cat": "device_hip", "pid": 5, "tid": 5, "id2": {"local": "0x1a"}}
        said = {"begin_ns": at_us * 1000 + 1, "end_ns": at_us * 1000 + 901, "corr_id": corr_id, "device": 1, "op": op}
        return [
            {**own, "ph": "b", "ts": at_us, "args": {**said, "queue": 0, "tid": 0, "stream": "0x10"}},
            {**own, "ph": "e", "ts": at_us, "args": {}},
        ]

    calls = [
        drawn(5, 5, name, 1_000 + 10 * number, 5, cat="rocm_hip", args={"corr_id": number, "tid": 0})
        for number, name in enumerate(["hipLaunchKernel", "hipMemcpyAsync", "hipMemsetAsync"], start=1)
    ]
    tables = tables_of(
        process(5, "program"),
        *calls,
        *work("gemm", "DISPATCH", 1_100, 1),
        *work("CopyDeviceToHost", "COPY", 1_110, 2),
        *work("FillBuffer", "COPY", 1_120, 3),
        *work("Marker", "BARRIER", 1_130, 3),
    )
    assert works(tables) == [
        ("kernel", "gemm", 1, 900, "hipLaunchKernel"),
        ("memcpy", "CopyDeviceToHost", 1, 900, "hipMemcpyAsync"),
        ("memset", "FillBuffer", 1, 900, "hipMemsetAsync"),
    ]
    assert [op["copy_kind"] for op in tables["gpu_ops"]] == [None, "DtoH", None]
    assert {call["category"] for call in tables["host_slices"]} == {"runtime"}
    assert tables["defects"] == []
    assert recorded_by(tables)[:2] == ("rocprof", "amd")


# RPD ----------------------------------------------------------------------------------------------------------------


def test_rpd2tracing_shows_work_in_processes_of_gpus() -> None:
    tables = tables_of(
        process("2", "GPU2"),
        drawn("40", "41", "hipLaunchKernel", "1000.100", "5.000", args={"desc": ""}),
        drawn("40", "41", "aten::mm", "999.000", "9.000", args={"desc": "aten::mm"}),
        drawn("40", "41", "hcc_activity_callback", "1100.000", "9.000", args={"desc": "count=3"}),
        drawn("2", "0", "gemm", "1010.500", "7.250", args={"desc": "KernelExecution"}),
        drawn("2", "0", "node", "1018.000", "1.000", args={"desc": "Task"}),
        drawn("2", "0", "FillBuffer", "1020.000", "1.000", args={"desc": "FillBuffer"}),
        drawn("2", "0", "CopyHostToDevice", "1022.000", "1.000", args={"desc": "CopyHostToDevice"}),
        drawn("2", "0", "aten::mm", "1010.500", "7.250", args={"desc": "UserMarker frame: aten::mm"}),
        drawn("2", "0", "Graph 94871", "1010.500", "11.500", args={"kernels": "3"}),
        arrow("s", "api_op", "1", "40", "41", "1004.100"),
        arrow("f", "api_op", "1", "2", "0", "1010.500"),
    )
    assert works(tables) == [
        ("kernel", "gemm", 2, 7_250, "hipLaunchKernel"),
        ("kernel", "node", 2, 1_000, None),
        ("memset", "FillBuffer", 2, 1_000, None),
        ("memcpy", "CopyHostToDevice", 2, 1_000, None),
    ]
    assert categories(tables) == {
        "hipLaunchKernel": "runtime",
        "aten::mm": "cpu_op",
        "hcc_activity_callback": "overhead",
    }
    assert recorded_by(tables) == ("rocprof", "amd", "chrome")


@pytest.mark.parametrize(
    ("call", "kind", "name", "copy_kind"),
    [
        ("hipMemcpyAsync", "memcpy", "Memcpy", None),
        ("hipMemcpyHtoDAsync", "memcpy", "Memcpy HtoD", "HtoD"),
        ("cudaMemcpyAsync_v3020", "memcpy", "Memcpy", None),
        ("hipMemsetAsync", "memset", "Memset", None),
        ("hipExtModuleLaunchKernel", "kernel", "(no name)", None),
        (None, "kernel", "(no name)", None),
    ],
)
def test_work_without_a_name_is_what_its_call_says(
    call: str | None, kind: str, name: str, copy_kind: str | None
) -> None:
    """rpd2tracing of rocmProfileData, --style kineto of May 2026, writes copies as kernels with an empty name."""
    ids = {"device": 0, "stream": 1, "correlation": 5}
    tables = tables_of(
        *([drawn(40, 40, call, 1000, 5, cat="cuda_runtime", args={"correlation": 5})] if call else []),
        drawn(40, 40, "hipLaunchKernel", 1006, 5, cat="cuda_runtime", args={"correlation": 6}),
        drawn(0, 1, "", 1010, 7, cat="kernel", args=ids),
        drawn(0, 1, "gemm", 1020, 7, cat="kernel", args={**ids, "correlation": 6}),
    )
    assert works(tables) == [(kind, name, 0, 7_000, call), ("kernel", "gemm", 0, 7_000, "hipLaunchKernel")]
    assert [op["copy_kind"] for op in tables["gpu_ops"]] == [copy_kind, None]
    assert [(row["defect"], row["defect_count"]) for row in tables["defects"]] == [("nameless-work", 1)]


# Proton -------------------------------------------------------------------------------------------------------------


def proton(*events: Event) -> Tables:
    lanes = [(4242, "CPU Thread 4242"), (100_007, "Graph: Stream 7"), (200_007, "GPU Stream 7"), (1_200_000, "GPU")]
    return tables_of(process(0, "Trace"), *(lane(0, tid, name) for tid, name in lanes), *events)


def called(*stack: str) -> dict[str, Any]:
    return {"call_stack": ["ROOT", *stack]}


def test_proton_draws_streams_as_threads_of_one_process() -> None:
    """Triton's ChromeTraceDump.cpp of 2026: no ids, and no calls of the runtime."""
    tables = proton(
        drawn(0, 4242, "layer", 1_000, 90, cat="scope", args=called("layer")),
        drawn(0, 4242, "loss: <flops, 7>", 1_050, 5, cat="metric", args=called("layer", "loss")),
        drawn(0, 100_007, "layer", 1_100, 30, cat="scope"),
        {"ph": "s", "cat": "flow", "name": "launch->kernel", "id": 1, "pid": 0, "tid": 4242, "ts": 1_000},
        {"ph": "f", "cat": "flow", "name": "launch->kernel", "id": 1, "pid": 0, "tid": 200_007, "ts": 1_100},
        drawn(0, 200_007, "matmul_kernel", 1_100, 25.5, cat="kernel", args=called("layer", "matmul_kernel")),
        drawn(0, 1_200_000, "add_kernel", 1_130, 5, cat="kernel", args=called("add_kernel")),
    )
    assert works(tables) == [
        ("kernel", "matmul_kernel", 0, 25_500, None),
        ("kernel", "add_kernel", 1, 5_000, None),
    ]
    assert [op["stream"] for op in sorted(tables["gpu_ops"], key=lambda op: op["start_ns"])] == [7, 0]
    assert categories(tables) == {"layer": "annotation", "loss: <flops, 7>": "annotation"}
    assert recorded_by(tables)[0] == "proton"
    # Another tool's process of this name is none of it.
    other = proton(drawn(0, 4242, "f", 1_000, 90, cat="function"), drawn(0, 7, "k", 1_000, 90, cat="kernel"))
    assert recorded_by(other)[0] != "proton"


@pytest.mark.parametrize("reader", ["native", "duckdb"])
@pytest.mark.parametrize("chunk_bytes", [150, 2**20])
def test_proton_of_2025_writes_a_document_for_each_stream(
    reader: str, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton 3.4 and 3.5 (TraceData.cpp): kernels of no process, and the thread is the stream."""
    if reader == "native":
        need_library()
    monkeypatch.setenv(READER_VARIABLE, reader)

    def document(stream: int) -> str:
        own = {"cat": "kernel", "ph": "X", "tid": stream, "args": {"call_stack": ["ROOT", "layer", "k"]}}
        kernels = [{**own, "name": f"k{place}", "ts": 10.5 * place + stream, "dur": 5.25} for place in range(4)]
        return json.dumps({"displayTimeUnit": "us", "traceEvents": kernels}, separators=(",", ":")) + "\n"

    tables = read(document(0) + document(13) + document(14), chunk_bytes=chunk_bytes)
    of_streams = Counter(op["stream"] for op in tables["gpu_ops"])
    assert of_streams == {0: 4, 13: 4, 14: 4}
    assert {(op["device"], op["kind"], op["dur_ns"]) for op in tables["gpu_ops"]} == {(0, "kernel", 5_250)}
    assert (tables["host_slices"], tables.defects) == ([], {})
    assert recorded_by(tables)[0] == "proton"


def test_records_that_stand_twice_in_a_file_of_proton_count_once() -> None:
    scopes = [drawn(0, 4242, "layer", at, 40, cat="scope", args=called("layer")) for at in (1_000, 1_100)]
    kernels = [drawn(0, 200_007, "add_kernel", at, 25.5, cat="kernel", args=called("layer")) for at in (1_010, 1_110)]
    twice, once = (proton(*(scopes + kernels) * times) for times in (2, 1))
    assert works(twice) == works(once)
    assert categories(twice) == categories(once)
    assert len(twice["host_slices"]) == 2
    assert [(row["defect"], row["defect_count"]) for row in twice["defects"]] == [("repeated-record", 4)]


# Ascend -------------------------------------------------------------------------------------------------------------


def ascend(hardware: int, *events: Event) -> Tables:
    named = [process(10, "Python"), process(20, "CANN"), process(hardware, "Ascend Hardware")]
    named += [process(30, "Communication"), process(40, "Overlap Analysis"), lane(30, 1, "Group g0 Communication")]
    return tables_of(*named, lane(30, 2, "Plane 0"), *events)


def task(pid: int, name: str, ts: str, kind: str, dur: float = 5.0) -> Event:
    return drawn(pid, 3, name, ts, dur, args={"Task Type": kind, "Stream Id": 3, "Task Id": 0, "connection_id": 1})


@pytest.mark.check
@pytest.mark.parametrize(("hardware", "device"), [(800, 0), (803, 3), (4242 << 10 | 8 << 5 | 6, 6)])
def test_ascend_hardware_names_its_device_in_the_number_of_the_process(hardware: int, device: int) -> None:
    tables = ascend(hardware, task(hardware, "MatMul", "1700000000000000.125", "AI_CORE"))
    assert [(op["device"], op["stream"], op["start_ns"]) for op in tables["gpu_ops"]] == [
        (device, 3, 1_700_000_000_000_000_125)
    ]
    assert recorded_by(tables) == ("torch_npu", "ascend", "chrome")


def test_ascend_tasks_are_launched_by_operators_and_by_calls() -> None:
    tables = ascend(
        800,
        drawn(10, 10, "aten::mm", "1700000000000000.000", 30.0, cat="cpu_op"),
        drawn(10, 10, "ProfilerStep#3", "1700000000000000.000", 90.0, cat="cpu_op"),
        drawn(20, 11, "AscendCL@aclnnMm", "1700000000000040.000", 20.0),
        drawn(20, 11, "Node@launch", "1700000000000045.000", 5.0),
        task(800, "MatMul", "1700000000000060.000", "AI_CORE"),
        arrow("s", "async_npu", "1", 10, 10, "1700000000000000.000"),
        arrow("f", "async_npu", "1", 800, 3, "1700000000000060.000"),
        arrow("s", "HostToDevice", "8", 20, 11, "1700000000000046.000"),
        arrow("f", "HostToDevice", "8", 800, 3, "1700000000000060.000"),
    )
    names = {row["slice_id"]: row["name"] for row in tables["host_slices"]}
    assert [(names[op["launch_id"]], names[op["cpu_op_id"]]) for op in tables["gpu_ops"]] == [
        ("Node@launch", "aten::mm")
    ]
    assert categories(tables) == {
        "aten::mm": "cpu_op",
        "ProfilerStep#3": "annotation",
        "AscendCL@aclnnMm": "runtime",
        "Node@launch": "driver",
    }


@pytest.mark.sampled
@pytest.mark.parametrize(("communication", "device"), [(7 << 10 | 9 << 5 | 1, 1), (7 << 10 | 9 << 5 | 4, 0), (901, 1)])
def test_ascend_collectives_are_of_the_device_that_their_process_names(communication: int, device: int) -> None:
    other = 7 << 10 | 8 << 5 | 1
    tables = ascend(
        other - 1,
        process(other, "Ascend Hardware"),
        process(communication, "Communication"),
        {"ph": "M", "name": "thread_name", "pid": communication, "tid": 3, "args": {"name": "Group g Communication"}},
        task(other - 1, "MatMul", "1700000000000000.125", "AI_CORE"),
        task(other, "MatMul", "1700000000000100.125", "AI_CORE"),
        drawn(communication, 3, "hcom_allReduce__1", "1700000000000200.000", 20.0),
    )
    found = [(op["device"], op["collective"]) for op in sorted(tables["gpu_ops"], key=lambda op: op["start_ns"])]
    assert found == [(0, None), (1, None), (device, "allreduce")]


def test_ascend_waits_and_analyses_are_no_work() -> None:
    tables = ascend(
        800,
        task(800, "EVENT_WAIT", "1700000000000000.000", "EVENT_WAIT"),
        task(800, "copy", "1700000000000010.000", "MEMCPY_ASYNC"),
        drawn(30, 1, "hcom_allReduce__123_0_1", "1700000000000020.000", 9.0),
        drawn(30, 2, "Reduce_Inline", "1700000000000021.000", 4.0),
        drawn(40, 0, "Computing", "1700000000000010.000", 5.0),
    )
    assert [(op["kind"], op["is_comm"], op["collective"], op["group_name"]) for op in tables["gpu_ops"]] == [
        ("memcpy", False, None, None),
        ("kernel", True, "allreduce", "g0"),
    ]
    assert tables["host_slices"] == []


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "shown", "counted"),
    [
        ("python3", True, None),
        ("MindSpore", True, None),
        ("CPU OP", True, None),
        ("Scope Layer", False, None),
        ("Ascend Hardware 2", True, (2, "Ascend Hardware 2")),
        (None, True, (2, "without a name")),
    ],
)
def test_ascend_processes_of_unknown_names_are_counted_and_named(
    name: str | None, shown: bool, counted: tuple[int, str] | None
) -> None:
    tables = ascend(
        800,
        *([] if name is None else [process(50, name)]),
        drawn(50, 1, "first", "1700000000000000.000", 5.0),
        drawn(50, 1, "second", "1700000000000010.000", 5.0),
        drawn(50, 1, "aten::mm", "1700000000000020.000", 5.0, cat="cpu_op"),
        task(800, "MatMul", "1700000000000000.000", "AI_CORE"),
    )
    assert works(tables) == [("kernel", "MatMul", 0, 5_000, None)]
    assert {row["name"] for row in tables["host_slices"]} == ({"first", "second", "aten::mm"} if shown else set())
    defects = [(row["defect"], row["defect_count"], row["example"]) for row in tables["defects"]]
    assert defects == ([] if counted is None else [("unknown-process-name", *counted)])


# Intel --------------------------------------------------------------------------------------------------------------


@pytest.mark.check
def test_unitrace_is_not_taken_for_pytorch() -> None:
    device = 4_294_967_295
    tables = tables_of(
        process(device, "DEVICE<host0>[Intel Data Center GPU Max 1550] 0:41:0.0 #0"),
        drawn(70, 70, "zeCommandListAppendLaunchKernel", 1_000.5, 4.0, cat="cpu_op", args={"id": 5}),
        drawn(device, 1, "gemm[SIMD32 {16; 2; 1} {256; 1; 1}]", 1_010.25, 7.5, cat="gpu_op", args={"id": 5}),
        drawn(device, 1, "zeCommandListAppendMemoryCopy(M2D)", 1_020.0, 1.0, cat="gpu_op", args={"id": 6}),
        arrow("s", "Flow_H2D_5_0", 5, 70, 70, 1_000.5),
        arrow("t", "Flow_H2D_5_0", 5, device, 1, 1_010.25),
    )
    assert works(tables) == [
        ("kernel", "gemm", 0, 7_500, "zeCommandListAppendLaunchKernel"),
        ("memcpy", "zeCommandListAppendMemoryCopy(M2D)", 0, 1_000, None),
    ]
    (kernel, copy) = sorted(tables["gpu_ops"], key=lambda op: op["start_ns"])
    assert [kernel[f"{side}_{axis}"] for side in ("grid", "block") for axis in "xyz"] == [16, 2, 1, 256, 1, 1]
    assert copy["copy_kind"] == "HtoD"
    assert categories(tables) == {"zeCommandListAppendLaunchKernel": "runtime"}
    assert recorded_by(tables) == ("unitrace", "intel", "chrome")


CARD = "DEVICE<host0>[Intel Data Center GPU Max 1550] 0:41:0.0"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("processes", "devices"),
    [
        ([f"{CARD} #0", f"{CARD} #1"], [0, 1]),
        ([f"{CARD} #0.0", f"{CARD} #0.1"], [0, 1]),
        ([CARD, f"{CARD} #0"], [0, 0]),
        ([f"RANK 0 {CARD} #0", f"RANK 1 {CARD} #0"], [0, 0]),
        ([f"RANK 0 {CARD} #0", f"RANK 1 {CARD} #1"], [0, 1]),
        ([CARD, CARD.replace("41", "42")], [0, 1]),
    ],
)
def test_tiles_of_a_card_are_devices_of_their_own(processes: list[str], devices: list[int]) -> None:
    pids = [4_294_967_295 - place for place in range(len(processes))]
    names = ["Tile #0: gemm[SIMD32 {16; 2; 1} {256; 1; 1}]", "Tile #1: zeCommandListAppendMemoryFill"]
    tables = tables_of(
        *[process(pid, name) for pid, name in zip(pids, processes, strict=True)],
        *[
            drawn(pid, pid, name, 1_000.5 + place, 4.0, cat="gpu_op", args={"id": place})
            for place, (pid, name) in enumerate(zip(pids, names, strict=True))
        ],
    )
    found = [(op["device"], op["name"]) for op in sorted(tables["gpu_ops"], key=lambda op: op["start_ns"])]
    assert found == list(zip(devices, ["gemm", "zeCommandListAppendMemoryFill"], strict=True))


@pytest.mark.parametrize("has_work", [True, False])
def test_unitrace_is_known_by_its_calls_where_its_processes_have_no_names(has_work: bool) -> None:
    device = 4_294_967_295
    work = [
        drawn(device, 1, "gemm[SIMD32 {16; 2; 1} {256; 1; 1}]", 1_010.25, 7.5, cat="gpu_op", args={"id": 5}),
        arrow("s", "Flow_H2D_5_0", 5, 70, 70, 1_000.5),
        arrow("t", "Flow_H2D_5_0", 5, device, 1, 1_010.25),
    ]
    tables = tables_of(
        drawn(70, 70, "zeCommandListAppendLaunchKernel", 1_000.5, 4.0, cat="cpu_op", args={"id": 5}),
        drawn(70, 70, "zeEventHostSynchronize", 1_005.5, 4.0, cat="cpu_op", args={"id": 6}),
        *work * has_work,
    )
    assert works(tables) == [("kernel", "gemm", 0, 7_500, "zeCommandListAppendLaunchKernel")] * has_work
    assert set(categories(tables).values()) == {"runtime"}
    assert recorded_by(tables)[:2] == ("unitrace", "intel" if has_work else None)
    unknown = [(defect["defect"], defect["defect_count"]) for defect in tables["defects"]]
    assert unknown == [("device-unknown", 1)] * has_work


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("processes", "wanted"),
    [
        ([f"RANK 3 {CARD} #0", "RANK 3 HOST<host0>"], (3, "metadata", "host0")),
        ([f"RANK 0 {CARD} #0"], (0, "metadata", "host0")),
        ([f"{CARD} #0"], (None, None, "host0")),
        ([f"RANK 0 {CARD} #0", f"RANK 1 {CARD} #0"], (None, None, "host0")),
        ([f"RANK 0 {CARD} #0", f"RANK 0 {CARD.replace('host0', 'host1')} #0"], (0, "metadata", None)),
    ],
)
def test_names_of_unitraces_processes_say_the_rank_and_the_host(processes: list[str], wanted: tuple[Any, ...]) -> None:
    tables = tables_of(
        *[process(pid, name) for pid, name in enumerate(processes)],
        *[drawn(pid, 1, "gemm", 1_000 + pid, 4, cat="gpu_op") for pid in range(len(processes))],
    )
    (trace,) = tables["traces"]
    assert (trace["rank"], trace["rank_source"], trace["host"]) == wanted


def test_arrows_of_two_ranks_with_equal_numbers_stay_apart() -> None:
    first = 4_294_967_295
    events: list[Event] = []
    for rank, name in enumerate(("zeCommandListAppendLaunchKernel", "urEnqueueKernelLaunch")):
        device, thread = first - rank, 70 + rank
        events += [
            process(device, f"DEVICE<host0>[Intel Data Center GPU Max 1550] 0:4{rank}:0.0 #{rank}"),
            drawn(thread, thread, name, 1_000.5, 4.0, cat="cpu_op", args={"id": 5}),
            drawn(device, 1, f"gemm{rank}", 1_010.25, 7.5, cat="gpu_op", args={"id": 5}),
            arrow("s", f"Flow_H2D_5_{rank}", 5, thread, thread, 1_000.5),
            arrow("t", f"Flow_H2D_5_{rank}", 5, device, 1, 1_010.25),
        ]
    assert {work[1]: work[-1] for work in works(tables_of(*events))} == {
        "gemm0": "zeCommandListAppendLaunchKernel",
        "gemm1": "urEnqueueKernelLaunch",
    }


# TensorFlow 1 -------------------------------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize(
    ("tracks", "found"),
    [
        (["/gpu:7 Compute"], ["op of /gpu:7"]),
        (["/gpu:7 Compute", "/gpu:7/stream:all Compute", "/gpu:7/stream:3 Compute"], ["op of /gpu:7/stream:all"]),
        (["/job:w/replica:0/task:0/device:GPU:7 Compute"], ["op of /job:w/replica:0/task:0/device:GPU:7"]),
    ],
)
def test_timelines_of_tensorflow_count_work_once(tracks: list[str], found: list[str]) -> None:
    named = [process(pid, name) for pid, name in enumerate([*tracks, "/cpu:0 Compute"])]
    shown = [
        drawn(pid, 0, f"op of {name.removesuffix(' Compute')}", 1_000, 5, cat="Op", args={"op": "MatMul"})
        for pid, name in enumerate([*tracks, "/cpu:0 Compute"])
    ]
    tables = tables_of(*named, *shown)
    assert [(op["name"], op["device"]) for op in tables["gpu_ops"]] == [(name, 7) for name in found]
    assert recorded_by(tables)[0] == "tensorflow"


def test_no_recorder_is_found_in_pytorchs_processes() -> None:
    names = {"python", "python3 train.py", "GPU 0", "CPU", "Spans", "/host:CPU", "/device:GPU:0"}
    assert [recorder.recorder for recorder in RECORDERS if recorder.is_it(names)] == []


@pytest.mark.parametrize(
    ("names", "is_of_xla"),
    [
        ({"/host:CPU", "/device:GPU:0"}, True),
        ({"/host:CPU", "/host:metadata", "Task Environment", "/device:TPU:0 SparseCore 1"}, True),
        ({"node1 /host:CPU", "node2 /device:GPU:0"}, True),
        ({"/host:CPU", "python"}, False),
        (set(), False),
    ],
)
def test_all_processes_of_xla_are_planes(names: set[str], is_of_xla: bool) -> None:
    assert XLA.is_it(names) is is_of_xla


SIDES = ("[4, 2, 1]", "(4,2,1)", "4x2x1", ["4", "2", "1"], {"x": 4, "y": 2, "z": 1})
NO_SIDES = ("", "[4, 2]", "[4, 2, many]", "4.5,2,1")


def test_sides_of_a_launch_in_a_text_are_read_or_counted_as_lost() -> None:
    said = [{key: written} for written in SIDES for key in ("grid", "grid dim")]
    said += [{"grid": written} for written in NO_SIDES]
    args = {"device": 0, "stream": 7, "block": "[256, 1, 1]"}
    kernels = [
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 9 * at, "dur": 2, "args": args | own}
        for at, own in enumerate(said, 1)
    ]
    tables = read(events(*map(json.dumps, kernels)))
    found = [[kernel[f"{side}_{axis}"] for side in ("grid", "block") for axis in "xyz"] for kernel in tables["gpu_ops"]]
    assert found == [[4, 2, 1, 256, 1, 1]] * 10 + [[None, None, None, 256, 1, 1]] * 4
    assert tables.defects == {"bad-number": 4}
