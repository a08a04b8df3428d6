"""The trace-event format as documented: phases, ids, nesting, flows, counters, names; and what Kineto puts into it."""

from __future__ import annotations

import json

import pytest
from trace_event_tables import events, read, slice_text


def event(**fields: object) -> str:
    return json.dumps(fields)


def test_ranges_by_begin_and_end_become_slices() -> None:
    tables = read(
        events(
            event(ph="B", name="outer", pid=1, tid=1, ts=10),
            event(ph="B", name="inner", pid=1, tid=1, ts=20),
            event(ph="E", pid=1, tid=1, ts=25),
            event(ph="E", pid=1, tid=1, ts=40),
        )
    )
    rows = [(r["name"], r["start_ns"], r["dur_ns"], r["depth"]) for r in tables["host_slices"]]
    assert sorted(rows) == [("inner", 20_000, 5_000, 1), ("outer", 10_000, 30_000, 0)]


def test_shapes_of_operators_are_told_as_both_dialects_write_them() -> None:
    sized = {"ph": "X", "pid": 1, "tid": 1, "dur": 2}
    tables = read(
        events(
            event(**sized, cat="cpu_op", name="aten::mm", ts=1, args={"Input Dims": [[2, 3], [3, 4]], "Ev Idx": 0}),
            event(**sized, cat="cpu_op", name="aten::add", ts=5, args={"Input dims": [[4], []]}),
            event(**sized, cat="cpu_op", name="aten::relu", ts=10, args={"External id": 7}),
            event(**sized, cat="user_annotation", name="mine", ts=15, args={"Input Dims": [[1]]}),
            event(ph="B", cat="cpu_op", name="begun", pid=1, tid=1, ts=20),
            event(ph="E", pid=1, tid=1, ts=25),
        )
    )
    assert {row["name"]: row["input_shapes"] for row in tables["host_slices"]} == {
        "aten::mm": "[[2,3],[3,4]]",
        "aten::add": "[[4],[]]",
        "aten::relu": None,
        "mine": None,
        "begun": None,
    }
    assert tables["traces"][0]["has_shapes"]


@pytest.mark.check
@pytest.mark.parametrize("shapes", ['{"Input Dims": []}', '{"Input Dims": [2]}', '{"Input type": [[1]]}', "{}"])
def test_operators_without_lists_of_lists_have_no_shapes(shapes: str) -> None:
    assert not read(events(slice_text("aten::mm", args=shapes)))["traces"][0]["has_shapes"]


def test_an_end_closes_the_innermost_range_of_its_name() -> None:
    tables = read(
        events(
            event(ph="B", name="a", pid=1, tid=1, ts=10),
            event(ph="B", name="b", pid=1, tid=1, ts=20),
            event(ph="E", name="a", pid=1, tid=1, ts=30),
            event(ph="E", name="b", pid=1, tid=1, ts=40),
        )
    )
    assert {r["name"]: r["dur_ns"] for r in tables["host_slices"]} == {"a": 20_000, "b": 20_000}


def test_unmatched_ends_and_unfinished_begins_are_counted() -> None:
    tables = read(
        events(
            event(ph="E", name="nobody", pid=1, tid=1, ts=5),
            event(ph="B", name="open", pid=1, tid=1, ts=10),
            event(ph="B", name="closed", pid=1, tid=1, ts=20),
            event(ph="E", name="closed", pid=1, tid=1, ts=30),
        )
    )
    assert {r["name"]: r["dur_ns"] for r in tables["host_slices"]} == {"open": 20_000, "closed": 10_000}
    assert tables.defects == {"unmatched-end": 1, "unfinished-begin": 1}


def test_async_ranges_pair_by_category_id_and_name_over_threads() -> None:
    tables = read(
        events(
            event(ph="b", cat="io", id=1, name="read", pid=1, tid=1, ts=10),
            event(ph="b", cat="io", id="0x2", name="read", pid=1, tid=1, ts=11),
            event(ph="e", cat="io", id=1, name="read", pid=1, tid=9, ts=30),
            event(ph="n", cat="io", id=1, name="mark", pid=1, tid=1, ts=12),
            event(ph="b", cat="io", id2={"local": "7"}, name="read", pid=1, ts=13),
            event(ph="e", cat="io", id2={"local": "7"}, name="read", pid=2, ts=14),
        )
    )
    rows = [(r["name"], r["async_id"], r["start_ns"], r["dur_ns"]) for r in tables["async_slices"]]
    assert rows == [
        ("read", "1", 10_000, 20_000),
        ("read", "0x2", 11_000, 19_000),
        ("mark", "1", 12_000, 0),
        ("read", "7", 13_000, 17_000),
    ]


def test_counters_give_a_row_a_series() -> None:
    tables = read(
        events(
            event(ph="C", name="mem", id="a", pid=1, ts=10, args={"used": 5, "free": "7.5"}),
            '{"ph": "C", "name": "sm", "pid": 1, "ts": 11, "args": {"": NaN}}',
            event(ph="C", name="sm", pid=1, ts=12, args={"": 3}),
        )
    )
    rows = [(r["name"], r["series"], r["value"]) for r in tables["counters"]]
    assert rows[:2] == [("mem id: a", "free", 7.5), ("mem id: a", "used", 5.0)]
    assert rows[-1] == ("sm", "", 3.0)


def test_flows_keep_identity_phase_and_binding() -> None:
    tables = read(
        events(
            event(ph="s", id=4, cat="ac2g", name="ac2g", pid=1, tid=1, ts=10),
            event(ph="t", id=4, cat="ac2g", name="ac2g", pid=1, tid=1, ts=11),
            event(ph="f", id=4, cat="ac2g", name="ac2g", pid=0, tid=7, ts=12, bp="e"),
            event(ph="f", id=5, cat="ac2g", name="ac2g", pid=0, tid=7, ts=13),
            event(ph="X", name="v2", pid=1, tid=1, ts=14, dur=1, bind_id="0x9", flow_out=True),
        )
    )
    rows = [(r["flow_id"], r["phase"], r["binds_enclosing"]) for r in tables["flows"]]
    assert rows == [("4", "s", True), ("4", "t", True), ("4", "f", True), ("5", "f", False), ("0x9", "s", True)]


def test_instants_keep_their_scope() -> None:
    tables = read(
        events(event(ph="i", name="mark", s="g", pid="", tid="", ts=10), event(ph="I", name="old", pid=1, tid=1, ts=11))
    )
    assert [(r["name"], r["scope"]) for r in tables["instants"]] == [("mark", "g"), ("old", None)]


def test_threads_are_never_folded() -> None:
    tables = read(
        events(
            slice_text("a", pid=-1, tid=0, cat='"other"'),
            slice_text("b", pid=0, tid=0, cat='"other"'),
            slice_text("c", pid=0, tid=7, cat='"other"'),
            slice_text("d", pid=1, tid=0, cat='"other"'),
            slice_text("e", pid=1, tid=140_737_353_877_312, cat='"other"'),
            slice_text("f", pid='"Spans"', tid='"PyTorch Profiler"', cat='"other"'),
            '{"ph": "X", "name": "g", "ts": 1, "dur": 1}',
        )
    )
    assert [(r["pid"], r["tid"]) for r in tables["threads"]] == [
        ("-1", "0"), ("0", "0"), ("0", "7"), ("1", "0"), ("1", "140737353877312"), ("Spans", "PyTorch Profiler"), (None, None),  # noqa: E501
    ]  # fmt: skip
    assert len(tables["host_slices"]) == 7


def test_a_thread_written_as_text_and_as_number_is_one() -> None:
    tables = read(events(slice_text("a", tid='"25738"'), slice_text("b", tid=25738)))
    assert len(tables["threads"]) == 1


def test_names_apply_to_the_whole_file() -> None:
    tables = read(
        events(
            slice_text("a", ts=1),
            event(ph="M", name="process_name", pid=1, tid=0, args={"name": "python"}),
            event(ph="M", name="thread_name", pid=1, tid=1, ts=99, args={"name": "main"}),
            event(ph="M", name="num_cpus", pid=1, args={"number": 8}),
        )
    )
    assert [(r["process_name"], r["thread_name"]) for r in tables["threads"]] == [("python", "main")]
    assert ("num_cpus 1 ", '{"number":8}') in [(r["key"], r["value"]) for r in tables["metadata"]]


def test_slices_nest_by_time_then_length_then_file_order() -> None:
    tables = read(
        events(slice_text("inner", ts=10, dur=2), slice_text("outer", ts=10, dur=9), slice_text("next", ts=19, dur=1))
    )
    assert {r["name"]: r["depth"] for r in tables["host_slices"]} == {"outer": 0, "inner": 1, "next": 0}


@pytest.mark.check
@pytest.mark.parametrize(
    "document", ["[{}]", '{{"traceEvents": [{}]}}', '{{"traceEvents": [{}], "otherData": {{"v": 1}}}}']
)
def test_json_of_other_tools_is_read(document: str) -> None:
    one = event(
        ts=5,
        name="Task",
        dur=7,
        args={"data": [1, {"x": None}]},
        tid="render",
        pid="browser",
        cat="toplevel,ipc",
        ph="X",
    )
    tables = read(document.format(one))
    assert [(r["name"], r["category"], r["raw_category"]) for r in tables["host_slices"]] == [
        ("Task", "other", "toplevel,ipc")
    ]
    assert tables["traces"][0]["format"] == "chrome"
    assert tables["event_args"][0]["args"] == '{"data":[1,{"x":null}]}'


def test_arguments_that_are_no_object_are_kept() -> None:
    tables = read(events(slice_text("a", args='"( kernel 5"'), slice_text("b", args="[1, 2]")))
    assert [r["args"] for r in tables["event_args"]] == ['"( kernel 5"', "[1,2]"]


def test_kernel_named_categories_of_other_tools_are_no_gpu_work() -> None:
    tables = read(events(slice_text("sys_read", cat='"kernel"', args='{"fd": 3}')))
    assert tables["gpu_ops"] == []
    assert tables.names() == ["sys_read"]


def test_kernels_without_arguments_are_gpu_work_where_their_process_is_a_device() -> None:
    tables = read(
        events(
            event(ph="X", cat="kernel", name="gemm", pid=1, tid="stream 7", ts=10.5, dur=2),
            event(ph="X", cat="Kernel", name="add", pid="1", tid=8, ts=20, dur=2, args={}),
            event(ph="X", cat="kernel", name="sched_switch", pid=4711, tid=4711, ts=10, dur=2),
            event(ph="X", cat="kernel", name="idle", ts=10, dur=2),
        )
    )
    assert [(r["name"], r["device"], r["stream"]) for r in tables["gpu_ops"]] == [("gemm", 1, 7), ("add", 1, 8)]
    assert set(tables.names()) == {"idle", "sched_switch"}


KERNEL_ARGS = '{"device": 1, "stream": 7, "context": 1, "correlation": 9, "External id": 4, "grid": [2, 3, 4], "block": [64, 1, 1]}'  # noqa: E501


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("spelling", "args", "kind"),
    [
        ("kernel", KERNEL_ARGS, "kernel"),
        ("Kernel", KERNEL_ARGS.replace("External", "external"), "kernel"),
        ("gpu_memcpy", '{"device": 1, "stream": 7, "correlation": 9, "External id": 4, "bytes": "64"}', "memcpy"),
        ("Memcpy", '{"device": 1, "stream": "7", "correlation": 9, "external id": 4, "bytes": 64}', "memcpy"),
        ("gpu_memset", '{"device": 1, "stream": 7, "correlation": 9, "External id": 4, "bytes": 64}', "memset"),
        ("Memset", '{"device": 1, "stream": 7, "correlation": 9, "external id": 4, "bytes": 64}', "memset"),
    ],
)
def test_gpu_work_of_every_era_carries_what_caused_it(spelling: str, args: str, kind: str) -> None:
    modern = spelling.islower()
    tables = read(
        events(
            slice_text(
                "step", ts=0, dur=90, cat='"user_annotation"' if modern else '"User"', args='{"External id": 2}'
            ),
            slice_text("model.py(3): forward", ts=0, dur=80, cat='"python_function"', args='{"Python id": 1}'),
            slice_text("aten::op", ts=1, dur=20, cat='"cpu_op"' if modern else '"Operator"', args='{"External id": 4}'),
            slice_text("call", ts=2, dur=6, cat='"cuda_runtime"' if modern else '"Runtime"', args='{"correlation": 9}'),
            slice_text("work", pid=1, tid=7, ts=30, dur=4, cat=f'"{spelling}"', args=args),
        )
    )
    (op,) = tables["gpu_ops"]
    slices = {r["name"]: r["slice_id"] for r in tables["host_slices"]}
    assert (op["kind"], op["device"], op["stream"], op["correlation"], op["external_id"]) == (kind, 1, 7, 9, 4)
    assert op["launch_id"] == slices["call"]
    assert op["cpu_op_id"] == slices["aten::op"]
    assert op["annotation_id"] == slices["step"]
    assert op["python_id"] == slices["model.py(3): forward"]
    assert op["link_source"] == "external_id"


def test_an_operator_without_external_id_is_found_by_nesting() -> None:
    tables = read(
        events(
            slice_text("aten::op", ts=1, dur=20),
            slice_text("hipLaunchKernel", ts=2, dur=6, cat='"cuda_runtime"', args='{"cid": 1, "correlation": 9}'),
            slice_text(
                "k", pid=2, tid=0, ts=30, dur=4, cat='"kernel"', args='{"device": 2, "stream": 0, "correlation": 9}'
            ),
        )
    )
    (op,) = tables["gpu_ops"]
    assert (op["link_source"], op["stream"]) == ("nesting", 0)
    assert tables["devices"][0]["vendor"] == "amd"


@pytest.mark.check
@pytest.mark.parametrize(("launched_ns", "operator"), [(2, "aten::copy_"), (25, None)])
def test_an_external_id_of_an_operator_at_another_time_is_not_believed(launched_ns: int, operator: str | None) -> None:
    #  host  [aten::copy_ 1 ------- 21) [call 25 - 31)  [aten::to 40 - 45)
    #           [call 2 - 8)                              its number is what the copy names
    tables = read(
        events(
            slice_text("aten::copy_", ts=1, dur=20, args='{"External id": 3}'),
            slice_text("aten::to", ts=40, dur=5, args='{"External id": 4}'),
            slice_text("call", ts=launched_ns, dur=6, cat='"cuda_runtime"', args='{"correlation": 9}'),
            slice_text(
                "copy", pid=2, ts=30, cat='"gpu_memcpy"', args='{"device": 0, "correlation": 9, "External id": 4}'
            ),
        )
    )
    (op,) = tables["gpu_ops"]
    names = {row["slice_id"]: row["name"] for row in tables["host_slices"]}
    assert names.get(op["cpu_op_id"]) == operator
    assert op["link_source"] == ("nesting" if operator else None)


def test_a_launch_that_is_not_in_the_trace_stays_unknown() -> None:
    tables = read(events(slice_text("k", cat='"kernel"', args='{"device": 0, "stream": 7, "correlation": 9}')))
    assert tables["gpu_ops"][0]["launch_id"] is None


def test_synchronisation_annotations_and_overhead_are_no_gpu_work() -> None:
    sync = '{"cuda_sync_kind": "Context Sync", "stream": 4294967295, "correlation": 3, "device": 0, "context": 1}'
    wait = '{"stream": 20, "correlation": 4, "device": 0, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 2}'
    tables = read(
        events(
            slice_text("Context Sync", cat='"cuda_sync"', pid=0, tid=4294967295, args=sync),
            slice_text("Stream Wait Event", cat='"cuda_sync"', pid=0, tid=20, args=wait),
            slice_text("ProfilerStep#1", cat='"gpu_user_annotation"', pid=0, tid=7, args='{"External id": 1}'),
            slice_text("Activity Buffer Request", cat='"overhead"', pid=-1, tid=0),
            slice_text("PyTorch Profiler (0)", cat='"Trace"', pid='"Spans"', tid='"PyTorch Profiler"'),
        )
    )
    assert tables["gpu_ops"] == []
    assert [(r["kind"], r["stream"], r["wait_on_stream"], r["wait_on_correlation"]) for r in tables["syncs"]] == [
        ("device", None, None, None),
        ("stream_wait", 20, 7, 2),
    ]
    assert [(r["category"], r["name"]) for r in tables["host_slices"]] == [("overhead", "Activity Buffer Request")]
    assert {r["category"] for r in tables["async_slices"]} == {"gpu_annotation", "span"}


def test_allocator_events_of_both_eras_are_read() -> None:
    new = '{"Addr": 137877174353920, "Bytes": -512, "Total Allocated": 1024, "Total Reserved": 4096, "Device Type": 1, "Device Id": 0}'  # noqa: E501
    tables = read(
        events(
            '{"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": '  # noqa: E501
            + new
            + "}",
            '{"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 6, "args": {"Device Type": 0, "Device Id": -1, "Bytes": 64}}',  # noqa: E501
            '{"ph": "i", "s": "t", "name": "[OutOfMemory]", "pid": 1, "tid": 1, "ts": 7, "args": {"Bytes": 64, "Device Type": 1}}',  # noqa: E501
        )
    )
    rows = [(r["kind"], r["size_bytes"], r["address"], r["allocated_bytes"]) for r in tables["memory_events"]]
    assert rows == [("free", -512, 137877174353920, 1024), ("alloc", 64, None, None), ("oom", 64, None, None)]


def test_shortened_rank_lists_come_from_the_metadata() -> None:
    ranks = list(range(64))
    info = {"backend": "nccl", "rank": "3", "world_size": 64, "pg_config": [{"pg_name": "7", "ranks": ranks}]}
    args = {
        "device": 0, "stream": 9, "correlation": 1, "Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024,  # noqa: E501
        "Group size": 64, "dtype": "BFloat16", "Process Group Name": "7", "Process Group Ranks": "[0, 1, 2, ...]", "Seq": 5,  # noqa: E501
    }  # fmt: skip
    kernel = slice_text("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", cat='"kernel"', pid=0, tid=9, args=json.dumps(args))
    tables = read('{"traceEvents": [' + kernel + '], "distributedInfo": ' + json.dumps(info) + "}")
    (op,) = tables["gpu_ops"]
    assert op["is_comm"]
    assert json.loads(op["group_ranks"]) == ranks
    assert (op["collective"], op["group_size"], op["comm_dtype"], op["in_elements"], op["comm_seq"]) == (
        "allreduce", 64, "BFloat16", 1024, 5,
    )  # fmt: skip
    assert (tables["traces"][0]["rank"], tables["traces"][0]["world_size"]) == (3, 64)


# How each era wrote 1 712 195 495 519 689 047 ns, or a time near it.
ERAS = {
    "whole microseconds since 1970": ("1682725898236567", None, 1_682_725_898_236_567_000),
    "padded nanoseconds since 1970": ("1712195495519689.047", None, 1_712_195_495_519_689_047),
    "relative to a base": ("4458676522690.655", 1_711_964_646_000_000_000, 1_716_423_322_522_690_655),
    "relative where floats go wrong": ("4403000000000.001", 1_711_964_646_000_000_000, 1_716_367_646_000_000_001),
    "text": ('"1712195495519689.047"', None, 1_712_195_495_519_689_047),
    "exponent": ("1.712195495519689047e15", None, 1_712_195_495_519_689_047),
    "float of a tool": ("1712195495519689.0", None, 1_712_195_495_519_689_000),
    "small": ("0.001", None, 1),
}


@pytest.mark.sampled
@pytest.mark.parametrize(("text", "base", "expected_ns"), ERAS.values(), ids=ERAS.keys())
def test_times_are_exact_in_every_spelling(text: str, base: int | None, expected_ns: int) -> None:
    header = "" if base is None else f', "baseTimeNanoseconds": {base}'
    tables = read(
        '{"displayTimeUnit": "ns", "traceEvents": [' + slice_text("op", ts=text, dur="0.001") + "]" + header + "}"
    )
    (row,) = tables["host_slices"]
    assert (row["start_ns"], row["dur_ns"]) == (expected_ns, 1)


def test_unpadded_fractions_of_spring_2024_are_read_and_flagged() -> None:
    nanoseconds = [(i * 37) % 1000 for i in range(200)]
    tables = read(
        events(
            *(
                slice_text("op", ts=f"{1711000000000000 + 9 * i}.{ns}", dur=f"1.{ns}")
                for i, ns in enumerate(nanoseconds)
            )
        )
    )
    rows = sorted(tables["host_slices"], key=lambda r: r["slice_id"])
    assert [r["start_ns"] % 1000 for r in rows] == nanoseconds
    assert [r["dur_ns"] for r in rows] == [1000 + ns for ns in nanoseconds]
    assert tables.defects == {"unpadded-fraction": 1}


def test_padded_fractions_are_not_taken_for_unpadded_ones() -> None:
    tables = read(events(*(slice_text("op", ts=f"{1712195495519689 + 9 * i}.{i % 1000:03}") for i in range(300))))
    assert tables.defects == {}


def test_lost_times_do_not_stretch_the_trace() -> None:
    kernel = '{"device": 0, "stream": 7, "correlation": 1}'
    tables = read(
        events(
            slice_text("lost", ts=0, dur=0, cat='"kernel"', args=kernel),
            slice_text("k", ts=1682725898236567, cat='"kernel"', args=kernel),
        )
    )
    assert tables.names("gpu_ops") == ["k"]
    assert tables.defects == {"zero-timestamp": 1}


@pytest.mark.check
@pytest.mark.parametrize(
    "first",
    [
        event(ph="X", cat="Trace", name="PyTorch Profiler (0)", pid="Spans", tid="PyTorch Profiler", ts=100, dur=900),
        event(ph="i", name="Iteration Start", pid="Traces", tid=0, ts=100, s="g"),
        event(ph="X", cat="gpu_user_annotation", name="step", pid=0, tid=7, ts=100, dur=3),
        event(ph="n", cat="request", name="asked", pid=1, tid=1, ts=100, id="0x1"),
        event(ph="C", name="queue", pid=1, tid=1, ts=100, args={"length": 1}),
    ],
)
def test_a_trace_begins_with_its_first_event_of_any_kind_as_in_viewers(first: str) -> None:
    naming = event(ph="M", name="process_name", pid=1, tid=0, ts=50, args={"name": "python"})
    (trace,) = read(events(naming, slice_text("op", ts=500, dur=100), first))["traces"]
    assert trace["first_ns"] == 100_000


def test_an_instant_at_time_zero_is_not_the_start_of_a_trace() -> None:
    mark = event(ph="i", name="mark", pid=1, tid=1, ts=0, s="g")
    tables = read(events(mark, slice_text("op", ts=1682725898236567)))
    assert tables["traces"][0]["first_ns"] == 1682725898236567_000
    assert tables.defects == {}


def test_unknown_arguments_and_keys_are_kept() -> None:
    tables = read(
        '{"my_key": {"a": [1, 2]}, "traceEvents": ['
        + slice_text("op", args='{"my arg": {"b": 1.5}}')
        + '], "PT_JOB": "x"}'
    )
    assert {r["key"] for r in tables["metadata"]} == {"my_key", "PT_JOB"}
    assert tables["event_args"][0]["args"] == '{"my arg":{"b":1.5}}'


def kernel_on(device: int) -> str:
    return slice_text("k", ts=device, cat='"kernel"', args=f'{{"device": {device}, "stream": 0, "correlation": 1}}')


def devices_of(described: list[dict[str, object]], *devices: int) -> dict[int, str | None]:
    kernels = ", ".join(map(kernel_on, devices))
    text = f'{{"traceEvents": [{kernels}], "deviceProperties": {json.dumps(described)}}}'
    return {row["device"]: row["name"] for row in read(text)["devices"]}


def test_a_device_under_a_number_of_the_machine_is_the_one_that_the_process_sees() -> None:
    assert devices_of([{"id": 0, "name": "AMD Instinct MI300X"}], 9) == {9: "AMD Instinct MI300X"}


def test_devices_have_the_names_and_sizes_that_profilers_of_spring_2021_wrote() -> None:
    numbers = {"id": 0, "totalGlobalMem": 34084028416, "major": 7, "minor": 0, "warpSize": 32}
    described = numbers | {"name": "V100", "multiProcessorCount": 80, "maxThreadsPerMultiProcessor": 2048}
    text = f'{{"schemaVersion": 1, "computeProperties": {json.dumps([described, 1])}, "traceEvents": [{kernel_on(0)}]}}'
    tables = read(text)
    (row,) = tables["devices"]
    assert (row["name"], row["vendor"], row["compute_major"], row["compute_minor"]) == (
        described["name"],
        "nvidia",
        7,
        0,
    )
    assert (row["sm_count"], row["max_threads_per_sm"], row["memory_bytes"]) == (80, 2048, 34084028416)
    assert tables.defects == {"bad-number": 1}


def test_a_device_without_description_is_of_the_kind_that_all_others_are() -> None:
    described: list[dict[str, object]] = [{"id": id_, "name": "NVIDIA H100"} for id_ in (0, 1)]
    assert devices_of(described, 1, 5) == dict.fromkeys((0, 1, 5), "NVIDIA H100")


def test_a_device_without_description_has_no_name_beside_devices_of_two_kinds() -> None:
    described: list[dict[str, object]] = [{"id": 0, "name": "NVIDIA A100"}, {"id": 1, "name": "NVIDIA H100"}]
    assert devices_of(described, 7) == {0: "NVIDIA A100", 1: "NVIDIA H100", 7: None}
