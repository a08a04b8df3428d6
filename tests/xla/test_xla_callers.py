"""Calls on lines of their own, as AMD's are, count to the thread that makes them; flows lead to the one that asked.

calls    .  h  .  h                     (a line without names)
python   [step ($train.py)     ]
         [Execute] [Execute]
pool                      [asked: launch]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xla_profiles import diagnose, rules_of
from xspace import MS, US, PlaneMaker, read, space

Events = list[tuple[int, int, str, dict[str, Any]]]


def gpu(count: int, *, device: int = 0) -> PlaneMaker:
    plane = PlaneMaker(f"/device:GPU:{device}")
    plane.stats = {"device_vendor": "AMD", "core_count": 304}
    work = [(n * MS + 500 * US, 100 * US, f"fusion_{n}", {"correlation_id": 100 + n}) for n in range(count)]
    return plane.line(1, "Stream #1", work)


def calls(count: int, after_us: int = 200) -> Events:
    return [
        (n * MS + after_us * US, 10 * US, "hipModuleLaunchKernel", {"correlation_id": 100 + n}) for n in range(count)
    ]


def programs(count: int, *, at_us: int = 150, name: str = "GpuExecutable::ExecuteThunks") -> Events:
    return [(n * MS + at_us * US, 100 * US, name, {}) for n in range(count)]


def origins(content: bytes, folder: Path) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    tables = read(content, folder)
    names = {row["slice_id"]: row["name"] for row in tables["host_slices"]}
    found = [
        (names.get(op["python_id"]), names.get(op["annotation_id"]), op["link_source"]) for op in tables["gpu_ops"]
    ]
    twins = {row["thread_name"]: row["twin_id"] for row in tables["threads"]}
    return found, twins


def test_calls_belong_to_the_thread_that_runs_the_programs_around_them(tmp_path: Path) -> None:
    frame: Events = [(0, 3 * MS, "$train.py:3 step", {})]
    host = PlaneMaker("/host:CPU").line(7, "Host Threads/7", calls(3))
    host.line(-5, "python", [*frame, *programs(3)]).line(-6, "pool", programs(1))
    found, twins = origins(space(host, gpu(3)), tmp_path)
    assert found == [("$train.py:3 step", None, "nesting")] * 3
    assert twins == {"Host Threads/7": 1, "python": None, "pool": None}


def test_calls_that_two_threads_may_have_made_belong_to_none(tmp_path: Path) -> None:
    host = PlaneMaker("/host:CPU").line(7, "Host Threads/7", calls(3))
    host.line(-5, "a", programs(3)).line(-6, "b", programs(3))
    found, twins = origins(space(host, gpu(3)), tmp_path)
    assert found == [(None, None, None)] * 3
    assert twins["Host Threads/7"] is None


def test_calls_between_programs_belong_to_none(tmp_path: Path) -> None:
    host = PlaneMaker("/host:CPU").line(7, "Host Threads/7", calls(3, after_us=600)).line(-5, "python", programs(3))
    assert origins(space(host, gpu(3)), tmp_path)[1]["Host Threads/7"] is None


def test_copies_for_a_program_belong_to_the_thread_that_calls_it(tmp_path: Path) -> None:
    host = PlaneMaker("/host:CPU").line(7, "Host Threads/7", calls(3))
    host.line(-5, "python", programs(3, name="PjRtStreamExecutorLoadedExecutable::Execute"))
    assert origins(space(host, gpu(3)), tmp_path)[1]["Host Threads/7"] == 1


def test_a_thread_that_does_what_others_ask_leads_to_the_one_that_asked(tmp_path: Path) -> None:
    ask: Events = [
        (0, 3 * MS, "train", {"step_num": 4}),
        (10 * US, MS, "$train.py:3 step", {}),
        (20 * US, 50 * US, "call", {"_p": 9, "_pt": 15}),
    ]
    pool: Events = [(100 * US, 300 * US, "work", {"_c": 9, "_ct": 15}), (120 * US, 10 * US, "inner", {}), *calls(1)]
    other: Events = [(100 * US, 300 * US, "work", {"_c": 9, "_ct": 14})]
    host = PlaneMaker("/host:CPU").line(-6, "pool", pool).line(-5, "python", ask).line(-7, "other", other)
    found, _ = origins(space(host, gpu(1)), tmp_path)
    assert found == [("$train.py:3 step", "train 4", "flow")]


@pytest.mark.check
def test_time_between_programs_is_python_where_frames_are_and_the_frameworks_where_it_calls(tmp_path: Path) -> None:
    frame: Events = [(0, 30 * MS, "$train.py:3 step", {}), (0, MS, "PjitFunction(step)", {})]
    host = PlaneMaker("/host:CPU").line(7, "Host Threads/7", calls(30)).line(-5, "python", [*frame, *programs(30)])
    (ledger,) = diagnose(space(host, gpu(30)), tmp_path).ledgers
    shares = {bucket: ns / ledger.window_ns for bucket, ns in ledger.buckets if ns}
    assert "host.other" not in shares
    assert shares["host.python"] > 0.5


def steps(count: int, *, at_us: int = 0) -> Events:
    marks: Events = [(n * MS + at_us * US, 900 * US, "train", {"step_num": n}) for n in range(count)]
    return [*marks, *((n * MS + (at_us + 10) * US, 400 * US, "load_batch", {}) for n in range(count))]


def test_a_thread_that_only_launches_counts_to_the_one_thread_whose_steps_contain_its_calls(tmp_path: Path) -> None:
    launches = [*calls(3, after_us=450), *programs(3, at_us=440)]
    host = PlaneMaker("/host:CPU").line(4, "py_xla_execute/4", launches).line(5, "python", steps(3))
    found, twins = origins(space(host, gpu(3)), tmp_path)
    assert found == [(None, f"train {n}", "time") for n in range(3)]
    assert twins == {"py_xla_execute/4": 1, "python": None}


def test_a_thread_whose_calls_lie_in_the_steps_of_two_threads_counts_to_none(tmp_path: Path) -> None:
    host = PlaneMaker("/host:CPU").line(4, "worker", calls(3)).line(5, "python", steps(3)).line(6, "python", steps(3))
    assert set(origins(space(host, gpu(3)), tmp_path)[1].values()) == {None}


def test_a_thread_that_launches_in_code_of_its_own_counts_to_none_that_marks_steps(tmp_path: Path) -> None:
    own: Events = [(0, 3 * MS, "$eval.py:3 evaluate", {}), *calls(3)]
    host = PlaneMaker("/host:CPU").line(4, "python", own).line(5, "python", steps(3))
    assert set(origins(space(host, gpu(3)), tmp_path)[1].values()) == {None}


@pytest.mark.check
def test_time_before_launches_of_another_thread_is_what_the_thread_of_the_steps_did(tmp_path: Path) -> None:
    host = PlaneMaker("/host:CPU").line(4, "py_xla_execute/4", calls(30, after_us=450)).line(5, "python", steps(30))
    diagnosis = diagnose(space(host, gpu(30)), tmp_path)
    (ledger,) = diagnosis.ledgers
    shares = {bucket: ns / ledger.window_ns for bucket, ns in ledger.buckets if ns}
    assert shares["host.dataloader"] == pytest.approx(0.9 * 0.4, abs=0.01)
    assert "dataloader-bound" in rules_of(diagnosis)


@pytest.mark.check
def test_a_device_that_only_copies_is_no_device_that_waits(tmp_path: Path) -> None:
    copies = [(n * MS, 10 * US, "MemcpyH2D", {"correlation_id": 200 + n}) for n in range(40)]
    other = PlaneMaker("/device:GPU:1").line(3, "Stream #3", copies)
    host = PlaneMaker("/host:CPU").line(-5, "python", [*programs(30), *calls(30)])
    diagnosis = diagnose(space(host, gpu(30), other), tmp_path)
    assert [ledger.device for ledger in diagnosis.ledgers] == [0]
    assert "edge.tail" not in dict(diagnosis.not_explained)


@pytest.mark.parametrize("is_open", [False, True])
def test_a_frame_that_is_open_when_the_profiler_stops_ends_with_the_frame_around_it(
    is_open: bool, tmp_path: Path
) -> None:
    stop: Events = [(3 * MS, 2 * MS, "$profiler.py:213 stop_trace", {}), (3 * MS + US, 2 * MS - US, "$builtins f", {})]
    frames: Events = []
    for n in range(3):
        frames.append((n * MS, 400 * US, f"$train.py:3 step{n}", {}))
        frames.append((n * MS + 10 * US, 5 * MS - n * MS - 10 * US if is_open else 390 * US, "$builtins len", {}))
        frames.append((n * MS + 450 * US, 100 * US, "$train.py:9 log", {}))
    host = PlaneMaker("/host:CPU").line(-5, "python", [*frames, *calls(3, 480), *stop])
    tables = read(space(host, gpu(3)), tmp_path)
    lengths = {row["name"]: row["dur_ns"] for row in tables["host_slices"] if row["category"] == "python"}
    assert lengths["$builtins len"] == 390_000
    assert (lengths["$profiler.py:213 stop_trace"], lengths["$builtins f"]) == (2_000_000, 1_999_000)
    names = {row["slice_id"]: row["name"] for row in tables["host_slices"]}
    assert [names[op["python_id"]] for op in tables["gpu_ops"]] == ["$train.py:9 log"] * 3
