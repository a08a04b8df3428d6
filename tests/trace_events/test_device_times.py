"""Records of devices that contradict their stream or the host: damaged durations, far records, clocks apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from trace_event_tables import Tables, events, read

Event = dict[str, Any]
COUNT = 12
SHIFTS_US = [-25_000, 25_000, 2 * 86_400e6]


def launched(at: int, call: str = "cudaLaunchKernel", **more: Any) -> list[Event]:
    """Return a launch at 100, 200 … µs and its kernel, which runs for 40 µs from 10 µs later on."""
    ts = 100.0 * (at + 1)
    host = {"ph": "X", "cat": "cuda_runtime", "name": call, "pid": 1, "tid": 1, "ts": ts, "dur": 5}
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": ts + 10, "dur": 40}
    args = {"device": 0, "stream": 7, "correlation": at + 1}
    return [host | {"args": {"correlation": at + 1}}, kernel | {"args": args} | more]


def recording(*, call: str = "cudaLaunchKernel", waits: bool = True) -> list[Event]:
    """Return a program that launches kernels, waiting for every third one."""
    rows: list[Event] = []
    for at in range(COUNT):
        rows += launched(at, call)
        if waits and at % 3 == 2:
            name = "cudaDeviceSynchronize"
            rows.append(
                {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": 1, "ts": 100.0 * at + 106, "dur": 49}
            )
    return rows


def tables(rows: list[Event]) -> Tables:
    return read(events(*map(json.dumps, rows)))


def kernels(found: Tables) -> list[tuple[float, float]]:
    return sorted((row["start_ns"] / 1_000, row["dur_ns"] / 1_000) for row in found["gpu_ops"])


def changed(rows: list[Event], at: int, **values: Any) -> list[Event]:
    """Return a recording in which one kernel has other values."""
    numbers = [place for place, row in enumerate(rows) if row["cat"] == "kernel"]
    return [row | values if place == numbers[at] else row for place, row in enumerate(rows)]


def test_a_sound_recording_stays_as_it_is() -> None:
    found = tables(recording())
    assert found.defects == {}
    assert kernels(found) == [(100 * at + 110, 40) for at in range(COUNT)]


@pytest.mark.check
@pytest.mark.parametrize("at", [0, 5, COUNT - 1])
def test_a_duration_that_runs_over_what_waits_for_it_is_that_of_equal_work(at: int) -> None:
    found = tables(changed(recording(), at, dur=400_000))
    assert found.defects == {"overrun-duration": 1}
    assert kernels(found) == kernels(tables(recording()))
    assert found["traces"][0]["last_ns"] < 10_000_000


def test_a_duration_that_runs_over_many_is_that_of_equal_work_where_no_launches_are_recorded() -> None:
    rows = [row for row in changed(recording(waits=False), 1, dur=400_000) if row["cat"] == "kernel"]
    found = tables(rows)
    assert found.defects == {"overrun-duration": 1}
    assert {dur for _, dur in kernels(found)} == {40}


@pytest.mark.sampled
@pytest.mark.parametrize("late_us", [-30e6, -2_000, 2_000, 30e6])
def test_a_start_out_of_the_order_of_launches_is_read_behind_what_was_launched_before(late_us: float) -> None:
    found = tables(changed(recording(waits=False), 5, ts=610 + late_us))
    assert found.defects == {"misplaced-start": 1}
    assert kernels(found)[5] == (600, 40)  # at its launch, for the kernel before it had ended
    assert [row for at, row in enumerate(kernels(found)) if at != 5] == [
        (100 * at + 110, 40) for at in range(COUNT) if at != 5
    ]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "rows",
    [
        changed(recording(), 3, dur=400_000),
        changed(recording(waits=False), 5, ts=2_610),
        changed(recording(waits=False), 5, ts=-1_390),
        [row | {"ts": row["ts"] + 25_000} if row["cat"] == "kernel" else row for row in recording()],
        [row for row in changed(recording(waits=False), 1, dur=400_000) if row["cat"] == "kernel"],
    ],
)
def test_recordings_that_are_checked_in_parts_are_corrected_alike(
    rows: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tables(rows)
    monkeypatch.setattr("traceanalyzer.ingest.device_check.bounds._PART_ROWS", 3)
    parts = tables(rows)
    assert whole.defects
    assert (parts.defects, kernels(parts)) == (whole.defects, kernels(whole))


def test_launches_whose_calls_overlap_are_in_no_order() -> None:
    rows = [row | {"dur": 250} if row["cat"] == "cuda_runtime" else row for row in recording(waits=False)]
    assert "misplaced-start" not in tables(changed(rows, 5, ts=2_000)).defects


def test_streams_whose_work_starts_in_another_order_again_and_again_are_in_no_order() -> None:
    rows = recording(waits=False)
    for at in (1, 3, 5, 7, 9):
        rows = changed(rows, at, ts=2_000 + 50 * at)
    assert "misplaced-start" not in tables(rows).defects


def test_a_damaged_duration_without_equal_work_is_unknown() -> None:
    found = tables(changed(recording(), 5, dur=400_000, name="only"))
    assert found.defects == {"overrun-duration": 1}
    assert kernels(found)[5] == (610, 0)


@pytest.mark.check
def test_copies_are_compared_with_copies_of_their_size() -> None:
    rows = recording(waits=False)
    for at in range(COUNT):
        rows = changed(rows, at, dur=20.0 + at % 2, args={**launched(at)[1]["args"], "bytes": 1_000 * (at % 2)})
    rows = changed(rows, 5, dur=3e6)
    assert kernels(tables(rows))[5] == (610, 21)


def test_dependent_launches_may_overlap() -> None:
    rows = [row | {"dur": 120} if row["cat"] == "kernel" else row for row in recording(call="cudaLaunchKernelExC")]
    rows = [row for row in rows if row["name"] != "cudaDeviceSynchronize"]
    found = tables(rows)
    assert found.defects == {}
    assert {dur for _, dur in kernels(found)} == {120}


def test_streams_whose_work_overlaps_again_and_again_are_in_no_order() -> None:
    rows = [row | {"dur": 350} if row["cat"] == "kernel" else row for row in recording(waits=False)]
    found = tables(rows)
    assert "overrun-duration" not in found.defects


@pytest.mark.check
@pytest.mark.parametrize("shift_us", SHIFTS_US)
def test_a_clock_apart_is_moved_by_what_the_records_prove(shift_us: float) -> None:
    rows = [row | {"ts": row["ts"] + shift_us} if row["cat"] == "kernel" else row for row in recording()]
    found = tables(rows)
    assert found.defects == {"clock-shifted": 1}
    plain = kernels(tables(recording()))
    assert all(abs(start - other) < 10 for (start, _), (other, _) in zip(kernels(found), plain, strict=True))
    assert found["traces"][0]["last_ns"] < 10_000_000


@pytest.mark.sampled
@pytest.mark.parametrize("shift_us", [500, 25_000, 3.6e9])
def test_one_call_that_waits_for_all_work_proves_a_clock_ahead_by_the_last_of_it(shift_us: float) -> None:
    rows = recording(waits=False)
    wait = {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1}
    rows.append(wait | {"ts": 100.0 * COUNT + 6, "dur": 50})
    found = tables([row | {"ts": row["ts"] + shift_us} if row["cat"] == "kernel" else row for row in rows])
    assert found.defects == {"clock-shifted": 1}
    assert all(abs(start - (100 * at + 110)) < 10 for at, (start, _) in enumerate(kernels(found)))


def waiting_for_an_event(wait: str, *, recorded_us: float, stream: int = 7) -> list[Event]:
    """Return a program that launches kernels and, after their ends, returns from a wait for an event of a stream."""
    place = {"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": 1}
    event = {"wait_on_stream": stream, "wait_on_cuda_event_record_corr_id": 50, "wait_on_cuda_event_id": 9}
    record = {"ph": "X", "cat": "cuda_sync", "name": "Event Sync", "pid": 0, "tid": -1, "ts": 100.0 * COUNT + 12}
    return [
        *recording(waits=False),
        place | {"name": "cudaEventRecord", "ts": recorded_us, "dur": 1, "args": {"correlation": 50}},
        place | {"name": wait, "ts": 100.0 * COUNT + 10, "dur": 50, "args": {"correlation": 51}},
        record | {"dur": 40, "args": {"stream": -1, "correlation": 51, "device": 0, **event}},
    ]


LAST_US = 100.0 * COUNT + 7


@pytest.mark.sampled
@pytest.mark.parametrize("shift_us", [0, 500, 25_000, 3.6e9])
def test_a_call_that_waits_for_an_event_proves_a_clock_ahead(shift_us: float) -> None:
    rows = waiting_for_an_event("cudaEventSynchronize", recorded_us=LAST_US)
    found = tables([row | {"ts": row["ts"] + shift_us} if row["cat"] == "kernel" else row for row in rows])
    assert found.defects == ({"clock-shifted": 1} if shift_us else {})
    assert all(abs(start - (100 * at + 110)) < 10 for at, (start, _) in enumerate(kernels(found)))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(waiting_for_an_event("cudaEventSynchronize", recorded_us=90), id="recorded before all work"),
        pytest.param(waiting_for_an_event("cudaEventSynchronize", recorded_us=LAST_US, stream=8), id="another stream"),
        pytest.param(waiting_for_an_event("cudaStreamWaitEvent", recorded_us=LAST_US), id="the host does not wait"),
    ],
)
def test_an_event_that_does_not_wait_for_the_work_proves_nothing_of_the_clock(rows: list[Event]) -> None:
    moved = [row | {"ts": row["ts"] + 500} if row["cat"] == "kernel" else row for row in rows]
    assert tables(moved).defects == {}


def test_a_wait_for_an_event_proves_nothing_where_the_program_uses_several_devices() -> None:
    rows = waiting_for_an_event("cudaEventSynchronize", recorded_us=LAST_US)
    rows = [row | {"ts": row["ts"] + 500} if row["cat"] == "kernel" else row for row in rows]
    other = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 1, "tid": 7, "dur": 5}
    assert tables([*rows, other | {"ts": 300.0, "args": {"device": 1, "stream": 7}}]).defects == {}


def test_of_two_waits_the_one_that_returns_sooner_counts() -> None:
    rows = waiting_for_an_event("cudaEventSynchronize", recorded_us=LAST_US)
    long = [row | {"dur": 1e6} if row["name"] == "cudaEventSynchronize" else row for row in rows]
    short = {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 1, "tid": 2}
    record = {"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "dur": 40}
    long.append(short | {"ts": LAST_US + 2, "dur": 51, "args": {"correlation": 60}})
    long.append(record | {"ts": LAST_US + 3, "args": {"stream": 7, "correlation": 60, "device": 0}})
    moved = [row | {"ts": row["ts"] + 25_000} if row["cat"] == "kernel" else row for row in long]
    found = tables(moved)
    assert found.defects == {"clock-shifted": 1}


@pytest.mark.sampled
@pytest.mark.parametrize("moved_us", [30e6, -30e6, 450, -450, 3_600e6])
def test_a_launch_whose_time_contradicts_its_kernel_or_the_others_is_left_out(moved_us: float) -> None:
    rows = recording(waits=False)
    at = next(at for at, row in enumerate(rows) if row["args"]["correlation"] == 7 and row["cat"] == "cuda_runtime")
    found = tables([*rows[:at], rows[at] | {"ts": rows[at]["ts"] + moved_us}, *rows[at + 1 :]])
    assert found.defects == {"misplaced-call": 1}
    assert kernels(found) == kernels(tables(rows))
    assert len(found["host_slices"]) == COUNT - 1
    assert [row["launch_id"] is None for row in found["gpu_ops"]] == [number == 6 for number in range(COUNT)]


def without_waits(late_us: Callable[[int], float]) -> list[Event]:
    """Return a program that launches 24 kernels and waits for none; each is so much later by the device's clock."""
    return [
        row | {"ts": row["ts"] + late_us(at)} if row["cat"] == "kernel" else row
        for at in range(2 * COUNT)
        for row in launched(at)
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("shift_us", [2_000, 25_000, 3e6])
def test_an_idle_device_that_starts_all_work_late_by_the_same_has_a_clock_ahead(shift_us: float) -> None:
    found = tables(without_waits(lambda at: shift_us + at % 3))
    assert found.defects == {"clock-shifted": 1}
    assert all(abs(start - 100 * at - 110) < 10 for at, (start, _) in enumerate(kernels(found)))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "late_us",
    [
        pytest.param(lambda at: 2_000 + 60 * at, id="a queue that grows"),
        pytest.param(lambda at: 0 if at in {2, 9, 16} else 2_000, id="some work starts at once"),
        pytest.param(lambda at: 500, id="as late as a busy system starts it"),
    ],
)
def test_work_that_starts_late_for_another_reason_proves_nothing_of_the_clock(late_us: Callable[[int], float]) -> None:
    assert not {"clock-shifted", "clocks-contradict"} & set(tables(without_waits(late_us)).defects)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.02, "device 0: 2.00 % faster than the host"),
        (-0.02, "device 0: 2.00 % slower than the host"),
        (0.095, "device 0: 9.50 % faster than the host"),
        (0.001, None),
    ],
)
def test_a_clock_of_another_rate_is_named_and_left(share: float, said: str | None) -> None:
    found = tables(without_waits(lambda at: share * 100 * at))
    assert [row["example"] for row in found["defects"] if row["defect"] == "clocks-contradict"] == [said] * bool(said)
    assert kernels(found)[-1][0] == pytest.approx((1 + share) * 2_300 + 110)


def test_work_that_starts_when_a_long_call_returns_proves_nothing_of_the_clock() -> None:
    events = without_waits(lambda at: 2_000 + 4_900 * at)
    for row in events:
        if row["cat"] == "cuda_runtime":
            row |= {"ts": 50 * row["ts"] - 4_900, "dur": 2_005}
    assert "clock-shifted" not in tables(events).defects


def reading_back(*, operators: bool = True) -> list[Event]:
    """Return a program that reads back what each kernel writes, as `.item()` does, and waits for the copy."""
    rows: list[Event] = []
    for at in range(COUNT):
        call, copy = launched(at, "cudaMemcpyAsync", cat="gpu_memcpy", name="Memcpy DtoH (Device -> Pageable)")
        wait = call | {"name": "cudaStreamSynchronize", "ts": call["ts"] + 6, "dur": 48, "args": {}}
        of_operator = {"External id": at + 1} if operators else {}
        rows += [row | {"args": {**row["args"], **of_operator}} for row in (call, copy, wait)]
    return rows


def of_devices(rows: list[Event], moved_us: Callable[[float], float]) -> list[Event]:
    return [row | {"ts": moved_us(row["ts"])} if row["cat"] == "gpu_memcpy" else row for row in rows]


@pytest.mark.sampled
@pytest.mark.parametrize("shift_us", [-25_000, -100, 100, 25_000])
def test_a_wait_in_the_operator_of_a_copy_to_the_host_proves_the_clock(shift_us: float) -> None:
    found = tables(of_devices(reading_back(), lambda ts: ts + shift_us))
    assert found.defects == {"clock-shifted": 1}
    copies = sorted(row["start_ns"] for row in found["gpu_ops"])
    assert all(abs(start - 100_000 * at - 110_000) < 10_000 for at, start in enumerate(copies))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "moved_us",
    [
        pytest.param(lambda ts: ts - 30_000 * (ts > 700), id="set back"),
        pytest.param(lambda ts: ts + 30_000 * (ts > 700), id="set ahead"),
        pytest.param(lambda ts: ts + 2 * (ts - 110), id="another rate"),
    ],
)
def test_a_clock_that_does_not_keep_its_distance_is_said(moved_us: Callable[[float], float]) -> None:
    assert set(tables(of_devices(reading_back(), moved_us)).defects) == {"clocks-contradict"}


@pytest.mark.sampled
@pytest.mark.parametrize("operators", [True, False])
def test_a_wait_of_another_stream_proves_nothing_of_the_clock(operators: bool) -> None:
    rows = [row for row in reading_back() if row["name"] != "cudaStreamSynchronize"]
    waits = [row for row in reading_back(operators=operators) if row["name"] == "cudaStreamSynchronize"]
    if operators:  # of other operators
        waits = [row | {"args": {"External id": 1_000 + at}} for at, row in enumerate(waits)]
    assert tables([*of_devices(rows, lambda ts: ts + 500), *waits]).defects == {}


@pytest.mark.sampled
@pytest.mark.parametrize("call", ["urEnqueueUSMMemcpy", "hsa_amd_memory_async_copy_on_engine", "cudaMemcpyAsync"])
def test_a_call_that_only_queues_a_copy_proves_nothing_of_the_clock(call: str) -> None:
    rows: list[Event] = []
    for at in range(0, 1000, 10):
        queued, copy = launched(at, call, cat="gpu_memcpy", name="Memcpy DtoH (Device -> Pageable)")
        rows += [queued, copy | {"ts": queued["ts"] + 800}]
    assert tables(rows).defects == {}


def test_a_clock_that_jumps_is_said_and_left() -> None:
    number = iter(range(COUNT))

    def jumping(row: Event) -> Event:
        return row | {"ts": row["ts"] + (25_000 if next(number) % 2 else -25_000)} if row["cat"] == "kernel" else row

    assert "clocks-contradict" in tables([jumping(row) for row in recording()]).defects


YEAR_US = 365 * 86_400e6


@pytest.mark.sampled
@pytest.mark.parametrize("ahead_us", [YEAR_US, -YEAR_US / 400, 2 * 86_400e6, 300e6, -300e6])
@pytest.mark.parametrize("category", ["kernel", "cuda_runtime"])
def test_a_far_record_is_named_and_left_out(ahead_us: float, category: str) -> None:
    rows = [row | {"ts": row["ts"] + 1e12} for row in recording()]
    rows += [
        {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 2, "ts": 1e12 + 9 * at, "dur": 5}
        for at in range(50)
    ]
    place = [at for at, row in enumerate(rows) if row["cat"] == category][4]
    rows[place] = rows[place] | {"ts": rows[place]["ts"] + ahead_us}
    found = tables(rows)
    assert found.defects == {"far-timestamp": 1}
    assert found["traces"][0]["last_ns"] - found["traces"][0]["first_ns"] < 10_000_000


def test_a_pause_between_two_parts_of_a_recording_is_none() -> None:
    def later(row: Event) -> Event:
        return row | {
            "ts": row["ts"] + 7_200e6,
            "args": {**row.get("args", {}), "correlation": row.get("args", {}).get("correlation", 0) + 100},
        }

    found = tables([*recording(), *map(later, recording())])
    assert found.defects == {}
    assert len(found["gpu_ops"]) == 2 * COUNT


MARKS: dict[str, Event] = {
    "[memory]": {"ph": "i", "s": "t", "args": {"Addr": 1, "Bytes": 8, "Total Allocated": 8, "Total Reserved": 16}},
    "mark": {"ph": "i", "s": "t"},
    "counter": {"ph": "C", "args": {"used": 5}},
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", MARKS)
def test_a_stray_mark_hours_after_all_else_does_not_stretch_the_recording(name: str) -> None:
    stray = {"name": name, "pid": 1, "tid": 1, "ts": 5 * 3_600e6, **MARKS[name]}
    found = tables([*recording(), stray])
    assert found.defects == {"far-timestamp": 1}
    assert found["traces"][0]["last_ns"] < 10_000_000


def test_marks_that_go_on_for_hours_are_kept() -> None:
    marks = [{"name": "mark", "pid": 1, "tid": 1, "ts": at * 3_600e6, **MARKS["mark"]} for at in range(1, 9)]
    found = tables([*recording(), *marks])
    assert found.defects == {}
    assert len(found["instants"]) == len(marks)


@pytest.mark.sampled
@pytest.mark.parametrize("damaged", range(4))
@pytest.mark.parametrize("category", ["user_annotation", "cpu_op"])
def test_a_step_with_a_damaged_duration_ends_where_the_next_one_begins(category: str, damaged: int) -> None:
    """A wrong length of one step made others vanish inside it, and the recording last for minutes."""
    marks: list[Event] = [
        {"ph": "X", "cat": category, "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": 200.0 * step, "dur": 200}
        for step in range(4)
    ]
    sound = tables([*recording(), *marks])
    assert sound.defects == {}
    found = tables([*recording(), *(row | {"dur": 2e6} if at == damaged else row for at, row in enumerate(marks))])
    assert found.defects == {"overlong-step": 1}
    assert found["traces"][0]["last_ns"] == sound["traces"][0]["last_ns"]
    steps, of_sound = (
        {row["name"]: row["dur_ns"] for row in read["host_slices"] if row["name"].startswith("Prof")}
        for read in (found, sound)
    )
    assert all(steps[name] == dur_ns for name, dur_ns in of_sound.items() if damaged < 3 or name != "ProfilerStep#3")


def test_of_three_steps_a_long_last_one_may_be_real() -> None:
    marks: list[Event] = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at, "dur": dur}
        for step, (at, dur) in enumerate([(0, 100), (100, 100), (200, 9_000)])
    ]
    assert tables([*recording(), *marks]).defects == {}


@pytest.mark.parametrize("is_whole", [False, True])
def test_records_that_a_file_holds_twice_count_once(is_whole: bool) -> None:
    """Tools that put files together write some events again; no stream runs a launch twice at one time."""
    again = [row for row in recording() if is_whole or row["cat"] == "kernel"]
    once, found = tables(recording()), tables([*recording(), *again])
    assert found.defects == {"repeated-record": len(again)}
    for table in ("gpu_ops", "host_slices"):
        assert found[table] == once[table]


@pytest.mark.parametrize("times", [2, 3])
def test_calls_that_a_file_holds_several_times_count_once_where_its_work_is_there_once(times: int) -> None:
    calls = [row for row in recording() if row["cat"] != "kernel"]
    once, found = tables(recording()), tables([*recording(), *calls * (times - 1)])
    assert found.defects == {"repeated-record": len(calls) * (times - 1)}
    for table in ("gpu_ops", "host_slices"):
        assert found[table] == once[table]


def test_calls_of_two_interfaces_with_one_id_and_time_are_no_record_twice() -> None:
    driver = [{**row, "cat": "cuda_driver", "name": "cuLaunchKernel"} for row in recording() if row["cat"] != "kernel"]
    assert tables([*recording(), *driver]).defects == {}


def test_python_frames_with_numbers_of_their_own_are_no_record_twice() -> None:
    """In times that are rounded to microseconds, a short function that is called twice looks alike."""
    frame = {
        "ph": "X",
        "cat": "python_function",
        "name": "<built-in function len>",
        "pid": 1,
        "tid": 1,
        "ts": 5,
        "dur": 0,
    }
    frames = [frame | {"args": {"Python id": number, "Python parent id": None}} for number in (1, 2)]
    work = next(row for row in recording() if row["cat"] == "kernel")
    found, without = tables([*recording(), *frames, work]), tables(recording())
    assert found.defects == {"repeated-record": 1}
    assert len(found["host_slices"]) == len(without["host_slices"]) + 2


def test_calls_of_operators_that_a_file_without_work_holds_twice_count_once() -> None:
    own = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "dur": 2}
    calls = [{**own, "name": "aten::to", "ts": 5 * at, "args": {"External id": at + 1}} for at in range(8)]
    frames = [{**own, "cat": "python_function", "name": "f", "ts": 5 * at} for at in range(8)]
    once, found = tables([*calls, *frames]), tables([*calls, *frames, *calls, *frames])
    assert found.defects == {"repeated-record": 16}
    assert found["host_slices"] == once["host_slices"]
    # One call in another of the same times is another one.
    inner = [{**call, "args": {"External id": 9 + at}} for at, call in enumerate(calls)]
    assert len(tables([*calls, *inner])["host_slices"]) == 16


def test_equal_slices_of_the_host_are_kept_beside_sound_work() -> None:
    calls = [{"ph": "X", "cat": "cpu_op", "name": "aten::to", "pid": 1, "tid": 1, "ts": 5, "dur": 2}] * 2
    found, without = tables([*recording(), *calls]), tables(recording())
    assert found.defects == {}
    assert len(found["host_slices"]) == len(without["host_slices"]) + 2


@pytest.mark.sampled
@pytest.mark.parametrize("number", [2**31, 2**40, 10**20, "GPU"])
def test_work_of_a_device_that_cannot_be_is_not_added_to_a_real_one(number: object) -> None:
    args = {"device": number, "stream": 7, "correlation": 6}
    found = tables(changed(recording(), 5, pid=number, args=args))
    assert found.defects == {"device-lost": 1}
    assert kernels(found) == [row for row in kernels(tables(recording())) if row != (610, 40)]
    assert {row["device"] for row in found["gpu_ops"]} == {0}


def test_work_that_names_no_possible_device_at_all_is_that_of_one() -> None:
    rows = [
        row | {"pid": 2**40, "args": {**row["args"], "device": 2**40}} if row["cat"] == "kernel" else row
        for row in recording()
    ]
    found = tables(rows)
    assert found.defects == {"bad-number": COUNT}
    assert len(found["gpu_ops"]) == COUNT


def with_operators(**changed: Any) -> list[Event]:
    """Return a program that calls an operator for each kernel; the call of the sixth launch has other values."""
    rows: list[Event] = []
    for at in range(COUNT):
        call, kernel = launched(at)
        around = {"cat": "cpu_op", "name": "aten::mm", "ts": call["ts"] - 10, "dur": 40}
        rows += [call | {"args": {}} | around, call | (changed if at == 5 else {}), kernel]
    return rows


def calls(found: Tables) -> list[float]:
    return [row["dur_ns"] / 1_000 for row in found["host_slices"] if row["category"] == "runtime"]


def test_a_call_that_runs_over_later_operators_of_its_thread_lasts_as_long_as_others() -> None:
    found = tables(with_operators(dur=50_000))
    assert found.defects.keys() == {"overlong-call"}
    assert calls(found) == [5] * COUNT


@pytest.mark.parametrize("call", ["cudaLaunchKernel", "predictor::run"])
def test_calls_in_which_operators_run_again_and_again_keep_their_durations(call: str) -> None:
    rows = [row | {"dur": 180, "name": call} if row["cat"] == "cuda_runtime" else row for row in with_operators()]
    assert calls(tables(rows)) == [180] * COUNT


def test_one_long_call_of_another_runtime_keeps_its_duration() -> None:
    assert calls(tables(with_operators(dur=50_000, name="predictor::run")))[5] == 50_000


def of_a_model(dur: float, count: int = 1) -> list[Event]:
    """Return a program whose operators lie in a module's; some, from the sixth on, have another duration."""
    rows = with_operators()
    around = launched(0)[0] | {
        "args": {},
        "cat": "cpu_op",
        "name": "model",
        "ts": rows[0]["ts"] - 10,
        "dur": 40 * COUNT**2,
    }
    named = [row for row in rows if row["cat"] == "cpu_op"][5 : 5 + count]
    return [around, *(row | {"dur": dur} if row in named else row for row in rows)]


def operators(found: Tables) -> list[float]:
    return [row["dur_ns"] / 1_000 for row in found["host_slices"] if row["name"] == "aten::mm"]


@pytest.mark.parametrize("count", [1, 3])
def test_an_operator_that_outlasts_its_whole_thread_and_its_caller_lasts_as_long_as_others(count: int) -> None:
    found = tables(of_a_model(900e6, count))
    assert found.defects == {"overlong-operator": count}
    assert operators(found) == [40] * COUNT


def test_a_long_operator_that_its_caller_waits_for_keeps_its_duration() -> None:
    first, *rows = of_a_model(900e6)
    found = tables([first | {"dur": 901e6}, *rows])
    assert "overlong-operator" not in found.defects
    assert operators(found)[5] == 900e6


@pytest.mark.parametrize(("times", "is_damaged"), [(9, False), (11, True)])
def test_an_operator_that_outlasts_its_caller_by_little_may_end_with_a_communication(
    times: int, is_damaged: bool
) -> None:
    rows = of_a_model(900e6)
    starts = [row["ts"] for row in rows if row["cat"] != "kernel"]
    found = tables(of_a_model(times * (max(starts) - min(starts)) + 100))
    assert ("overlong-operator" in found.defects) == is_damaged
