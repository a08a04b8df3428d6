"""flame: the tree, the files and the picture hold the values of the metric."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.answers.flame import Frame, folded_stacks, largest_rows, put_together, tree_of
from traceanalyzer.cli import main
from traceanalyzer.report.screens.flame import flame_graph, sections
from traceanalyzer.run import open_run

SAMPLE = "sample_traces/slow_loader"
STACKS = [("main;step;forward", 60), ("main;step;backward", 30), ("main;step", 5), ("other", 5)]

stacks = st.lists(
    st.tuples(st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map(";".join), st.integers(1, 1_000)),
    max_size=20,
)


def test_a_frame_holds_what_is_inside_it_and_what_it_costs_itself() -> None:
    root = tree_of(STACKS)
    step = root.inside["main"].inside["step"]
    assert (root.value, step.value, step.own, step.inside["forward"].own) == (100, 95, 5, 60)


def test_frames_that_only_lead_to_the_next_are_one_line_with_it() -> None:
    rows = largest_rows(tree_of(STACKS), 3)
    assert [(row.depth, row.around, row.frame.name, row.frame.value) for row in rows] == [
        (0, ("main",), "step", 95),
        (1, (), "forward", 60),
        (1, (), "backward", 30),
    ]


def test_more_rows_show_what_is_beside_a_frame_that_holds_nearly_all() -> None:
    nearly = tree_of([("main;replay;copy", 996), ("main;replay;launch", 3), ("main;log", 1)])
    assert [row.frame.name for row in largest_rows(nearly, 1)] == ["copy"]
    rows = largest_rows(nearly, 10)
    assert [(row.depth, row.frame.name) for row in rows] == [
        (0, "main"),
        (1, "replay"),
        (2, "copy"),
        (2, "launch"),
        (1, "log"),
    ]


def test_equal_layers_and_steps_are_put_together() -> None:
    numbered = [("ProfilerStep#3;nn.Module: Linear_7;k_2", 4), ("ProfilerStep#12;nn.Module: Linear_11;k_2", 3)]
    assert put_together(numbered) == [("ProfilerStep;nn.Module: Linear;k_2", 7)]


@given(stacks, st.integers(1, 30))
def test_rows_are_the_largest_and_never_without_the_frames_around_them(items: list[tuple[str, int]], most: int) -> None:
    root = tree_of(items)
    rows = largest_rows(root, most)
    assert root.value == sum(value for _, value in items) == _own(root)
    assert len(rows) <= most
    for before, row in itertools.pairwise(rows):
        assert row.depth <= before.depth + 1
        assert row.depth != before.depth + 1 or row.frame.value <= before.frame.value
    everything = largest_rows(root, 10_000)
    assert sum(row.frame.own for row in everything) + _own_of_chains(everything, root) == root.value


@given(stacks)
def test_boxes_of_a_flame_graph_are_as_wide_as_their_share_and_lie_inside_each_other(
    items: list[tuple[str, int]],
) -> None:
    root = tree_of(items)
    tree = ElementTree.fromstring(flame_graph(root, "says", str, width=1000))
    space = "{http://www.w3.org/2000/svg}"
    boxes = [[float(box.get(key, 0)) for key in ("x", "y", "width")] for box in tree.iter(f"{space}rect")][1:]
    outermost = [width + 0.5 for _, y, width in boxes if y == 0]
    assert not root.value or sum(outermost) == pytest.approx(1000, abs=2 * len(root.inside) + 1)
    for x, y, width in boxes:
        assert y == 0 or any(
            above == y - 18 and at <= x + 0.01 and x + width <= at + wide + 0.51 for at, above, wide in boxes
        )


def test_a_kind_that_was_not_recorded_says_what_to_record() -> None:
    (section,) = sections(tree_of([]), [], "memory", "run", None)
    assert "profile_memory=True" in str(section.blocks)


@pytest.mark.check
def test_every_file_holds_the_time_of_the_metric(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    with open_run(root / SAMPLE, store=store) as run:
        wanted = {kind: folded_stacks(run.connection, kind) for kind in ("device", "host", "idle", "memory")}
        ((busy_ns,),) = run.sql("SELECT sum(dur_ns) FROM gpu_ops").fetchall()
    assert sum(value for _, value in wanted["device"]) == busy_ns
    asked = ["flame", str(root / SAMPLE), "--store", str(store), "-q", "--of", "idle"]
    assert main(asked) == 0
    screen = capsys.readouterr().out
    assert (
        "flame of idle · 170.9 ms" in screen and "169.5 ms  99.1 %   169.5 ms  · train.py(24): train › … › " in screen
    )
    names = ("x.folded", "x.speedscope.json", "x.svg", "x.md")
    for name in names:
        assert main([*asked, "-o", str(tmp_path / name)]) == 0
    lines = (tmp_path / "x.folded").read_text(encoding="utf-8").splitlines()
    whole = sum(value for _, value in wanted["idle"])
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == whole
    profile = json.loads((tmp_path / "x.speedscope.json").read_text(encoding="utf-8"))
    schema = json.loads((root / "tests" / "schemas" / "speedscope-1.25.0.json").read_text(encoding="utf-8"))
    jsonschema.validate(profile, schema)
    assert sum(profile["profiles"][0]["weights"]) == profile["profiles"][0]["endValue"] == whole
    ElementTree.parse(tmp_path / "x.svg")
    assert re.search(r"\| *share *\|", (tmp_path / "x.md").read_text(encoding="utf-8"))
    assert main([*asked, "--rank", "7"]) == 2
    assert "the run has no rank 7" in capsys.readouterr().err


def _own(frame: Frame) -> int:
    return frame.own + sum(_own(inner) for inner in frame.inside.values())


def _own_of_chains(rows: list, root: Frame) -> int:  # type: ignore[type-arg]
    """Return what frames around the ends of chains cost by themselves, and their small frames inside."""
    shown = {id(row.frame) for row in rows}
    waiting, rest = [root], 0
    while waiting:
        frame = waiting.pop()
        rest += 0 if id(frame) in shown else frame.own
        waiting += frame.inside.values()
    return rest


@pytest.mark.check
def test_a_kernel_without_a_name_has_a_frame(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 10, "dur": 5, "args": {"device": 0, "stream": 7}}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [kernel]}))
    assert main(["flame", str(path), "--of", "device", "--store", str(tmp_path / "store")]) == 0
    assert "(no name)" in capsys.readouterr().out
