"""ranges: what the program marked, on the host and on devices, by name and by path."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from text_tables import ask, connect

from traceanalyzer.answers.top import top
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.screens.top import document, sections
from traceanalyzer.run import open_run
from tracesim import simulate_job

# thread 0   [step#1                  ]    [step#2  ]
#              [fwd     ] [bwd       ]
#                [in ]
# launches        ^   ^       (thread 1: ^ ^)    ^
SLICES = """
slice_id  thread_id  category    name            start_ns  dur_ns  depth  annotation_id  op_id  sequence  forward_thread
1         0          annotation  ProfilerStep#1  0         100     0      -              -      -         -
2         0          annotation  fwd             10        40      1      1              -      -         -
3         0          annotation  in              20        10      2      2              -      -         -
4         0          cpu_op      aten::mm        22        5       3      3              -      7         -
5         0          runtime     cuLaunchKernel  23        2       4      3              4      -         -
6         0          runtime     cuLaunchKernel  40        2       2      2              -      -         -
7         0          annotation  bwd             60        30      1      1              -      -         -
8         0          annotation  ProfilerStep#2  120       30      0      -              -      -         -
9         0          runtime     cuLaunchKernel  130       2       1      8              -      -         -
10        1          cpu_op      MmBackward0     62        20      0      -              -      7         1
11        1          runtime     cuLaunchKernel  64        2       1      -              10     -         -
12        1          annotation  custom          70        8       1      -              10     -         -
13        1          runtime     cuLaunchKernel  72        2       2      12             10     -         -
14        1          runtime     cuLaunchKernel  105       2       0      -              -      -         -
"""
# stream 7  [20: 30 - 50)   [21: 50 - 60)     [22: 80 - 90) [23: 95 - 105)  [25: 140 - 150)
# stream 8  [24: 40 - 55)
OPS = """
op_id  kind    stream  start_ns  dur_ns  launch_id  annotation_id
20     kernel  7       30        20      5          3
21     kernel  7       50        10      6          2
24     kernel  8       40        15      6          2
22     kernel  7       80        10      11         -
23     kernel  7       95        10      13         12
25     kernel  7       140       10      9          8
26     kernel  7       160       10      14         -
"""
COLUMNS = "call_count, dur_sum_ns, host_sum_ns, host_self_ns, busy_ns, idle_ns, op_count"


def test_numbers_of_ranges_by_name() -> None:
    """Backward work belongs to what is open on the thread that waits for it; between ranges, to none."""
    names = f"SELECT name, {COLUMNS} FROM ranges WHERE path IS NULL ORDER BY name"
    assert ask(connect("FROM ranges", host_slices=SLICES, gpu_ops=OPS), names) == [
        ("ProfilerStep", 2, 130, 130, 30 + 30, 30 + 10 + 10 + 10, 70 + 5, 6),
        ("bwd", 1, 30, 30, 30, 20, 20, 2),
        ("custom", 1, 8, 8, 8, 10, 8, 1),
        ("fwd", 1, 40, 40, 30, 30, 20, 3),
        ("in", 1, 10, 10, 10, 20, 10, 1),
    ]


def test_the_tree_has_the_ranges_of_backward_threads_too() -> None:
    paths = "SELECT path, parent_path, depth, call_count, busy_ns FROM ranges WHERE path IS NOT NULL ORDER BY path"
    assert ask(connect("FROM ranges", host_slices=SLICES, gpu_ops=OPS), paths) == [
        ("ProfilerStep", None, 0, 2, 60),
        ("ProfilerStep;bwd", "ProfilerStep", 1, 1, 20),
        ("ProfilerStep;bwd;custom", "ProfilerStep;bwd", 2, 1, 10),
        ("ProfilerStep;fwd", "ProfilerStep", 1, 1, 30),
        ("ProfilerStep;fwd;in", "ProfilerStep;fwd", 2, 1, 20),
    ]


def test_ranges_that_overlap_each_have_the_work_launched_in_them() -> None:
    #  [a        )           0 - 100
    #       [b        )     50 - 150
    slices = """
    slice_id  thread_id  category    raw_category    name  start_ns  dur_ns  depth  annotation_id
    1         0          annotation  NVTX start/end  a     0         100     0      -
    2         0          annotation  NVTX start/end  b     50        100     1      1
    3         0          runtime     -               call  70        2       2      2
    4         0          runtime     -               call  120       2       2      2
    """
    ops = """
    op_id  kind    start_ns  dur_ns  launch_id  annotation_id
    10     kernel  75        5       3          2
    11     kernel  125       7       4          2
    """
    answer = f"SELECT name, path, depth, {COLUMNS} FROM ranges ORDER BY name, path NULLS FIRST"
    a, b = (1, 100, 100, 50, 5, 95, 1), (1, 100, 100, 100, 12, 88, 2)
    assert ask(connect("FROM ranges", host_slices=slices, gpu_ops=ops), answer) == [
        ("a", None, None, *a),
        ("a", "a", 0, *a),
        ("b", None, None, *b),
        ("b", "b", 0, *b),
    ]


def test_a_range_that_was_open_at_the_end_is_no_part_of_the_mean() -> None:
    slices = """
    slice_id  thread_id  category    name     start_ns  dur_ns  depth  annotation_id
    1         0          annotation  forward  0         40      0      -
    2         0          annotation  forward  50        60      0      -
    3         0          annotation  forward  120       10      0      -
    """
    args = """
    event_id  args
    2         {"finished":true}
    3         {"finished":false}
    """
    answer = "SELECT call_count, dur_sum_ns, cut_count, cut_sum_ns FROM ranges WHERE path IS NULL"
    assert ask(connect("FROM ranges", host_slices=slices, event_args=args), answer) == [(3, 110, 1, 10)]


def test_a_range_in_one_of_its_own_name_counts_once_on_the_host() -> None:
    slices = """
    slice_id  thread_id  category    name   start_ns  dur_ns  depth  annotation_id
    1         0          annotation  f      0         100     0      -
    2         0          annotation  f      20        60      1      1
    3         1          annotation  f      50        100     0      -
    """
    con = connect("FROM ranges", host_slices=slices)
    assert ask(con, f"SELECT path, {COLUMNS} FROM ranges ORDER BY path NULLS FIRST") == [
        (None, 3, 260, 200, 200, None, None, None),
        ("f", 2, 200, 200, 140, None, None, None),
        ("f;f", 1, 60, 60, 60, None, None, None),
    ]


def test_names_may_hold_what_separates_paths() -> None:
    slices = """
    slice_id  category    name  start_ns  dur_ns  depth  annotation_id
    1         annotation  a;b   0         10      0      -
    2         annotation  a     20        10      0      -
    3         annotation  b     22        5       1      2
    """
    con = connect("FROM ranges", host_slices=slices)
    assert ask(con, r"SELECT path FROM ranges WHERE path IS NOT NULL ORDER BY ALL") == [("a",), ("a;b",), (r"a\;b",)]


def test_a_range_that_ends_on_another_thread_has_no_work_of_its_own() -> None:
    crossing = [
        {
            "event_id": 1,
            "name": "request",
            "raw_category": "NVTX start/end",
            "category": "async",
            "start_ns": 0,
            "dur_ns": 100,
        }
    ]
    ops = """
    op_id  kind    start_ns  dur_ns
    10     kernel  75        5
    """
    con = connect("FROM ranges", async_slices=crossing, gpu_ops=ops)
    assert ask(con, f"SELECT name, {COLUMNS} FROM ranges WHERE path IS NULL") == [
        ("request", 1, 100, 100, 100, None, 95, None)
    ]


RANGES = """
slice_id  thread_id  category    name          start_ns  dur_ns  depth  annotation_id
1         0          annotation  step          0         100     0      -
2         0          annotation  forward       10        40      1      1
3         0          runtime     launch        20        2       2      2
4         0          annotation  load          60        30      1      1
"""


def test_ranges_below_those_around_them() -> None:
    ops = """
    op_id  kind    start_ns  dur_ns  launch_id  annotation_id
    10     kernel  30        20      3          2
    """
    con = connect("FROM ranges, device_time", host_slices=RANGES, gpu_ops=ops)
    by_idle = top(con, "ranges", "idle", tree=True)
    assert [(row["name"], row["depth"], row["idle_ns"]) for row in by_idle.rows] == [
        ("step", 0, 80),
        ("load", 1, 30),
        ("forward", 1, 20),
    ]
    by_time = top(con, "ranges", tree=True)
    assert [(row["path"], row["busy_ns"]) for row in by_time.rows] == [
        ("step", 20),
        ("step;forward", 20),
        ("step;load", 0),
    ]
    assert (by_time.whole_ns, by_time.row_count) == (20, 3)
    assert "'20 ns', '100.0 %', '20 ns', '1', '40 ns', '40 ns', '40 ns', '1', '\\xa0\\xa0forward'" in str(
        sections(by_time, "run")
    )
    assert "'forward'" in str(sections(top(con, "ranges"), "run"))


def test_a_run_without_a_gpu_has_ranges_by_time_of_the_host() -> None:
    answer = top(connect("FROM ranges, device_time", host_slices=RANGES), "ranges")
    assert answer.by == "host"
    assert [(row["name"], row["host_sum_ns"], row["busy_ns"]) for row in answer.rows] == [
        ("step", 100, None),
        ("forward", 40, None),
        ("load", 30, None),
    ]


def test_only_ranges_are_a_tree() -> None:
    with pytest.raises(TraceAnalyzerError, match="kernels are no tree") as caught:
        top(connect("FROM ranges"), "kernels", tree=True)
    assert caught.value.hint == "it goes with ranges"


@pytest.mark.parametrize("seed", range(3))
def test_numbers_equal_a_count_of_each_nanosecond(seed: int) -> None:
    slices, ops = _random_threads(random.Random(seed))
    con = connect("FROM ranges", host_slices=slices, gpu_ops=ops)
    found = {
        row[0]: row[1:] for row in ask(con, f"SELECT coalesce(path, '= ' || name), trace_id, {COLUMNS} FROM ranges")
    }
    assert found == {key: (0, *numbers) for key, numbers in _by_the_nanosecond(slices, ops).items()}


@pytest.mark.parametrize("seed", range(3))
def test_numbers_of_a_step_equal_a_count_of_each_nanosecond_in_it(seed: int) -> None:
    chance = random.Random(seed)
    slices, ops = _random_threads(chance)
    cuts = [0, *sorted(chance.sample(range(20, 140), 2)), 400]
    steps = [
        {"step": step, "host_start_ns": start, "host_end_ns": end, "op_count": 1}
        for step, (start, end) in enumerate(pairwise(cuts))
    ]
    con = connect("FROM ranges_by_step", host_slices=slices, gpu_ops=ops, steps=steps)
    for step, (start, end) in enumerate(pairwise(cuts)):
        keyed = f"SELECT coalesce(path, '= ' || name), {COLUMNS} FROM ranges_by_step WHERE step = {step}"
        assert {row[0]: row[1:] for row in ask(con, keyed)} == _by_the_nanosecond(slices, ops, start, end)


# launch 20: [30 - 50)       21: [50 - 60)                             22: [80 - 90)     23: [95 - 105)
# step 1   [0                          45)
# step 2                               [45                                   90)
CUT = """
step  host_start_ns  host_end_ns  op_count
1     0              45           2
2     45             90           2
3     400            410          0
"""


def test_ranges_are_cut_to_each_step_and_hold_what_is_launched_in_it() -> None:
    con = connect("FROM ranges_by_step", host_slices=SLICES, gpu_ops=OPS, steps=CUT)
    names = f"SELECT step, name, {COLUMNS} FROM ranges_by_step WHERE path IS NULL ORDER BY step, name"
    assert ask(con, names) == [
        (1, "ProfilerStep", 1, 45, 45, 10, 30, 30, 3),  # idle until 30
        (1, "fwd", 1, 35, 35, 25, 30, 20, 3),
        (1, "in", 1, 10, 10, 10, 20, 10, 1),
        (2, "ProfilerStep", 1, 45, 45, 10, 20, 20, 2),  # idle from 60 to 80; open from 45, in fwd or bwd but for 10
        (2, "bwd", 1, 30, 30, 30, 20, 20, 2),
        (2, "custom", 1, 8, 8, 8, 10, 8, 1),
        (2, "fwd", 1, 5, 5, 5, 0, 0, 0),
    ]
    answer = top(con, "ranges", step=2, tree=True)
    assert [(row["path"], row["busy_ns"], row["host_sum_ns"]) for row in answer.rows] == [
        ("ProfilerStep", 20, 45),
        ("ProfilerStep;bwd", 20, 30),
        ("ProfilerStep;bwd;custom", 10, 8),
        ("ProfilerStep;fwd", 0, 5),
    ]
    assert (answer.whole_ns, answer.row_count) == (20, 4)
    assert "step 2" in str(sections(answer, "run"))
    assert document(answer, "run")["metric"] == "ranges_by_step"
    with pytest.raises(TraceAnalyzerError, match="the run has no step 9") as caught:
        top(con, "ranges", step=9)
    assert caught.value.hint == "steps here: 1, 2"


@pytest.mark.parametrize(
    ("category", "name"), [("-", "ProfilerStep#{}"), ("step_num", "train {}")], ids=["PyTorch", "XLA"]
)
def test_without_gpu_work_the_steps_are_those_that_the_profiler_marked(category: str, name: str) -> None:
    slices = f"""
    slice_id  thread_id  category    raw_category  name              start_ns  dur_ns  depth  annotation_id
    1         0          annotation  {category}    {name.format(7)}  0         100     0      -
    2         0          annotation  -             load              10        40      1      1
    3         0          annotation  {category}    {name.format(8)}  100       100     0      -
    4         0          annotation  -             load              110       20      1      3
    """
    answer = top(connect("FROM ranges_by_step, device_time", host_slices=slices), "ranges", step=8)
    assert [(row["name"], row["host_sum_ns"], row["self_ns"]) for row in answer.rows] == [
        (name.format("").rstrip(" #"), 100, 80),
        ("load", 20, 20),
    ]


@pytest.mark.check
def test_nvtx_and_kineto_have_the_same_ranges_in_a_step(tmp_path: Path) -> None:
    job = simulate_job({"ranks": 1, "steps": 4, "kernels": 10, "loader_us": 1000})
    found = []
    for name, write in (("kineto", job.write_kineto), ("nsys", job.write_nsys)):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
        with open_run(tmp_path / name) as run:
            answer = top(run.connection, "ranges", step=2, tree=True)
        found.append(
            [[row[column] for column in row if "name" not in column and "path" not in column] for row in answer.rows]
        )
    assert found[0] == found[1] != []


def _random_threads(chance: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return nested ranges with launches on two threads, and their operations on two devices."""
    slices: list[dict[str, Any]] = []
    ops: list[dict[str, Any]] = []

    def fill(thread: int, start: int, end: int, around: int | None, depth: int) -> None:
        at = start
        while at + 4 < end and depth < 4:
            length = chance.randint(2, max(2, (end - at) // 2))
            number = len(slices) + 1
            row = {"slice_id": number, "thread_id": thread, "start_ns": at, "dur_ns": length, "depth": depth}
            is_range = chance.random() < 0.6
            kind = {"category": "annotation", "name": chance.choice("abc")} if is_range else {"category": "runtime"}
            slices.append({"name": "call", "annotation_id": around, **row, **kind})
            if is_range:
                fill(thread, at, at + length, number, depth + 1)
            else:
                work = {"launch_id": number, "annotation_id": around, "device": chance.randint(0, 1)}
                begun = at + chance.randint(0, 60)
                ops.append({"op_id": 1000 + number, "kind": "kernel", "start_ns": begun, "dur_ns": 9, **work})
            at += length + chance.randint(0, 5)

    for thread in (0, 1):
        fill(thread, thread, 150, None, 0)
    return slices, ops


def _by_the_nanosecond(
    slices: list[dict[str, Any]], ops: list[dict[str, Any]], first: int = 0, last: int = 10_000
) -> dict[str, tuple[int, ...]]:
    ranges = {row["slice_id"]: row for row in slices if row["category"] == "annotation"}
    starts = {row["slice_id"]: row["start_ns"] for row in slices}
    spans = {row: set(range(max(starts[row], first), min(starts[row] + ranges[row]["dur_ns"], last))) for row in ranges}

    def around(number: int | None) -> list[int]:
        return [] if number is None else [*around(ranges[number]["annotation_id"]), number]

    groups: dict[str, list[int]] = defaultdict(list)
    for number, row in ranges.items():
        if not spans[number]:
            continue
        groups[f"= {row['name']}"].append(number)
        groups[";".join(ranges[outer]["name"] for outer in around(number))].append(number)
    busy = {at for op in ops for at in range(op["start_ns"], op["start_ns"] + op["dur_ns"])}
    answer: dict[str, tuple[int, ...]] = {}
    for key, numbers in groups.items():
        inside = [
            op
            for op in ops
            if first <= starts[op["launch_id"]] < last and set(around(op["annotation_id"])) & set(numbers)
        ]
        own = [
            spans[number].difference(*(spans[row] for row in ranges if ranges[row]["annotation_id"] == number))
            for number in numbers
        ]
        host = {(ranges[number]["thread_id"], at) for number in numbers for at in spans[number]}
        device = {(op["device"], op["start_ns"] + place) for op in inside for place in range(op["dur_ns"])}
        answer[key] = (
            len(numbers),
            sum(len(spans[number]) for number in numbers),
            len(host),
            sum(map(len, own)),
            len(device),
            len({at for _, at in host} - busy),
            len(inside),
        )
    return answer
