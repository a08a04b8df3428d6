"""What the host does in its steps, where a run has no GPU work: each nanosecond of the steps is in one bucket."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

import traceanalyzer as ta
from traceanalyzer.cli import main
from traceanalyzer.diagnosis.verdict import judge

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def event(name: str, start: int, end: int, category: str = "cpu_op", thread: int = 1) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": end - start}


def steps(*ends: int) -> list[dict[str, Any]]:
    """Return marked steps that follow each other from 0 on."""
    spans = zip((0, *ends), ends, strict=False)
    return [event(f"ProfilerStep#{at}", *span, "user_annotation") for at, span in enumerate(spans)]


def written(folder: Path, events: list[dict[str, Any]], name: str = "trace.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def ledger(folder: Path, events: list[dict[str, Any]]) -> dict[str, int]:
    with ta.open(written(folder, events), store=folder / "store") as run:
        rows = run.sql("SELECT bucket, dur_ns, window_ns FROM host_ledger").fetchall()
    assert not rows or sum(dur_ns for _, dur_ns, _ in rows) == rows[0][2]
    return {bucket: dur_ns for bucket, dur_ns, _ in rows}


@pytest.mark.check
def test_each_nanosecond_has_the_first_bucket_that_holds(tmp_path: Path) -> None:
    events = [
        *steps(100, 200),
        event(LOADER, 10, 40, "user_annotation"),
        event("aten::stack", 20, 30),  # in the loader
        event("aten::mm", 50, 80),
        event("aten::copy_", 60, 70),  # in the operator
        event("compile_inner (dynamo_timed)", 110, 130),
        event("aten::empty", 115, 120),  # in the compiler
        event("gloo:all_reduce", 75, 160, "user_annotation", thread=2),  # seen where the steps do nothing else
        event("aten::relu", 190, 230),  # runs over the end
    ]
    assert ledger(tmp_path, events) == {
        "host.dataloader": 30_000,
        "host.op": 30_000 + 10_000,
        "host.compile": 20_000,
        "host.comm_cpu": 30_000 + 30_000,
        "host.python": 200_000 - 150_000,
    }


@pytest.mark.check
def test_the_first_of_four_steps_warms_up(tmp_path: Path) -> None:
    events = [*steps(100, 110, 120, 130), event("aten::mm", 0, 90), event("aten::mm", 102, 104)]
    assert ledger(tmp_path, events) == {"host.op": 2_000, "host.python": 28_000}


def test_a_step_inside_another_is_a_part_of_it(tmp_path: Path) -> None:
    """Its time is not counted twice: the buckets add up to the window."""
    inner = [event("ProfilerStep#7", 10, 60, "user_annotation"), event("ProfilerStep#8", 100, 130, "user_annotation")]
    events = [*steps(100, 200), *inner, event("aten::mm", 20, 50)]
    assert ledger(tmp_path, events) == {"host.op": 30_000, "host.python": 170_000}


@pytest.mark.check
def test_an_operator_that_calls_python_is_python_of_the_program(tmp_path: Path) -> None:
    """One on another thread counts where nothing computes."""
    events = [*steps(100, 200), event("pure_callback.1", 10, 60), event("aten::mm", 70, 90)]
    events += [event("io_callback.2", 110, 150, thread=3), event("dot", 120, 130, thread=4)]
    assert ledger(tmp_path, events) == {"host.op": 30_000, "host.python": 170_000}


@pytest.mark.check
def test_operators_of_other_threads_count_where_the_steps_do_nothing_else(tmp_path: Path) -> None:
    events = [*steps(100, 200), event("aten::mm", 50, 80), event("dot", 70, 120, thread=3)]
    assert ledger(tmp_path, events) == {"host.op": 70_000, "host.python": 130_000}


@pytest.mark.check
def test_a_step_ends_where_the_call_of_the_profiler_begins_that_ends_it(tmp_path: Path) -> None:
    """The last call stops the recording, which takes longer than the step."""
    step = "torch/profiler/profiler.py(1150): step"
    calls = [event(step, 90, 110, "python_function"), event(step, 150, 900, "python_function")]
    assert ledger(tmp_path, [*steps(100, 890), event("aten::mm", 20, 50), *calls]) == {
        "host.op": 30_000,
        "host.python": 90_000 - 30_000 + 50_000,
    }


@pytest.mark.check
def test_without_steps_the_window_is_that_of_the_busiest_threads_operators(tmp_path: Path) -> None:
    events = [event("aten::mm", 10, 60), event("aten::mm", 80, 90), event("aten::mm", 0, 15, thread=2)]
    assert ledger(tmp_path, events) == {"host.op": 60_000, "host.python": 20_000}


def test_an_operator_that_ends_after_the_one_it_began_in_counts_to_its_end(tmp_path: Path) -> None:
    events = [
        *steps(100, 200),
        event("aten::mm", 50, 120),
        event("aten::mm", 90, 160),
        event("dot", 150, 170, thread=3),
    ]
    events += [event("dot", 160, 180, thread=3)]
    assert ledger(tmp_path, events) == {"host.op": 130_000, "host.python": 70_000}


@pytest.mark.check
def test_a_run_with_gpu_work_has_none(tmp_path: Path) -> None:
    kernel = {**event("k", 10, 20, "kernel", 7), "pid": 0, "args": {"device": 0, "stream": 7, "correlation": 1}}
    assert ledger(tmp_path, [*steps(100), event("aten::mm", 10, 20), kernel]) == {}


@pytest.mark.check
@pytest.mark.parametrize(("operator", "state"), [("aten::mkldnn_convolution", "host"), ("aten::addmm", "no-gpu")])
def test_a_machines_devices_do_not_matter_to_a_program_that_ran_on_the_cpu(
    tmp_path: Path, operator: str, state: str
) -> None:
    trace = tmp_path / "trace.json"
    devices = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_000_000_000}]
    events = [*steps(100, 200), event(operator, 10, 90)]
    trace.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": devices, "traceEvents": events}))
    with ta.open(trace, store=tmp_path / "store") as run:
        assert judge(run.diagnose()).state == state


SLICES = st.lists(
    st.tuples(
        st.sampled_from(["aten::mm", LOADER, "x (dynamo_timed)", "c10d::allreduce_", "gloo:all_reduce"]),
        st.integers(0, 60),
        st.integers(1, 20),
    ),
    max_size=8,
)


@pytest.mark.check
@examples(60)
@given(SLICES, st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_the_ledger_is_what_looking_at_every_microsecond_gives(
    tmp_path_factory: pytest.TempPathFactory, slices: list[tuple[str, int, int]], lengths: list[int]
) -> None:
    ends = [sum(lengths[: at + 1]) for at in range(len(lengths))]
    # Another thread exchanges; on this one calls may lie in each other in any way.
    events = [
        event(name, start, start + dur, *(("user_annotation", 2) if name == "gloo:all_reduce" else ()))
        if name != LOADER
        else event(name, start, start + dur, "user_annotation")
        for name, start, dur in slices
    ]
    order = [
        (LOADER, "host.dataloader"),
        ("x (dynamo_timed)", "host.compile"),
        ("c10d::allreduce_", "host.comm_cpu"),
        ("aten::mm", "host.op"),
        ("gloo:all_reduce", "host.comm_cpu"),
    ]
    expected: Counter[str] = Counter()
    for at in range(ends[0] if len(ends) >= 4 else 0, ends[-1]):
        open_ = {name for name, start, dur in slices if start <= at < start + dur}
        expected[next((bucket for name, bucket in order if name in open_), "host.python")] += 1000
    assert ledger(tmp_path_factory.mktemp("ledger"), [*steps(*ends), *events]) == expected


@pytest.mark.check
def test_a_run_on_the_cpu_alone_is_diagnosed(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(root / "sample_traces" / "torch_cpu_slow_loader")
    assert main(["diagnose", run, "--store", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "No GPU was used. The program waits for its data loader: fixing it saves up to 89.5 %" in " ".join(
        printed.split()
    )
    assert re.search(r"waiting for the data loader +15\.70 ms +89\.5 %", printed)
    assert re.search(r"(\d+) of \1 rules checked", printed)


@pytest.mark.check
def test_what_takes_most_of_a_run_without_a_finding_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [*steps(1000, 2000), event("aten::mm", 0, 950), event("aten::mm", 1050, 2000)]
    path = written(tmp_path, events)
    assert main(["diagnose", str(path), "--store", str(tmp_path / "store")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Most of each step, 95.0 %, is work of the framework's operators, with aten::mm ahead (95.0 %)." in printed


@pytest.mark.check
def test_launches_without_kernels_allow_no_diagnosis(tmp_path: Path) -> None:
    events = [*steps(1000, 2000), event("aten::mm", 0, 950), event("cudaLaunchKernel", 10, 20, "cuda_runtime")]
    assert main(["diagnose", str(written(tmp_path, events)), "--store", str(tmp_path / "store")]) == 3


def _cut(folder: Path, events: list[dict[str, Any]], header: str = '"deviceProperties": [],') -> Path:
    """Write the beginning of a file that a killed job left: the event list is not closed."""
    text = ",".join(json.dumps(item) for item in events)
    (folder / "trace.json").write_text(
        '{"schemaVersion": 1, ' + header + ' "traceEvents": [' + text + ', {"ph": "X", "na'
    )
    return folder / "trace.json"


@pytest.mark.check
def test_a_file_that_ends_early_holds_the_steps_that_an_operator_follows(tmp_path: Path) -> None:
    events = [
        *steps(100, 200, 300),
        event("aten::mm", 10, 60),
        event("aten::mm", 110, 160),
        event("aten::mm", 210, 220),
    ]
    with ta.open(_cut(tmp_path, events), store=tmp_path / "store") as run:
        rows = run.sql("SELECT bucket, dur_ns, window_ns FROM host_ledger ORDER BY ALL").fetchall()
    assert rows == [("host.op", 100_000, 200_000), ("host.python", 100_000, 200_000)]


@pytest.mark.check
@pytest.mark.parametrize("header", ['"deviceProperties": [],', ""])
def test_a_file_that_ends_in_its_first_step_is_not_judged(
    tmp_path: Path, header: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _cut(tmp_path, [*steps(9000), event("aten::mm", 10, 60), event("aten::mm", 110, 160)], header)
    assert main(["diagnose", "--quiet", "--store", str(tmp_path / "store"), str(path)]) == 3
    assert "outside operators" not in capsys.readouterr().out


@pytest.mark.check
def test_a_file_that_ends_before_the_gpus_events_can_follow_is_no_run_on_the_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _cut(tmp_path, [*steps(9000, 18_000), event("aten::mm", 10, 60), event("aten::mm", 18_100, 18_160)], "")
    assert main(["diagnose", "--quiet", "--store", str(tmp_path / "store"), str(path)]) == 3
    assert "GPU work may follow the cut" in capsys.readouterr().out
