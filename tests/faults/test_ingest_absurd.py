"""An absurd value costs itself: it is counted, and what stands before and after it is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from arguments_read import arguments_of, event_fields, files_that_read_arguments
from fixture_runs import open_fixture
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples
from trace_event_tables import events, read, slice_text

from traceanalyzer.attribution.steps.steps import load_host_steps
from traceanalyzer.cli import main

pytestmark = pytest.mark.check  # what is broken or hostile takes minutes

BEFORE = slice_text("before", ts=1)
AFTER = slice_text("after", ts=100)
DIGITS = "9" * 5000
# Small chunks are valid JSON and parsed whole, the last chunk of a file is read event by event.
CHUNK_SIZES = (100, 2**20)
NESTED = "[" * 100_000 + "]" * 100_000


def kernel_text(name: str = "k", ts: object = 20, dur: object = 5, args: str = "{}") -> str:
    return slice_text(name, ts, dur, cat='"kernel"', pid=0, tid=7, args=args)


def keys_before(keys: str) -> str:
    return "{" + keys + ', "traceEvents": [' + BEFORE + "," + AFTER + '], "last": 1}'


@pytest.mark.parametrize(
    ("text", "defects"),
    [
        (slice_text("x", ts=DIGITS), {"bad-timestamp": 1}),
        (slice_text("x", ts="-" + DIGITS), {"bad-timestamp": 1}),
        (slice_text("x", ts="8.9e15"), {"bad-timestamp": 1}),
        (slice_text("x", ts="-8.9e15"), {"bad-timestamp": 1}),
        (slice_text("x", dur=DIGITS), {"bad-duration": 1}),
        (slice_text("x", ts="null", args=f'{{"a": {NESTED}}}'), {"bad-timestamp": 1}),
    ],
    ids=["digits", "negative", "year 2252", "before Christ", "duration", "time beside deep nesting"],
)
@pytest.mark.parametrize("chunk_bytes", CHUNK_SIZES)
def test_absurd_times_cost_their_event(text: str, defects: dict[str, int], chunk_bytes: int) -> None:
    document = events(BEFORE, text, AFTER)
    tables = read(document, chunk_bytes=chunk_bytes)
    assert tables.names() == ["before", "after"]
    assert tables.defects == defects
    assert tables.offset(next(iter(defects))) == document.index(text)


@pytest.mark.parametrize("field", ["pid", "tid", "id"])
@pytest.mark.parametrize("value", [DIGITS, "-" + DIGITS, "1e400"])
def test_absurd_ids_cost_nothing(field: str, value: str) -> None:
    tables = read(events(BEFORE, slice_text("x", **{field: value}), AFTER))
    assert sorted(tables.names()) == ["after", "before", "x"]  # type: ignore[type-var]


def test_a_damaged_chunk_survives_absurd_numbers() -> None:
    tables = read(events(BEFORE, slice_text("a\\qb", args=f'{{"n": {DIGITS}}}'), AFTER))
    assert tables.names() == ["before", "a\\qb", "after"]


@pytest.mark.parametrize("value", [DIGITS, str(10**20), "1e400", "9" * 400, str(2**63), str(2**62)])
@pytest.mark.parametrize(
    ("table", "column", "keys"),
    [
        ("traces", "rank", '"distributedInfo": {"rank": @, "world_size": 8}'),
        ("traces", "world_size", '"distributedInfo": {"rank": 3, "world_size": @}'),
        ("traces", "base_ns", '"baseTimeNanoseconds": @'),
        ("devices", "sm_count", '"deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": @}]'),
    ],
)
def test_absurd_numbers_of_the_job_are_unknown(table: str, column: str, keys: str, value: str) -> None:
    tables = read(keys_before(keys.replace("@", value)))
    assert tables.names() == ["before", "after"]
    assert tables[table][0][column] is None
    assert tables.defects == {"bad-number": 1}
    if "rank" in keys:
        assert {tables["traces"][0]["rank"], tables["traces"][0]["world_size"]} & {3, 8}


@pytest.mark.parametrize(
    ("rank", "world_size", "kept", "defects"),
    [
        (-1, -1, (None, None), {}),
        ('"-1"', 0, (None, None), {}),
        (-1, 8, (None, 8), {}),
        (0, 1, (0, 1), {}),
        (7, 2, (7, None), {"bad-number": 1}),
        (8, '"8"', (8, None), {"bad-number": 1}),
        (7, "null", (7, None), {}),
    ],
)
def test_a_rank_that_is_none_or_none_of_its_world_is_not_believed(
    rank: object, world_size: object, kept: tuple[int | None, int | None], defects: dict[str, int]
) -> None:
    tables = read(keys_before(f'"distributedInfo": {{"rank": {rank}, "world_size": {world_size}}}'))
    assert (tables["traces"][0]["rank"], tables["traces"][0]["world_size"]) == kept
    assert tables.defects == defects


def test_a_deeply_nested_key_costs_only_itself() -> None:
    tables = read(keys_before(f'"first": 1, "deep": {NESTED}'))
    assert tables.names() == ["before", "after"]
    assert [row["key"] for row in tables["metadata"]] == ["first", "last"]
    assert tables.defects == {"bad-header": 1}


def test_a_long_number_of_an_unknown_key_costs_only_itself() -> None:
    tables = read(keys_before(f'"odd": [{DIGITS}, 10]'))
    assert {row["key"]: row["value"] for row in tables["metadata"]} == {"odd": "[null, 10]", "last": "1"}
    assert tables.defects == {"bad-number": 1}


@pytest.mark.parametrize("digits", ["9" * 60, DIGITS])
def test_steps_with_absurd_numbers_are_counted_instead(digits: str) -> None:
    names = [(0, f"ProfilerStep#{digits}"), (10, "ProfilerStep#7")]
    rows = [{"start_ns": start_ns, "name": name} for start_ns, name in names]
    slices = {"trace_id": 0, "slice_id": 0, "thread_id": 0, "category": "annotation", "dur_ns": 10, "depth": 0}
    with open_fixture(None, {"host_slices": [slices | row for row in rows]}) as connection:
        steps = load_host_steps(connection, 0).steps
    assert [step.number for step in steps] == [0, 1]


@pytest.mark.parametrize("args", ['["stream", 1]', '"stream"', "17", NESTED])
def test_a_kernel_keeps_its_times_where_its_arguments_are_no_object(args: str) -> None:
    good = '{"device": 0, "stream": 7, "correlation": 1}'
    tables = read(
        events(kernel_text("first", 10, args=good), kernel_text(args=args), kernel_text("last", 30, args=good))
    )
    assert tables.names("gpu_ops") == ["first", "k", "last"]
    assert tables.defects == {"bad-arguments": 1}


@pytest.mark.parametrize("sample", ['"much"', "null", "[1]", '{"a": 1}', "1e400"])
def test_a_counter_sample_that_is_no_number_is_counted(sample: str) -> None:
    counters = [
        f'{{"ph": "C", "name": "c", "pid": 1, "ts": {i}, "args": {{"v": {v}}}}}' for i, v in enumerate((1, sample, 2))
    ]
    tables = read(events(BEFORE, *counters, AFTER))
    assert tables.names() == ["before", "after"]
    assert [row["value"] for row in tables["counters"]] == [1, None, 2]
    assert tables.defects == {"bad-counter": 1}


def test_a_counter_without_samples_is_counted() -> None:
    tables = read(events(BEFORE, '{"ph": "C", "name": "c", "pid": 1, "ts": 5, "args": [1, 2]}', AFTER))
    assert tables.defects == {"bad-counter": 1}


def test_a_second_list_of_events_is_counted() -> None:
    tables = read('{"traceEvents": [' + BEFORE + '], "traceEvents": [' + AFTER + '], "last": 1}')
    assert tables.names() == ["before"]
    assert [row["key"] for row in tables["metadata"]] == ["last"]
    assert tables.defects == {"second-event-list": 1}


WHOLE = [0, -1, 2**31, 2**62, 2**63 - 1, 2**63, -(2**63), 10**20, 10**400]
ABSURD = st.one_of(
    st.sampled_from([*map(str, WHOLE), DIGITS, "-" + DIGITS, "1e400", "-1e400", "1.5e300", "1e-300", "0." + DIGITS]),
    st.sampled_from(
        ["NaN", "-Infinity", "true", "null", "[]", "{}", '""', '"\\ud800"', f'"{DIGITS}"', "[" * 2000 + "]" * 2000]
    ),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(repr),
)
EVENT_FIELDS = event_fields()
ARGUMENTS = sorted({key for file in files_that_read_arguments() for key in arguments_of(file)})
METADATA = (
    "baseTimeNanoseconds",
    "schemaVersion",
    "distributedInfo",
    "deviceProperties",
    "record_shapes",
    "host_name",
    "cuda_runtime_version",
)
KINDS = {
    "operator": {"ph": '"X"', "cat": '"cpu_op"'},
    "kernel": {"ph": '"X"', "cat": '"kernel"'},
    "copy": {"ph": '"X"', "cat": '"gpu_memcpy"'},
    "call": {"ph": '"X"', "cat": '"cuda_runtime"'},
    "sync": {"ph": '"X"', "cat": '"cuda_sync"'},
    "begin": {"ph": '"B"'},
    "end": {"ph": '"E"'},
    "async": {"ph": '"b"'},
    "counter": {"ph": '"C"'},
    "flow": {"ph": '"s"'},
    "memory": {"ph": '"i"', "name": '"[memory]"'},
    "name": {"ph": '"M"', "name": '"thread_name"'},
    "process": {"ph": '"M"', "name": '"process_name"'},
}


def survives(document: str) -> None:
    for chunk_bytes in CHUNK_SIZES:
        kept = {row["raw_category"] for row in read(document, chunk_bytes=chunk_bytes)["host_slices"]}
        assert {"first", "last"} <= kept


def event_text(fields: dict[str, str]) -> str:
    values = {"name": '"x"', "pid": "1", "tid": "1", "ts": "10", "dur": "5"} | fields
    return "{" + ", ".join(f'"{key}": {value}' for key, value in values.items()) + "}"


def guarded(*texts: str) -> list[str]:
    first, last = (slice_text(name, ts, 1, tid=99, cat=f'"{name}"') for name, ts in (("first", 1), ("last", 10**6)))
    return [first, *texts, last]


@given(st.sampled_from(sorted(KINDS)), st.dictionaries(st.sampled_from(EVENT_FIELDS), ABSURD, min_size=1, max_size=3))
@examples()
def test_any_value_of_any_field_leaves_other_events_alone(kind: str, fields: dict[str, str]) -> None:
    survives(events(*guarded(event_text(KINDS[kind] | fields))))


@given(st.sampled_from(sorted(KINDS)), st.dictionaries(st.sampled_from(ARGUMENTS), ABSURD, min_size=1, max_size=4))
@examples()
def test_any_value_of_any_argument_leaves_other_events_alone(kind: str, values: dict[str, str]) -> None:
    args = ", ".join(f'"{key}": {value}' for key, value in ({"device": "0", "stream": "7"} | values).items())
    survives(events(*guarded(event_text(KINDS[kind] | {"args": "{" + args + "}"}))))


@given(
    st.dictionaries(st.sampled_from(METADATA), ABSURD, max_size=2),
    st.dictionaries(st.sampled_from(["rank", "world_size", "backend", "pg_config"]), ABSURD, max_size=2),
    st.dictionaries(st.sampled_from(["id", "name", "numSms", "totalGlobalMem", "computeMajor", "warpSize"]), ABSURD),
)
@examples()
def test_any_value_outside_the_events_leaves_them_alone(
    top: dict[str, str], job: dict[str, str], device: dict[str, str]
) -> None:
    def keys(values: dict[str, str]) -> str:
        return "{" + ", ".join(f'"{key}": {value}' for key, value in values.items()) + "}"

    values = {"distributedInfo": keys(job), "deviceProperties": f"[{keys(device)}]"} | top
    survives(keys({"traceEvents": f"[{','.join(guarded())}]"} | values))


@pytest.mark.parametrize("key", ["cuda_runtime_version", "half \\ud800 of a key"])
def test_half_a_surrogate_pair_outside_the_events_is_replaced_and_counted(key: str) -> None:
    tables = read(f'{{"{key}": "\\ud800", "traceEvents": [{slice_text("kept", 1, 1)}]}}')
    assert tables.names() == ["kept"]
    assert tables.defects == {"lone-surrogate": 1}
    assert {row["value"] for row in tables["metadata"]} == {'"\ufffd"'}


# What kind of event each SQL file reads the arguments of.
KINDS_OF_FILES = {
    "chunk": (),  # of rocprof alone, as in macros
    "device_tracks": ("process",),
    "device_waits": ("sync",),
    "gpu": ("kernel", "copy"),
    "host": ("operator", "call"),
    "macros": (),
    "memory_events": ("memory",),
    "process_devices": (),  # of kernels in files of several ranks, as in gpu
    "process_launches": (),
    "syncs": ("sync",),
    "threads": ("name",),
}
ARGUMENTS_OF_KINDS = sorted(
    {(kind, key) for file in files_that_read_arguments() for kind in KINDS_OF_FILES[file] for key in arguments_of(file)}
    - {("call", key) for key in ("Input Dims", "Input dims")}  # of operators alone
    # Of calls without a category alone: tests/trace_events/test_xla_tracks.py.
    - {(kind, "correlation_id") for kind in ("operator", "call")}
    # The same of rocprof: tests/trace_events/test_rocprof.py.
    - {(kind, key) for kind in KINDS for key in ("dev-id", "gpu-id", "stream-id", "queue-id", "Index")}
    - {("operator", "corr_id"), *((kind, "stream_ID") for kind in KINDS)}
    # Of Omnitrace alone, which numbers its work by corr_id: below, and tests/trace_events/test_dialects.py.
    - {(kind, key) for kind in ("kernel", "copy") for key in ("op", "stream_id")}
    # Of Python frames alone, which end where they are recorded to end without them.
    - {(kind, key) for kind in KINDS for key in ("Python id", "Python parent id")}
)


def kept_or_counted(document: str) -> bool:
    """Return whether a value that holds `odd one` was read as a text, or counted as a defect."""
    tables = read(document)
    typed = {name: rows for name, rows in tables.rows.items() if name not in ("event_args", "metadata", "defects")}
    return "odd one" in repr(typed) or sum(tables.defects.values()) == 1


def test_each_file_that_reads_arguments_has_its_kinds() -> None:
    assert set(KINDS_OF_FILES) == set(files_that_read_arguments())
    assert {"ph", "flow_in", "args"} < set(EVENT_FIELDS)
    assert ("operator", "External id") in ARGUMENTS_OF_KINDS and ("sync", "wait_on_stream") in ARGUMENTS_OF_KINDS


@pytest.mark.parametrize("value", ['"odd one"', '["odd one"]', '{"odd one": 1}'])
@pytest.mark.parametrize(("kind", "key"), ARGUMENTS_OF_KINDS)
def test_a_wrong_type_of_any_argument_is_read_as_a_text_or_counted(kind: str, key: str, value: str) -> None:
    plain = {"device": "0", "stream": "7", "name": '"main"'} if kind in ("kernel", "copy", "sync") else {}
    args = ", ".join(f'"{name}": {item}' for name, item in (plain | {key: value}).items())
    event = event_text(KINDS[kind] | {"args": "{" + args + "}"})
    used = event_text({"ph": '"X"', "cat": '"cpu_op"', "tid": "1", "ts": "30"})
    assert kept_or_counted(events(used, event))


@pytest.mark.parametrize("kind", ["kernel", "copy"])
def test_a_stream_of_omnitrace_that_is_no_number_is_counted(kind: str) -> None:
    used = event_text({"ph": '"X"', "cat": '"cpu_op"', "tid": "1", "ts": "30"})
    for stream, defects in (('"odd one"', 1), ("3", 0)):
        args = f'{{"device": 0, "corr_id": 5, "stream_id": {stream}}}'
        found = read(events(used, event_text(KINDS[kind] | {"args": args}))).defects
        assert sum(found.values()) == defects, found


@pytest.mark.parametrize("value", ["true", '"odd"', "[]", "{}", "1e400", str(10**30), '""', '["x"]'])
@pytest.mark.parametrize(
    ("kind", "key"),
    [("call", "correlation"), ("operator", "External id"), ("sync", "stream"), ("sync", "wait_on_stream")],
)
def test_what_is_no_number_is_unknown_and_counted(kind: str, key: str, value: str) -> None:
    table, column = ("syncs", key) if kind == "sync" else ("host_slices", key.lower().replace(" ", "_"))
    for written, defects in ((value, {"bad-number": 1}), ("5", {}), ("null", {})):
        args = f'{{"device": 0, "{key}": {written}}}'
        tables = read(events(BEFORE, event_text(KINDS[kind] | {"args": args, "tid": "9"}), AFTER))
        (row,) = [row for row in tables[table] if row["dur_ns"] == 5000 and row.get("name", "x") == "x"]
        assert row[column] == (5 if written == "5" else None)
        assert tables.defects == defects


@pytest.mark.parametrize("stream", ["-1", "4294967295"])
def test_the_number_of_no_stream_is_no_defect(stream: str) -> None:
    args = f'{{"device": 0, "stream": {stream}, "wait_on_stream": {stream}}}'
    tables = read(events(event_text(KINDS["sync"] | {"args": args})))
    assert (tables["syncs"][0]["stream"], tables.defects) == (None, {})


VERSIONS = ("schemaVersion", "cuda_runtime_version", "cuda_driver_version", "cupti_version", "pytorch_version")


@pytest.mark.parametrize(
    "keys",
    [
        '"distributedInfo": "odd one"',
        '"distributedInfo": {"rank": "odd one"}',
        '"distributedInfo": {"world_size": ["odd one"]}',
        '"distributedInfo": {"backend": ["odd one"]}',
        '"distributedInfo": {"pg_config": "odd one"}',
        '"distributedInfo": {"pg_config": ["odd one"]}',
        '"distributedInfo": {"pg_config": [{"pg_name": "0", "ranks": ["odd one"]}]}',
        '"distributedInfo": {"pg_config": [{"pg_name": "0", "ranks": [0, 1e400]}]}',
        '"distributedInfo": {"pg_config": [{"pg_name": "0", "ranks": {"odd one": 1}}]}',
        '"distributedInfo": {"pg_config": [{"pg_name": ["odd one"], "ranks": [0]}]}',
        '"record_shapes": "odd one"',
        '"record_shapes": ["odd one"]',
        '"record_shapes": 1e400',
        *(f'"{key}": {value}' for key in VERSIONS for value in ('["odd one"]', '{"odd one": 1}', "1e400", "true")),
        '"deviceProperties": "odd one"',
        '"deviceProperties": ["odd one"]',
        '"deviceProperties": [{"id": 0, "name": ["odd one"]}]',
        '"deviceProperties": [{"id": "odd one"}]',
        '"deviceProperties": [{"id": 0, "numSms": {"odd one": 1}}]',
        '"baseTimeNanoseconds": "odd one"',
        '"host_name": ["odd one"]',
    ],
)
def test_a_wrong_type_outside_the_events_is_read_as_a_text_or_counted(keys: str) -> None:
    assert kept_or_counted(keys_before(keys))


@pytest.mark.parametrize("field", ['"flow_in": "odd one"', '"id2": "odd one"', '"id2": {"odd one": 1}'])
def test_a_wrong_type_of_a_field_of_flows_is_counted(field: str) -> None:
    event = '{"ph": "n", "name": "x", "cat": "c", "id": "1", "ts": 5, "pid": 1, "tid": 1, ' + field + "}"
    assert read(events(BEFORE, event, AFTER)).defects == {"bad-number": 1}


KERNEL_ARGUMENTS = (
    '"grid": [2, 3, 4], "block": [32, 2, 1], "bytes": 5, "shared memory": 6, "Group size": 2, "In msg nelems": 7, '
    '"Out msg nelems": 8, "device": 0, "stream": 7, "correlation": 1'
)


@pytest.mark.parametrize(
    ("was", "value", "column"),
    [
        ('"grid": [2, 3, 4]', f'"grid": [{2**62}, 256, 1]', "grid_x"),
        ('"grid": [2, 3, 4]', '"grid": [-1, 1, 1]', "grid_x"),
        ('"grid": [2, 3, 4]', '"grid": "large"', "grid_x"),
        ('"block": [32, 2, 1]', f'"block": [{2**40}, {2**40}, {2**40}]', "block_x"),
        ('"bytes": 5', f'"bytes": {2**62}', "size_bytes"),
        ('"bytes": 5', '"bytes": [5]', "size_bytes"),
        ('"bytes": 5', f'"bytes": {10**30}', "size_bytes"),
        ('"shared memory": 6', f'"shared memory": -{2**62}', "shared_memory_bytes"),
        ('"Group size": 2', f'"Group size": {2**31 - 1}', "group_size"),
        ('"In msg nelems": 7', f'"In msg nelems": {2**63 - 1}', "in_elements"),
        ('"Out msg nelems": 8', '"Out msg nelems": {}', "out_elements"),
        ('"stream": 7', '"stream": "x"', None),
        ('"correlation": 1', '"correlation": "one"', "correlation"),
    ],
)
def test_an_absurd_number_of_gpu_work_is_unknown_and_counted(was: str, value: str, column: str | None) -> None:
    arguments = KERNEL_ARGUMENTS.replace(was, value)
    assert arguments != KERNEL_ARGUMENTS
    category = "gpu_memcpy" if "bytes" in was else "kernel"
    work = slice_text("ncclKernel", 20, 5, cat=f'"{category}"', pid=0, tid=7, args=f"{{{arguments}}}")
    tables = read(events(kernel_text("first", 10, args=f"{{{KERNEL_ARGUMENTS}}}"), work))
    assert tables.defects == {"bad-number": 1}
    row = tables["gpu_ops"][1]
    assert (row["name"], row["dur_ns"], row["stream"]) == ("ncclKernel", 5000, 7)
    if column is not None:
        assert row[column] is None
        assert tables["gpu_ops"][0][column] is not None


@pytest.mark.parametrize("key", ["Bytes", "Total Allocated", "Total Reserved"])
@pytest.mark.parametrize("value", [str(2**62), "-" + str(2**63), '"much"', "[1]", str(10**30)])
def test_an_absurd_number_of_the_allocator_is_unknown_and_counted(key: str, value: str) -> None:
    plain = {"Addr": "1", "Bytes": "2", "Total Allocated": "3", "Total Reserved": "4", "Device Type": "1"}
    args = ", ".join(f'"{name}": {value if name == key else number}' for name, number in plain.items())
    event = f'{{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": {{{args}}}}}'
    tables = read(events(BEFORE, event, AFTER))
    column = {"Bytes": "size_bytes", "Total Allocated": "allocated_bytes", "Total Reserved": "reserved_bytes"}[key]
    assert tables["memory_events"][0][column] is None
    assert tables.defects == {"bad-number": 1}


@pytest.mark.parametrize("value", [2**62, -(2**62), 2**63 - 1, 2**44, 2**38, 2**31 - 1])
def test_every_metric_takes_absurd_numbers(value: int, tmp_path: Path) -> None:
    def work(number: int, category: str) -> str:
        fields = {name: value for name in ARGUMENTS if name not in ("device", "stream", "grid", "block", "Input Dims")}
        lists = {name: [value, 256, 1] for name in ("grid", "block", "Input Dims")}
        args = {**fields, **lists, "Collective name": "gather", "dtype": "ComplexDouble", "device": 0, "stream": 7}
        name = "ncclKernel" if number % 2 else "Memcpy HtoD (Pinned -> Device)"
        return slice_text(name, 10 * number, 5, cat=f'"{category}"', pid=0, tid=7, args=json.dumps(args))

    kinds = ("kernel", "gpu_memcpy", "gpu_memset", "cpu_op")
    texts = [work(4 * number + at, kind) for number in range(3) for at, kind in enumerate(kinds)]
    args = json.dumps(dict.fromkeys(("Addr", "Bytes", "Total Allocated", "Total Reserved"), value))
    texts += [f'{{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": {ts}, "args": {args}}}' for ts in range(3)]
    path = tmp_path / "trace.json"
    properties = '[{"id": 0, "name": "NVIDIA H100", "numSms": 132, "totalGlobalMem": 8}]'
    path.write_text(f'{{"deviceProperties": {properties}, "traceEvents": [{",".join(texts)}]}}')
    assert main(["metrics", "export", str(path), str(tmp_path / "out"), "--jobs", "1"]) == 0
    assert main(["diagnose", str(path), "--jobs", "1"]) == 0
