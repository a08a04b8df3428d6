"""The interval macros agree with counting every nanosecond, whatever the order, ties, overlaps and keys of the rows."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.attribution.columns import HOST_CODE
from traceanalyzer.attribution.host.host_states import NEUTRAL, slice_state
from traceanalyzer.metrics import case_of
from traceanalyzer.rules.rule_file.model import format_value
from traceanalyzer.text.visible import quoted
from tracesim import in_memory

Interval = tuple[str, int, int]
Covered = set[tuple[str, int]]

# Few instants and keys, so that ties, touching and overlapping intervals are the rule; some end before they start.
intervals = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 12), st.integers(0, 12)), max_size=12)


@pytest.fixture(scope="module")
def macros() -> Iterator[duckdb.DuckDBPyConnection]:
    with in_memory.connect_tables({}) as connection:
        yield connection


def ask(macros: duckdb.DuckDBPyConnection, call: str, **sets: list[Interval]) -> list[Interval]:
    for name, rows in sets.items():
        macros.execute(f"CREATE OR REPLACE TEMP TABLE {name} (key VARCHAR, start_ns BIGINT, end_ns BIGINT)")
        if rows:
            macros.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
    return macros.execute(f"FROM {call} ORDER BY ALL").fetchall()


def covered(rows: list[Interval]) -> Covered:
    return {(key, instant) for key, start, end in rows for instant in range(start, end)}


def islands(instants: Covered) -> list[Interval]:
    """Return the longest intervals that hold these nanoseconds and no others."""
    found = []
    for key in sorted({key for key, _ in instants}):
        ordered = enumerate(sorted(instant for k, instant in instants if k == key))
        for _, group in groupby(ordered, key=lambda pair: pair[1] - pair[0]):
            run = [instant for _, instant in group]
            found.append((key, run[0], run[-1] + 1))
    return found


@pytest.mark.check
def test_equal_intervals_count_once_however_often_they_are_merged(macros: duckdb.DuckDBPyConnection) -> None:
    # DuckDB puts equal rows in an order of its own in each window, differently in one query of twenty.
    macros.execute(
        """
        CREATE OR REPLACE TEMP TABLE twice AS
        WITH once AS (SELECT {'a': k, 'b': 0} AS key, i * 10 AS start_ns, i * 10 + 5 AS end_ns
                      FROM range(4) AS keys(k), range(2000) AS places(i))
        FROM once UNION ALL FROM once WHERE start_ns % 30 = 0
        """
    )
    lengths = "SELECT sum(end_ns - start_ns), count(*) FROM interval_merge('twice')"
    assert {macros.execute(lengths).fetchall()[0] for _ in range(150)} == {(40_000, 8_000)}


@given(intervals)
@examples(80)
def test_merge_is_the_union(macros: duckdb.DuckDBPyConnection, rows: list[Interval]) -> None:
    assert ask(macros, "interval_merge('one')", one=rows) == islands(covered(rows))


@given(intervals)
@examples(80)
def test_gaps_are_what_the_union_leaves_between_its_ends(
    macros: duckdb.DuckDBPyConnection, rows: list[Interval]
) -> None:
    union = covered(rows)
    inside = {
        (key, instant)
        for key in "ab"
        for own in [[i for k, i in union if k == key]]
        if own
        for instant in range(min(own), max(own))
    }
    assert ask(macros, "interval_gaps('one')", one=rows) == islands(inside - union)


def test_launch_sizes_are_equal_where_all_six_numbers_are(macros: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT launch_size(9, 2, 1, 128, 1, 1) = launch_size(?, 2, 1, 128, 1, ?)"
    assert [macros.execute(query, pair).fetchone() for pair in ((9, 1), (9, 2), (8, 1), (None, 1))] == [
        (True,),
        (False,),
        (False,),
        (None,),
    ]


@pytest.mark.parametrize(
    ("macro", "combine"),
    [("interval_subtract", Covered.difference), ("interval_intersect", Covered.intersection)],
)
@given(one=intervals, two=intervals)
@examples(80)
def test_two_sets_are_combined_instant_by_instant(
    macros: duckdb.DuckDBPyConnection,
    macro: str,
    combine: Callable[[Covered, Covered], Covered],
    one: list[Interval],
    two: list[Interval],
) -> None:
    rows = ask(macros, f"{macro}('one', 'two')", one=one, two=two)
    expected = combine(covered(one), covered(two))
    assert covered(rows) == expected
    assert sum(end - start for _, start, end in rows) == len(expected), "no piece is empty, none covers another"


def test_an_overlay_tells_which_set_covers_each_stretch(macros: duckdb.DuckDBPyConnection) -> None:
    # first  [0----4)
    # second    [2----6)  [8-9)
    first, second = [("a", 0, 4)], [("a", 2, 6), ("a", 8, 9)]
    rows: list[tuple[object, ...]] = [*ask(macros, "interval_overlay('one', 'two')", one=first, two=second)]
    assert rows == [
        ("a", 0, 2, True, False),
        ("a", 2, 4, True, True),
        ("a", 4, 6, False, True),
        ("a", 6, 8, False, False),
        ("a", 8, 9, False, True),
    ]


def test_intervals_that_touch_become_one(macros: duckdb.DuckDBPyConnection) -> None:
    #  0    5    9
    #  [----)
    #       [----)
    assert ask(macros, "interval_merge('one')", one=[("a", 5, 9), ("a", 0, 5)]) == [("a", 0, 9)]


def test_zero_lengths_cover_nothing_and_cut_nothing(macros: duckdb.DuckDBPyConnection) -> None:
    points = [("a", 3, 3), ("a", 20, 20)]
    assert ask(macros, "interval_merge('one')", one=points) == []
    assert ask(macros, "interval_gaps('one')", one=[("a", 0, 5), *points]) == []
    assert ask(macros, "interval_subtract('one', 'two')", one=[("a", 0, 5)], two=points) == [("a", 0, 5)]


def test_nanoseconds_since_the_epoch_stay_exact(macros: duckdb.DuckDBPyConnection) -> None:
    start = 1_719_853_884_000_000_001
    one, two = [("a", start, start + 3)], [("a", start + 1, start + 2)]
    pieces = [("a", start, start + 1), ("a", start + 2, start + 3)]
    assert ask(macros, "interval_subtract('one', 'two')", one=one, two=two) == pieces


def test_a_key_may_be_of_several_columns_and_null(macros: duckdb.DuckDBPyConnection) -> None:
    macros.execute(
        """
        CREATE OR REPLACE TEMP VIEW keyed AS
        SELECT {'trace_id': trace_id, 'kind': kind} AS key, start_ns, end_ns
        FROM (VALUES (0, 'HtoD', 0, 4), (0, NULL, 2, 6), (0, NULL, 6, 8), (1, 'HtoD', 1, 2))
            AS rows (trace_id, kind, start_ns, end_ns)
        """
    )
    rows = macros.execute("FROM interval_merge('keyed') ORDER BY key.trace_id, key.kind NULLS LAST").fetchall()
    assert rows == [
        ({"trace_id": 0, "kind": "HtoD"}, 0, 4),
        ({"trace_id": 0, "kind": None}, 2, 8),
        ({"trace_id": 1, "kind": "HtoD"}, 1, 2),
    ]


def test_a_device_of_a_hundred_thousand_intervals_is_merged_at_once(macros: duckdb.DuckDBPyConnection) -> None:
    macros.execute(
        """
        CREATE OR REPLACE TEMP TABLE many AS
        SELECT 0 AS key, 10 * i AS start_ns, 10 * i + 5 AS end_ns
        FROM range(100000) AS rows (i)
        """
    )
    # A growth with the square would take minutes.
    assert macros.execute("SELECT count(*), sum(end_ns - start_ns) FROM interval_gaps('many')").fetchone() == (
        99_999,
        499_995,
    )


durations = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 9)), max_size=12)


@given(durations)
@examples()
def test_durations_are_summed_up_as_a_statistician_does(
    macros: duckdb.DuckDBPyConnection, rows: list[tuple[str, str, int]]
) -> None:
    macros.execute("CREATE OR REPLACE TEMP TABLE calls (file VARCHAR, file_rank INTEGER, key VARCHAR, dur_ns BIGINT)")
    if rows:
        macros.executemany("INSERT INTO calls VALUES (?, 3, ?, ?)", rows)
    expected = []
    for file, key in sorted({row[:2] for row in rows}):
        own = [dur for of_file, of_key, dur in rows if (of_file, of_key) == (file, key)]
        total = sum(dur for of_file, _, dur in rows if of_file == file)
        share = 100 * sum(own) / total if total else None
        spread = statistics.stdev(own) if len(own) > 1 else 0
        centre = (statistics.mean(own), statistics.median(own), min(own), max(own), spread)
        expected.append((file, 3, key, share, sum(own), len(own), *centre))
    found = macros.execute("FROM duration_summary('calls') ORDER BY ALL").fetchall()
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    # Rounded to one decimal there.
    assert [row[3:] for row in found] == [pytest.approx(row[3:], abs=0.051) for row in expected]


def test_the_span_of_steps_is_from_the_first_to_the_last_of_each_device(macros: duckdb.DuckDBPyConnection) -> None:
    macros.execute(
        """
        CREATE OR REPLACE TEMP TABLE steps AS
        SELECT 'a' AS trace, 0 AS rank, 0 AS trace_id, * FROM (
            VALUES (0, 30, 5), (0, 10, 40), (1, 7, 0)
        ) AS rows (device, start_ns, dur_ns)
        """
    )
    found = macros.execute("SELECT device, start_ns, end_ns FROM step_span('steps') ORDER BY ALL").fetchall()
    assert found == [(0, 10, 50), (1, 7, 7)]


def test_an_operation_counts_to_every_kind_that_holds_it(macros: duckdb.DuckDBPyConnection) -> None:
    found = macros.execute(
        """
        SELECT list_sort(engines_of(kind, is_comm, copy_kind, is_managed, has_graphs))
        FROM (
            VALUES ('kernel', FALSE, NULL, FALSE, FALSE), ('kernel', TRUE, NULL, FALSE, TRUE),
                ('memcpy', FALSE, 'HtoD', TRUE, FALSE), ('memcpy', FALSE, NULL, FALSE, TRUE),
                ('memset', FALSE, NULL, FALSE, FALSE), ('graph', FALSE, NULL, FALSE, TRUE)
        ) AS ops (kind, is_comm, copy_kind, is_managed, has_graphs)
        """
    ).fetchall()
    assert found == [
        (["compute", "kernel", "op", "op_no_graph"],),
        (["comm", "kernel", "kernel_or_graph", "op", "op_no_graph"],),
        (["UVM HtoD", "memcpy", "op", "op_no_graph"],),
        (["memcpy", "op", "op_no_graph", "unknown copy"],),
        (["memset", "op", "op_no_graph"],),
        (["compute_or_graph", "graph", "kernel_or_graph", "op"],),
    ]


def test_counts_bring_the_word_for_one_or_for_many(macros: duckdb.DuckDBPyConnection) -> None:
    amounts = "(VALUES (0.0), (0.6), (1.4), (1.5), (1234.5), (NULL)) AS amounts (amount)"
    found = macros.execute(f"SELECT counted(amount, 'copy', 'copies') FROM {amounts}").fetchall()
    assert [words for (words,) in found] == ["0 copies", "1 copy", "1 copy", "2 copies", "1,234 copies", None]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("element_bytes('float')", 4),
        ("element_bytes('c10::BFloat16')", 2),
        ("element_bytes('c10::Float8_e4m3fn')", 1),
        ("element_bytes('Scalar')", None),
        ("""type_names('["c10::Half", "float", "Scalar", ""]')""", ["c10::Half", "float", "Scalar", ""]),
        ("""type_names('["struct c10::Half", "unsigned __int64"]')""", ["c10::Half", "unsigned long"]),
        ("type_names(NULL)", None),
        ("scalar_type_bytes('6')", 4),
        ("scalar_type_bytes('15')", 2),
        ("scalar_type_bytes('24')", 1),
        ("scalar_type_bytes('')", None),
        ("element_count([2, 3])", 6),
        ("element_count([]::BIGINT[])", 1),
        ("element_count(NULL::BIGINT[])", None),
        ("tensor_shape(['[2, 3]', '[]'], 0)", [2, 3]),
        ("tensor_shape(['[2, 3]', '[]'], 1)", []),
        ("tensor_shape(['[2, 3]', '[]'], 2)", None),
        ("tensor_shape(['\"text\"'], 0)", None),
        ("tensor_shape(['[9000000000, 9000000000]'], 0)", None),
    ],
)
def test_shapes_and_types_of_inputs(macros: duckdb.DuckDBPyConnection, call: str, value: object) -> None:
    assert macros.execute(f"SELECT {call}").fetchall() == [(value,)]


@pytest.mark.parametrize(
    ("inputs", "types", "makes_real", "size_bytes"),
    [
        ([([4], 2, 2), ([4], 4, 2)], ["c10::Half", "float"], False, 4),  # the larger of two real numbers
        (
            [([4], 2, 2), ([], 8, 2)],
            ["c10::BFloat16", "double"],
            False,
            2,
        ),  # a number without dimensions decides nothing
        ([([4], 8, 1), ([], 8, 2)], ["long int", "double"], False, 4),  # but that a whole number becomes a real one
        ([([4], 2, 2), ([4], 2, 2)], ["c10::Half", "c10::BFloat16"], False, 4),
        ([([4], 8, 1)], ["long int"], True, 4),
    ],
)
def test_the_size_of_a_result_is_what_types_promote_to(
    macros: duckdb.DuckDBPyConnection,
    inputs: list[tuple[list[int], int, int]],
    types: list[str],
    makes_real: bool,
    size_bytes: int,
) -> None:
    given_inputs = [{"shape": shape, "bytes": size, "kind": kind} for shape, size, kind in inputs]
    structs = "$inputs::STRUCT(shape BIGINT[], bytes INTEGER, kind INTEGER)[]"
    values = {"inputs": given_inputs, "types": types, "makes_real": makes_real}
    rows = macros.execute(f"SELECT result_bytes({structs}, $types, $makes_real)", values).fetchall()
    assert rows == [(size_bytes,)]


@pytest.mark.parametrize(
    ("name", "does"),
    [
        *((name, True) for name in ("MPI_Allreduce", "PMPI_Send", "gloo:all_reduce", "mpi:broadcast")),
        *((name, False) for name in ("my_MPI_thing", "nccl:all_reduce", "cudaLaunchKernel", "gloom", "")),
    ],
)
def test_calls_of_mpi_and_gloo_exchange_on_the_host(macros: duckdb.DuckDBPyConnection, name: str, does: bool) -> None:
    assert macros.execute("SELECT exchanges_on_host($name)", {"name": name}).fetchall() == [(does,)]


@pytest.mark.parametrize(
    ("kernel_class", "name", "does"),
    [
        (
            "other",
            "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 2>(float*, unsigned char*, float*, int, int)",
            True,
        ),
        ("other", "void dequantize_block_q4_K<__half>(void const*, __half*)", True),
        ("other", "void vllm::awq::dequantize_weights(int*, __half*, int*, __half*, int, int)", True),
        ("other", "void vllm::gptq::reconstruct_exllama_4bit_kernel(unsigned int const*, int const*, __half*)", True),
        ("gemm", "void dequantize_block_q4_K_gemm<__half>(void const*, __half*)", False),
        ("other", "void dequantize_blocks_of_kv_cache<__half>(void const*, __half*)", False),
        ("other", "void dequantize_4bit_embedding<float>(void const*, float*)", False),
        ("other", "void quantize_block_q8_1(float const*, void*)", False),
        ("elementwise", "vectorized_elementwise_kernel", False),
    ],
)
def test_kernels_that_unpack_weights_do_nothing_else(
    macros: duckdb.DuckDBPyConnection, kernel_class: str, name: str, does: bool
) -> None:
    assert macros.execute(
        "SELECT unpacks_weights($class, $name)", {"class": kernel_class, "name": name}
    ).fetchall() == [(does,)]


@pytest.mark.parametrize(
    ("name", "is_line"),
    [
        ("train.py(7): step", True),
        ("torch/nn/modules/linear.py(125): forward", True),
        ("torch/nn/modules/module.py(1776): my_hook", True),
        ("mytorch/_ops.py(1): __call__", True),
        ("torch/_ops.py(1): __call__", False),
        ("/usr/lib/torch/nn/modules/module.py(1776): _wrapped_call_impl", False),
        ("torch/nn/modules/module.py(1787): _call_impl", False),
        ("torch/overrides.py(2): __torch_function__", False),
        ("<built-in function linear>", False),
        ("nn.Module: Linear_0", False),
        ("$train.py:7 step", True),
        ("$time sleep", False),
        ("$<unknown> acquire", False),
    ],
)
def test_frames_of_calls_themselves_are_no_python_lines(
    macros: duckdb.DuckDBPyConnection, name: str, is_line: bool
) -> None:
    assert macros.execute("SELECT is_python_line($name)", {"name": name}).fetchall() == [(is_line,)]


@pytest.mark.parametrize(
    ("name", "is_profiler"),
    [
        ("$profiler.py:385 __init__", True),
        ("$profiler.py:271 stop_trace", True),
        ("$profiler.py:307 trace", True),
        ("$profiler_v2.py:90 start", True),
        ("torch/profiler/profiler.py(786): step", True),
        ("/usr/lib/torch/autograd/profiler.py(10): __exit__", True),
        ("jax/_src/profiler.py(151): start_trace", True),
        ("$profiler.py:9 profile_model", False),
        ("$my_profiler.py:9 start", False),
        ("$contextlib.py:141 __exit__", False),
        ("train.py(7): trace", False),
        ("mytorch/profiler/data.py(3): load", False),
    ],
)
def test_frames_of_profilers_are_known(macros: duckdb.DuckDBPyConnection, name: str, is_profiler: bool) -> None:
    assert macros.execute("SELECT is_profiler_frame($name)", {"name": name}).fetchall() == [(is_profiler,)]


@pytest.mark.parametrize(
    ("category", "raw_category", "name", "does"),
    [
        ("annotation", "user_annotation", "ProfilerStep#3", True),
        ("annotation", "step_num", "train 3", True),
        ("annotation", None, "train 3", False),
        ("cpu_op", None, "ProfilerStep#3", False),
        ("annotation", None, "ProfilerStep#3 of 4", False),
    ],
)
def test_steps_are_marked_by_the_profilers_own_annotations(
    macros: duckdb.DuckDBPyConnection, category: str, raw_category: str | None, name: str, does: bool
) -> None:
    values = {"category": category, "raw": raw_category, "name": name}
    assert macros.execute("SELECT marks_step($category, $raw, $name)", values).fetchall() == [(does,)]


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("aten::add.Tensor", "aten::add"),
        ("aten::add_", "aten::add_"),
        ("my::op.out_mode", "my::op"),
        ("train.py", "train.py"),
        ("a::b.c.d", "a::b.c.d"),
        (None, None),
    ],
)
def test_the_overload_is_no_part_of_an_operators_name(
    macros: duckdb.DuckDBPyConnection, name: str | None, base: str | None
) -> None:
    assert macros.execute("SELECT operator_base($name)", {"name": name}).fetchall() == [(base,)]


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("pure_callback.1", True),
        ("io_callback", True),
        ("EagerPyFunc", True),
        ("callback_fusion", False),
        ("pure_callbacks_fusion", False),
    ],
)
def test_an_operator_that_calls_python_is_known_by_its_name(
    macros: duckdb.DuckDBPyConnection, name: str, does: bool
) -> None:
    assert macros.execute("SELECT calls_python($name)", {"name": name}).fetchall() == [(does,)]


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("_compile.compile_inner (dynamo_timed)", True),
        ("PjRtStreamExecutorClient::CompileAndLoad", True),
        ("GpuCompiler::RunBackend", True),
        ("backend_compile_and_load", True),
        ("$pxla.py:2150 lower_sharding_computation", True),
        ("aten::compile", False),
        ("$train.py:10 compile", False),
    ],
)
def test_a_slice_that_compiles_a_program_is_known_by_its_name(
    macros: duckdb.DuckDBPyConnection, name: str, does: bool
) -> None:
    assert macros.execute("SELECT compiles_program($name)", {"name": name}).fetchall() == [(does,)]


@pytest.mark.parametrize(
    ("hlo_op", "does"),
    [
        ("infeed.2", True),
        ("outfeed", True),
        ("recv-done.1", True),
        ("copy-done.2", False),
        ("all-reduce.1", False),
        ("transpose.send", False),
    ],
)
def test_an_operation_that_hands_data_over_with_the_host_is_known_by_its_name(
    macros: duckdb.DuckDBPyConnection, hlo_op: str, does: bool
) -> None:
    assert macros.execute("SELECT feeds_program($hlo_op)", {"hlo_op": hlo_op}).fetchall() == [(does,)]


@pytest.mark.parametrize(
    ("category", "name", "does"),
    [
        ("annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", True),
        ("annotation", "load_batch", True),
        ("annotation", "data wait", True),
        ("annotation", "IteratorGetNext", True),
        ("annotation", "load_model", False),
        ("annotation", "data_parallel", False),
        ("python", "$dataloader.py:630 __next__", True),
        ("python", "$train.py:12 get_next_batch", True),
        ("python", "$train.py:12 train_step", False),
        ("other", "IteratorGetNext", True),
        ("other", "load_batch", False),
    ],
)
def test_a_slice_that_waits_for_input_is_known_by_its_name(
    macros: duckdb.DuckDBPyConnection, category: str, name: str, does: bool
) -> None:
    values = {"category": category, "name": name}
    assert macros.execute("SELECT waits_for_input($category, $name)", values).fetchall() == [(does,)]


@pytest.mark.parametrize(
    ("args", "is_cut"),
    [
        ('{"finished": "false"}', True),
        ('{"finished": false}', True),
        ('{"finished": true}', False),
        ('{"open": true}', True),
        ('{"opened": true}', False),
        ("{}", False),
    ],
)
def test_a_range_that_was_open_when_the_recording_stopped_says_so(
    macros: duckdb.DuckDBPyConnection, args: str, is_cut: bool
) -> None:
    assert macros.execute("SELECT is_cut($args)", {"args": args}).fetchall() == [(is_cut,)]


# Macros that one metric alone reads are tested with it.
TESTED_WITH_THEIR_METRIC = {
    *(
        "attention_costs",
        "convolution_costs",
        "matrix_costs",
        "pool_costs",
        "reduce_costs",
        "row_costs",
        "tensor_costs",
    ),
    *("read_signatures", "vector_costs"),
    *("graph_replays", "kernel_base", "kernel_identity", "marked_ranges", "recorded_slices", "without_nested"),
}


def test_others_compute_for_as_long_as_their_rows_meet_a_row(macros: duckdb.DuckDBPyConnection) -> None:
    rows = [
        (0, 0, 0, 0, 10, "compute"),
        (0, 0, 1, 10, 10, "host.sync"),
        (0, 0, 2, 20, 10, "compute"),
        (0, 1, 0, 0, 8, "dev.unresolved"),
        (0, 1, 1, 8, 10, "compute"),
        (0, 1, 2, 18, 4, "host.op"),
        (0, 1, 3, 22, 8, "compute"),
        (1, 0, 0, 0, 10, "compute"),  # the only device of its trace
    ]
    columns = "trace_id INTEGER, device INTEGER, row_id BIGINT, start_ns BIGINT, dur_ns BIGINT, bucket VARCHAR"
    macros.execute(f"CREATE OR REPLACE TEMP TABLE pieces ({columns}, kept BOOLEAN DEFAULT TRUE)")
    for row in rows:
        macros.execute(
            "INSERT INTO pieces (trace_id, device, row_id, start_ns, dur_ns, bucket) VALUES (?, ?, ?, ?, ?, ?)", row
        )
    found = macros.execute("SELECT device, row_id, others_ns FROM others_computing('pieces') ORDER BY ALL").fetchall()
    computing = {
        device: {
            at
            for _, other, _, start, dur, bucket in rows[:7]
            if other != device and bucket == "compute"
            for at in range(start, start + dur)
        }
        for device in (0, 1)
    }
    assert found == [
        (device, row_id, len(computing[device] & set(range(start, start + dur))))
        for _, device, row_id, start, dur, _ in rows[:7]
    ]


def test_every_macro_has_a_test(root: Path) -> None:
    text = Path(__file__).read_text()
    macros = (root / "traceanalyzer" / "macros").glob("*.sql")
    names = {path.stem for path in macros} - TESTED_WITH_THEIR_METRIC
    assert [name for name in sorted(names) if f"{name}(" not in text and f'"{name}"' not in text] == []


@pytest.mark.parametrize(
    "size_bytes", [0, 1023, 1024, -1100, 2**20 - 1, 2**20, 1250 * 2**20, 2**30, 75 * 2**30, 2**40, 5 * 10**15]
)
def test_sizes_in_texts_of_queries_read_like_those_of_messages(
    macros: duckdb.DuckDBPyConnection, size_bytes: int
) -> None:
    assert macros.execute("SELECT sized(?)", [size_bytes]).fetchone() == (format_value(size_bytes, "bytes"),)


def test_an_unknown_size_stays_unknown(macros: duckdb.DuckDBPyConnection) -> None:
    assert macros.execute("SELECT sized(NULL)").fetchone() == (None,)


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "latest_end_ns", "wanted"),
    [(10, 30, None, 20), (10, 30, 5, 20), (10, 30, 12, 18), (10, 30, 30, 0), (10, 30, 99, 0), (10, 10, None, 0)],
)
def test_an_interval_adds_what_those_before_it_left_uncovered(
    macros: duckdb.DuckDBPyConnection, start_ns: int, end_ns: int, latest_end_ns: int | None, wanted: int
) -> None:
    found = macros.execute("SELECT uncovered_ns(?, ?, ?)", [start_ns, end_ns, latest_end_ns]).fetchone()
    assert found == (wanted,)


@pytest.mark.parametrize(
    ("operator", "makes"),
    [
        *(("aten::randn", True), ("aten::zeros_like", True), ("aten::normal_", True), ("aten::full.names", True)),
        *(("aten::random_projection", False), ("aten::add", False), ("my::randn", False), (None, False)),
    ],
)
def test_operators_that_make_values_from_none(
    macros: duckdb.DuckDBPyConnection, operator: str | None, makes: bool
) -> None:
    assert macros.execute("SELECT makes_values(?)", [operator]).fetchone() == (makes,)


@pytest.mark.parametrize(
    ("operator", "runs"),
    [
        *(("aten::mkldnn_convolution", True), ("aten::_scaled_dot_product_flash_attention_for_cpu", True)),
        *(("aten::_slow_conv2d_forward", True), ("mkldnn::_linear_pointwise", True), ("aten::_mkl_linear", True)),
        *(("aten::addmm", False), ("aten::_scaled_dot_product_flash_attention", False), ("my::mkldnn", False)),
    ],
)
def test_operators_that_only_the_cpu_has(macros: duckdb.DuckDBPyConnection, operator: str, runs: bool) -> None:
    assert macros.execute("SELECT runs_on_cpu(?)", [operator]).fetchone() == (runs,)


@pytest.mark.parametrize(
    ("name", "laptop"),
    [("NVIDIA GeForce RTX 4080 Laptop GPU", True), ("Quadro RTX 5000 with Max-Q Design", True), ("RTX 4080", False)],
)
def test_a_laptops_device_is_known_by_its_name(macros: duckdb.DuckDBPyConnection, name: str, laptop: bool) -> None:
    assert macros.execute("SELECT is_laptop(?)", [name]).fetchall() == [(laptop,)]


@pytest.mark.parametrize(
    ("number", "places", "rounded"), [(694122.85, 1, 694122.9), (0.25, 1, 0.3), (0.24, 1, 0.2), (1.0005, 3, 1.001)]
)
def test_an_exact_half_goes_up(macros: duckdb.DuckDBPyConnection, number: float, places: int, rounded: float) -> None:
    assert macros.execute("SELECT round_half_up(?, ?)", [number, places]).fetchall() == [(rounded,)]


@pytest.mark.parametrize("aspect", ["class", "precision", "tensor_core"])
def test_a_case_holds_every_pattern_of_its_aspect_in_order(macros: duckdb.DuckDBPyConnection, aspect: str) -> None:
    patterns = "SELECT pattern, value FROM kernel_class_patterns WHERE aspect = $1 ORDER BY position"
    rows = macros.execute(patterns, [aspect]).fetchall()
    lines = [f"WHEN regexp_matches(name, {quoted(pattern)}) THEN {quoted(value)}" for pattern, value in rows]
    assert rows
    assert case_of(aspect).splitlines() == ["CASE", *lines, "END"]


# Each kind of call: its names, and what attribution takes it for. "wait" are the three waits together.
CALLS = {
    "launch": ("host.launch_api", "cudaLaunchKernel_v7000 cuLaunchKernelEx hipExtModuleLaunchKernel cnInvokeKernel"),
    "replay": ("host.launch_api", "cudaGraphLaunch_v10000 hipGraphLaunch muGraphLaunch"),
    "record": ("host.compile", "cudaGraphInstantiate_v12000 hipStreamBeginCapture cudaStreamEndCapture_v10000"),
    "copy": ("host.launch_api", "cudaMemcpyAsync hipMemcpyWithStream cuMemcpyHtoDAsync_v2 musaMemcpy"),
    "fill": ("host.launch_api", "cudaMemsetAsync cuMemsetD8_v2"),
    "wait for a device": ("host.sync", "cudaDeviceSynchronize cuCtxSynchronize cnrtSyncDevice aclrtSynchronizeDevice"),
    "wait for a stream": (
        "host.sync",
        "hipStreamSynchronize urQueueFinish aclrtSynchronizeStream AscendCL@aclrtSynchronizeStream cnrtQueueSync",
    ),
    "wait for an event": ("host.sync", "cudaEventSynchronize urEventWait zeEventHostSynchronize cnrtNotifierWait"),
    "ask": (None, "cudaEventQuery cuStreamQuery hipEventQuery cudaStreamQuery_v3020"),
    "allocate": ("host.alloc", "cudaMalloc_v3020 hipMallocAsync cuMemCreate hipMemMap urUSMDeviceAlloc cnrtMalloc"),
    "free": ("host.alloc", "cudaFree cuMemFree_v2 hipMemUnmap cuMemRelease urUSMFree cnrtFree"),
    "pin": ("host.host_alloc", "cudaHostAlloc cudaMallocHost hipHostMalloc cuMemFreeHost cuMemHostRegister_v2"),
}


def does_call(macros: duckdb.DuckDBPyConnection, name: str, what: str) -> bool:
    return macros.execute("SELECT calls_to(?, ?)", [name, what]).fetchall() == [(True,)]


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_does_one_thing_by_its_name_in_sql_and_in_attribution(
    macros: duckdb.DuckDBPyConnection, kind: str
) -> None:
    state, names = CALLS[kind]
    kinds = (*CALLS, "wait")
    for name in names.split():
        does = {what for what in kinds if does_call(macros, name, what)}
        assert does == ({kind, "wait"} if kind.startswith("wait") else {kind}), name
        assert slice_state("runtime", name) == (HOST_CODE[state] if state else NEUTRAL), name


@pytest.mark.parametrize(
    "name", ["cudaEventQueryAll", "cudaEventRecord", "myEventQuery", "cudaFuncGetAttributes", "aten::copy_", ""]
)
def test_other_calls_do_none_of_it(macros: duckdb.DuckDBPyConnection, name: str) -> None:
    assert not any(
        macros.execute("SELECT calls_to(?, ?)", [name, what]).fetchall() == [(True,)] for what in (*CALLS, "wait")
    )


def test_who_asks_for_calls_names_a_kind_of_them(root: Path) -> None:
    files = [
        file
        for folder in ("traceanalyzer", "rules")
        for file in (root / folder).rglob("*")
        if file.suffix in (".sql", ".yaml", ".py")
    ]
    asked = {what for file in files for what in re.findall(r"calls_to\([\w.]+, '([^']*)'\)", file.read_text("utf-8"))}
    assert asked == {*CALLS, "wait"}


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("queue.py(154): get", True),
        ("/usr/lib/python3.11/threading.py(327): wait", True),
        ("/usr/lib/python3.11/selectors.py(451): select", True),
        ("<built-in method sleep of module object at 0x7f01>", True),
        ("<built-in method acquire of _thread.lock object at 0x7f01>", True),
        ("<method 'poll' of 'select.epoll' objects>", True),
        ("queue.py(122): put", False),
        ("my_queue.py(154): get", False),
        ("server.py(30): wait", False),
        (None, False),
    ],
)
def test_functions_that_wait_for_others_are_known(
    macros: duckdb.DuckDBPyConnection, name: str | None, does: bool
) -> None:
    assert macros.execute("SELECT waits_for_others($name)", {"name": name}).fetchall() == [(does,)]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("RotateBackward", "Rotate"),
        ("autograd::engine::evaluate_function: SinkhornFunctionBackward", "SinkhornFunction"),
        ("AddmmBackward0", None),
        ("torch::autograd::AccumulateGrad", None),
        ("CompiledFunctionBackward", None),
        # torch.utils.checkpoint, DDP and FSDP2 of PyTorch 2, Megatron-LM, FlashAttention, bitsandbytes.
        ("CheckpointFunctionBackward", None),
        ("_DDPSinkBackward", None),
        ("RegisterPostBackwardFunctionBackward", None),
        ("LinearWithGradAccumulationAndAsyncCommunicationBackward", None),
        ("FlashAttnVarlenFuncBackward", None),
        ("MatMul4BitBackward", None),
    ],
)
def test_function_class_names_what_the_program_wrote(
    macros: duckdb.DuckDBPyConnection, name: str, function: str | None
) -> None:
    assert macros.execute("SELECT function_class(?)", [name]).fetchall() == [(function,)]
