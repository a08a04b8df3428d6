"""top, and the metrics by step below it: each operation counts once, in the step in which it starts."""

from __future__ import annotations

import io
import json
from pathlib import Path

import duckdb
import pytest
from text_tables import ask, connect

from traceanalyzer.answers.top import TopAnswer, top
from traceanalyzer.answers.top_questions import QUESTIONS
from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.renderers import terminal
from traceanalyzer.report.screens.top import sections
from tracesim import in_memory, simulate_job

SAMPLE = "sample_traces/slow_loader"
JOB = {"ranks": 2, "steps": 5, "kernels": 40, "comm_us": 300, "loader_us": 2_000, "item_per_step": 1}

#  stream 7  [gemm 0 - 10)        [gemm 30 - 40)       [relu 60 - 65)
#  stream 8                [HtoD 20 - 30)
OPS = """
op_id  kind    stream  start_ns  dur_ns  size_bytes  name
1      kernel  7       0         10      -           gemm
2      memcpy  8       20        10      400         HtoD
3      kernel  7       30        10      -           gemm
4      kernel  7       60        5       -           relu
"""


@pytest.fixture(scope="module")
def job() -> duckdb.DuckDBPyConnection:
    """A simulated job of two ranks with copies, collectives and steps."""
    return in_memory.connect_tables(simulate_job(JOB).canonical_tables())


def test_the_idle_time_before_a_kernel_is_the_gap_that_ends_with_it() -> None:
    kernels = "SELECT name, call_count, sum_ns, max_ns, idle_ns FROM kernels_by_step"
    assert ask(connect(gpu_ops=OPS), kernels) == [("gemm", 2, 20, 10, 0), ("relu", 1, 5, 5, 20)]


def test_a_copy_is_charged_the_time_in_which_compute_waits_for_it() -> None:
    copies = "SELECT name, call_count, size_bytes, sum_ns, bandwidth_bytes_per_s FROM copies_by_step"
    assert ask(connect(gpu_ops=OPS), copies) == [("HtoD", 1, 400, 10, 4e10)]


@pytest.mark.parametrize(
    ("metric", "which"),
    [
        ("kernels_by_step", "kind IN ('kernel', 'graph')"),
        ("copies_by_step", "kind IN ('memcpy', 'memset')"),
        ("collectives_by_step", "is_comm"),
        ("operators_by_step", "cpu_op_id IS NOT NULL"),
    ],
)
def test_every_operation_counts_once_whatever_its_step(metric: str, which: str, job: duckdb.DuckDBPyConnection) -> None:
    (of_metric,) = job.sql(f"SELECT sum(sum_ns) FROM {metric}").fetchall()
    assert of_metric == job.sql(f"SELECT sum(dur_ns) FROM gpu_ops WHERE {which}").fetchall()[0]
    assert of_metric[0]


def test_the_idle_time_of_operators_is_that_of_the_ledger(job: duckdb.DuckDBPyConnection) -> None:
    charged = "SELECT sum(dur_ns) FROM ledger_rows WHERE blame_op IS NOT NULL AND bucket <> 'compute'"
    assert job.sql("SELECT sum(idle_ns) FROM operators_by_step").fetchall() == job.sql(charged).fetchall()


def test_an_operator_without_a_gpu_still_has_its_time_on_the_host() -> None:
    slices = """
    slice_id  category  name      start_ns  dur_ns  op_id  parent_id
    1         cpu_op    aten::a   0         100     -      -
    2         cpu_op    aten::b   10        30      1      1
    3         cpu_op    aten::b   50        20      1      1
    """
    answer = top(connect(host_slices=slices), "operators", "host")
    assert [(row["name"], row["call_count"], row["host_self_ns"]) for row in answer.rows] == [
        ("aten::a", 1, 50),
        ("aten::b", 2, 50),
    ]


@pytest.mark.check
def test_the_window_is_the_sum_of_its_kept_steps(job: duckdb.DuckDBPyConnection) -> None:
    kept = [step for (step,) in job.sql("SELECT DISTINCT step FROM attribution.steps WHERE kept").fetchall()]
    for what in (what for what, question in QUESTIONS.items() if question.has_steps):
        window = top(job, what).whole_ns
        assert window
        assert window == sum(top(job, what, step=step).whole_ns for step in kept)


@pytest.mark.check
def test_ranks_add_up(job: duckdb.DuckDBPyConnection) -> None:
    for what in QUESTIONS:
        assert top(job, what).whole_ns == sum(top(job, what, rank=rank).whole_ns for rank in (0, 1))


def test_what_is_not_shown_is_counted(job: duckdb.DuckDBPyConnection) -> None:
    whole, largest = top(job, "kernels"), top(job, "kernels", limit=1)
    assert largest.rows == whole.rows[:1]
    assert (largest.row_count, largest.whole_ns) == (whole.row_count, whole.whole_ns)
    assert largest.left_out_count == len(whole.rows) - 1


@pytest.mark.check
def test_rows_are_in_the_order_that_was_asked_for(job: duckdb.DuckDBPyConnection) -> None:
    for what, question in QUESTIONS.items():
        for by, column in question.by.items():
            values = [row[column] for row in top(job, what, by).rows]
            assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    ("arguments", "what", "hint"),
    [
        ({"rank": 7}, "the run has no rank 7", "ranks here: 0, 1"),
        ({"step": 77}, "the run has no step 77", "steps here: 0-4"),
        ({"by": "host"}, "kernels have no order by host", "one of time, idle, headroom"),
    ],
)
def test_a_place_that_the_run_does_not_hold_is_an_error(
    arguments: dict[str, int], what: str, hint: str, job: duckdb.DuckDBPyConnection
) -> None:
    with pytest.raises(TraceAnalyzerError, match=what) as caught:
        top(job, "kernels", **arguments)  # type: ignore[arg-type]
    assert caught.value.hint == hint


def test_layers_are_modules_of_one_class_at_one_place() -> None:
    slices = """
    slice_id  thread_id  start_ns  dur_ns  category  name                 op_id  module_id
    1         0          0         30      python    nn.Module: Linear_1  -      -
    2         0          40        30      python    nn.Module: Linear_2  -      -
    3         0          10        5       runtime   cudaLaunchKernel     -      1
    4         0          50        5       runtime   cudaLaunchKernel     -      2
    """
    ops = """
    op_id  kind    start_ns  dur_ns  launch_id
    10     kernel  20        6       3
    11     kernel  60        7       4
    """
    answer = top(connect("FROM layers", host_slices=slices, gpu_ops=ops), "layers")
    assert [(row["path"], row["module_count"], row["sum_ns"], row["host_sum_ns"]) for row in answer.rows] == [
        ("Linear", 2, 13, 60)
    ]


def test_operators_by_memory_are_those_that_allocate_on_devices() -> None:
    slices = """
    slice_id  thread_id  start_ns  dur_ns  category  name         op_id
    1         0          0         100     cpu_op    aten::empty  1
    """
    events = """
    event_id  thread_id  start_ns  kind   device_type  device  address  size_bytes
    1         0          10        alloc  1            0       100      64
    2         0          20        alloc  1            0       200      16
    3         0          30        alloc  0            -1      300      512
    """
    answer = top(connect("FROM memory_allocations", host_slices=slices, memory_events=events), "operators", "memory")
    assert [dict(row) for row in answer.rows] == [
        {"operator": "aten::empty", "allocation_count": 2, "size_bytes": 80, "largest_bytes": 64}
    ]


def test_a_run_without_steps_is_one_window() -> None:
    assert [row["sum_ns"] for row in top(connect(gpu_ops=OPS), "kernels").rows] == [20, 5]


# python   [Outer: [Inner ]   ]
# runtime      launch 1         launch 2: in no module, and in an operator
# device            [kernel: 30]         [graph's kernel: 70]
NESTED = """
slice_id  thread_id  start_ns  dur_ns  category  name                module_id  op_id
1         0          0         90      python    nn.Module: Outer_0  -          -
2         0          10        70      python    nn.Module: Inner_0  1          -
3         0          20        40      cpu_op    aten::mm            2          -
4         0          30        5       runtime   cudaLaunchKernel    2          3
5         0          200       5       runtime   cudaGraphLaunch     -          -
"""
NESTED_OPS = """
op_id  kind    start_ns  dur_ns  launch_id  cpu_op_id
10     kernel  100       30      4          3
11     kernel  300       70      5          -
"""


@pytest.mark.check
@pytest.mark.parametrize(
    ("what", "metric", "times"), [("modules", "modules", [30, 30]), ("operators", "operators_by_step", [30])]
)
def test_shares_are_of_the_time_of_all_operations(what: str, metric: str, times: list[int]) -> None:
    answer = top(connect(f"FROM {metric}, gpu_op_steps", host_slices=NESTED, gpu_ops=NESTED_OPS), what)
    assert [row["sum_ns"] for row in answer.rows] == times
    assert (answer.whole_ns, answer.elsewhere_ns) == (100, 70)
    screen = " ".join(str(block) for section in sections(answer, "run") for block in section.blocks)
    assert "'30.0 %'" in screen
    assert f"70.0 % of it was launched outside any {what.removesuffix('s')}." in screen


@pytest.mark.check
def test_what_is_not_known_by_step_covers_all_that_was_recorded() -> None:
    answer = top(connect("FROM modules", host_slices=NESTED, gpu_ops=NESTED_OPS), "modules")
    assert "all that was recorded" in str(sections(answer, "run"))


def _with_metric(name: str, rows: str) -> duckdb.DuckDBPyConnection:
    """Return a connection whose metric `name` is this query; what else `top` reads is there, and of rank 0."""
    con = duckdb.connect()
    con.execute("CREATE SCHEMA canonical; CREATE TABLE canonical.traces AS SELECT 0 AS trace_id, 0 AS rank")
    con.execute("CREATE SCHEMA attribution; CREATE TABLE attribution.steps (step INTEGER)")
    con.execute(f"CREATE VIEW {name} AS {rows}")
    return con


def _screen(answer: TopAnswer) -> str:
    """Return the screen in which each cell is in quotes."""
    return " ".join(str(block) for section in sections(answer, "run") for block in section.blocks)


def test_iterations_have_no_shares_of_medians() -> None:
    slices = """
    slice_id  start_ns  dur_ns  category    name
    1         0         50      annotation  execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk40sqsq2sqsk40)
    2         10        5       runtime     cudaLaunchKernel
    """
    ops = """
    op_id  kind    start_ns  dur_ns  launch_id
    10     kernel  20        30      2
    """
    answer = top(connect("FROM inference_summary", host_slices=slices, gpu_ops=ops), "iterations")
    page = io.StringIO()
    terminal.render(sections(answer, "run"), page)
    _, head, row, *rest = (line for line in page.getvalue().splitlines() if line)
    assert " ".join(head.split()) == "median count tokens 95 % 99 % busy gaps tok/s rank device kind"
    assert " ".join(row.split()) == "30 ns 1 2 30 ns 30 ns 100.0 % 0 ns 66,666,667 0 0 decode"
    assert "share" not in " ".join(rest).lower()


#  0                                              100
#  [train.py(7): step -------------------------------)
#    [nn.Module: Linear_0 1 ------------------- 95)
#     [torch/nn/modules/module.py: _call_impl 2 - 94)
#       [linear.py(9): forward 4 -------------- 90)
#         [<built-in linear> 10 ------------- 80)
#           [aten::linear 12 -------------- 70)
#             [cudaLaunchKernel 20 - 30)                [cudaLaunchKernel 96 - 98)
STACK = """
slice_id  parent_id  depth  stack_id  start_ns  dur_ns  category  name
1         -          0      1         0         100     python    train.py(7): step
2         1          1      2         1         94      python    nn.Module: Linear_0
3         2          2      3         2         92      python    torch/nn/modules/module.py(1): _call_impl
4         3          3      4         4         86      python    torch/nn/modules/linear.py(9): forward
5         4          4      5         10        70      python    <built-in function linear>
6         5          5      6         12        58      cpu_op    aten::linear
7         6          6      7         20        10      runtime   cudaLaunchKernel
8         1          1      8         96        2       runtime   cudaLaunchKernel
"""
LAUNCHED = """
op_id  kind    start_ns  dur_ns  launch_id
10     kernel  200       30      7
11     kernel  240       5       8
"""


def test_what_happens_in_built_in_functions_belongs_to_the_line_that_calls_them() -> None:
    con = connect("FROM python_lines", host_slices=STACK, gpu_ops=LAUNCHED)
    assert ask(con, "SELECT name, call_count, host_self_ns, device_ns FROM python_lines ORDER BY name") == [
        ("torch/nn/modules/linear.py(9): forward", 1, 86, 30),
        ("train.py(7): step", 1, 14, 5),
    ]


@pytest.mark.check
def test_a_question_without_any_value_says_why_and_shows_no_table() -> None:
    lines = """
    slice_id  thread_id  start_ns  dur_ns  category  name           op_id  stack_id
    1         0          0         30      python    a.py(1): main  -      1
    """
    idle = _screen(top(connect("FROM python_lines", host_slices=lines, gpu_ops=OPS), "lines", "idle"))
    assert "idle of all 1 lines is 0. Time:" in idle
    assert "Table(" not in idle
    operators = connect("FROM operator_efficiency", host_slices=NESTED, gpu_ops=NESTED_OPS)
    for by in ("headroom", "flops"):
        unknown = _screen(top(operators, "operators", by))
        assert f"{by} of all 1 operators is unknown. Operations are known of operators with a model" in unknown
        assert "Table(" not in unknown
    assert "profile_memory=True of torch.profiler.profile" in _screen(top(operators, "operators", "memory"))


def test_a_roof_without_peaks_says_how_to_name_the_device() -> None:
    rows = """
        SELECT 0 AS rank, 'aten::mm' AS operator, '[[1,1],[1,1]]' AS input_shapes, NULL AS limited_by, 1 AS call_count,
            10 AS dur_ns, NULL AS headroom_ns, NULL AS floor_ns, 2 AS flops
    """
    con = _with_metric("operator_efficiency", rows)
    assert "The peaks of the device for the types that it computes with are not known: --device NAME" in _screen(
        top(con, "operators", "headroom")
    )
    assert "Not recorded, or not known: headroom, of roof and limited by." in _screen(top(con, "operators", "flops"))


def test_bytes_of_copies_of_which_some_have_no_size_are_the_least() -> None:
    copies = """
    op_id  kind    stream  start_ns  dur_ns  size_bytes  name
    1      memcpy  7       0         10      1048576     Memcpy HtoD
    2      memcpy  7       20        30      -           Memcpy HtoD
    3      memset  7       60        10      1048576     Memset
    """
    answer = top(connect(gpu_ops=copies), "copies")
    assert [(row["call_count"], row["sized_count"]) for row in answer.rows] == [(2, 1), (1, 1)]
    screen = _screen(answer)
    assert "'at least 1.0 MiB'" in screen
    assert "'1.0 MiB'" in screen


def test_columns_without_a_value_are_named_below_the_table() -> None:
    copies = """
    op_id  kind    stream  start_ns  dur_ns  size_bytes  name
    1      memset  7       0         10      -           Memset (Device)
    """
    screen = _screen(top(connect(gpu_ops=copies), "copies"))
    assert "'bytes'" not in screen
    assert "Not recorded, or not known: bytes and bandwidth." in screen


def test_shares_of_headroom_are_of_what_is_above_roofs() -> None:
    con = _with_metric(
        "operator_efficiency",
        """
        SELECT 0 AS rank, name AS operator, '[[1]]' AS input_shapes, limited_by, 1 AS call_count, dur_ns, headroom_ns,
            dur_ns - headroom_ns AS floor_ns, flops
        FROM (
            VALUES ('a', 30, 40, 'launch', 5), ('b', 10, 30, 'memory below', 0), ('c', -20, 10, 'compute', 9000)
        ) AS t (name, headroom_ns, dur_ns, limited_by, flops)
        """,
    )
    screen = _screen(top(con, "operators", "headroom"))
    assert "('30 ns', '75.0 %', '40 ns', '1', '25.0 %', '0.0', 'host launches', 'a', '[[1]]')" in screen
    assert "('10 ns', '25.0 %', '30 ns', '1', '66.7 %', '–', 'far below memory', 'b', '[[1]]')" in screen
    assert "('-20 ns', '–', '10 ns', '1', '300.0 %', '0.9', 'compute', 'c', '[[1]]')" in screen


def test_modules_show_recomputed_time_and_no_operations_of_unmodelled_work() -> None:
    con = _with_metric(
        "modules",
        """
        SELECT 0 AS rank, path, 1 AS call_count, 0 AS forward_ns, 0 AS backward_ns, recomputed_ns, 9 AS host_sum_ns,
            flops, modelled_ns
        FROM (VALUES ('Known', 40, 5, 20), ('Unknown', 30, 5, 14)) AS t (path, recomputed_ns, flops, modelled_ns)
        """,
    )
    con.execute("CREATE TABLE canonical.gpu_ops AS SELECT 0 AS trace_id, 100 AS dur_ns")
    screen = _screen(top(con, "modules"))
    assert "'operations', 'forward', 'backward', 'recomputed'" in screen
    assert "('40 ns', '40.0 %', '1', '5 FLOP', '0 ns', '0 ns', '40 ns', '9 ns', 'Known')" in screen
    assert "('30 ns', '30.0 %', '1', '–', '0 ns', '0 ns', '30 ns', '9 ns', 'Unknown')" in screen


def test_rates_are_in_powers_of_ten_as_on_data_sheets() -> None:
    answer = top(connect(gpu_ops=OPS), "copies")
    assert "40.0 GB/s" in str(sections(answer, "run"))


@pytest.mark.check
def test_the_screen_and_the_json_hold_the_same_rows(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["top", "kernels", str(root / SAMPLE), "--store", str(tmp_path), "--rank", "0", "--top", "2"]
    assert main(asked) == 0
    screen = capsys.readouterr().out
    assert main([*asked, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["class"] for row in document["rows"]] == ["gemm", "attention"]
    assert screen.splitlines()[2].split()[:3] == ["61.54", "ms", "66.1"]
    assert document["rows"][0]["sum_ns"] // 10_000 == 6153
    assert f"{document['row_count'] - 2} rows not shown" in " ".join(screen.split())


@pytest.mark.check
def test_a_run_without_any_says_so(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "collectives", str(root / SAMPLE), "--store", str(tmp_path)]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    assert "no collectives there. No kernel of NCCL" in screen
    # FlashInfer, symmetric memory and the like are no collectives, and were nowhere.
    assert "exchange data without such a library are of the class comm in `top kernels`" in screen
