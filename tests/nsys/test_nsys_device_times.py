"""Rows of devices that contradict their stream or the host: damaged durations, far rows, clocks apart."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from nsys_export import EVENT, KERNEL, RUNTIME, STRINGS, SYNC, Rows, call, global_pid, ingest, kernel

COUNT = 12
US = 1_000


def recording(shift: int = 0, **changed: Any) -> dict[str, Rows]:
    """Return a program that waits for every kernel; the sixth one has other values."""
    kernels, calls = [], []
    for at in range(COUNT):
        start = 100 * US * (at + 1)
        kernels.append(kernel(start + 10 * US + shift, start + 50 * US + shift, at + 1))
        calls.append(call(start, start + 5 * US, at + 1))
        calls.append(call(start + 6 * US, start + 55 * US, at + 101, "cudaDeviceSynchronize_v3020"))
    kernels[5] |= changed
    return {"StringIds": STRINGS, KERNEL: kernels, RUNTIME: calls}


def test_a_duration_that_runs_over_the_next_kernels_is_that_of_equal_work(tmp_path: Path) -> None:
    read = ingest(tmp_path, recording(end=10**12))
    assert read.defects() == {"overrun-duration": 1}
    assert set(read.column("gpu_ops", "dur_ns")) == {40 * US}
    assert read.rows("traces")[0]["last_ns"] - read.rows("traces")[0]["first_ns"] < 10**7


@pytest.mark.sampled
@pytest.mark.parametrize("shift", [-25_000 * US, 25_000 * US, 2 * 86_400 * 10**9])
def test_a_clock_apart_is_moved_by_what_the_rows_prove(shift: int, tmp_path: Path) -> None:
    read = ingest(tmp_path, recording(shift))
    assert read.defects() == {"clock-shifted": 1}
    starts = [row["start_ns"] - read.rows("traces")[0]["first_ns"] for row in read.rows("gpu_ops")]
    assert all(0 <= start - 100 * US * at <= 15 * US for at, start in enumerate(starts))


def waiting_for_an_event(shift: int, *, recorded_on: int, flag: int, api: str = "") -> dict[str, Rows]:
    """Return a program that keeps stream 13 busy and waits for an event once, when all is launched."""
    kernels, calls = [], []
    for at in range(COUNT):
        start = 100 * US + 6 * US * at
        kernels.append(
            kernel(2_000 * US * at + 200 * US + shift, 2_000 * US * (at + 1) + 200 * US + shift, at + 1, streamId=13)
        )
        calls.append(call(start, start + 5 * US, at + 1))
    end = 2_000 * US * COUNT + 210 * US
    calls.append(call(180 * US, 185 * US, 50, "cudaEventRecord_v3020"))
    calls.append(call(190 * US, end, 51, "cudaEventSynchronize_v3020"))
    here = {"globalPid": global_pid(10), "deviceId": 0, "contextId": 1}
    event = {"eventId": 2, "eventSyncId": 2}
    return {
        "StringIds": [{**row, "value": row["value"].replace("Record_v3020", f"Record{api}_v3020")} for row in STRINGS],
        KERNEL: kernels,
        RUNTIME: calls,
        EVENT: [{**here, **event, "streamId": recorded_on, "correlationId": 50}],
        SYNC: [
            {**here, **event, "start": 190 * US, "end": end, "streamId": 2**32 - 1, "correlationId": 51, "syncType": 1}
        ],
        "TARGET_INFO_CUDA_STREAM": [
            {"processId": 10, "contextId": 1, "streamId": stream, "flag": of} for stream, of in ((7, 3), (13, flag))
        ],
    }


@pytest.mark.parametrize(
    ("shift", "recorded_on", "flag", "api", "expected"),
    [
        (0, 13, 2, "", {}),
        (25_000 * US, 13, 2, "", {"clock-shifted": 1}),
        (25_000 * US, 7, 1, "", {"clock-shifted": 1}),  # the null stream waits for other streams
        (0, 7, 1, "", {}),
        (25_000 * US, 7, 2, "", {}),  # not for those that do not block
        (25_000 * US, 7, 1, "_ptsz", {}),  # nor where each thread has its own
    ],
)
def test_a_clock_ahead_is_seen_by_a_wait_for_an_event(
    shift: int, recorded_on: int, flag: int, api: str, expected: dict[str, int], tmp_path: Path
) -> None:
    read = ingest(tmp_path, waiting_for_an_event(shift, recorded_on=recorded_on, flag=flag, api=api))
    assert read.defects() == expected
    starts = read.column("gpu_ops", "start_ns")
    moved = min(starts) - min(read.column("host_slices", "start_ns")) - 100 * US
    assert abs(moved - (0 if expected else shift)) <= 20 * US


@pytest.mark.sampled
@pytest.mark.parametrize("shift", [25_000 * US, -25_000 * US])
def test_the_clock_of_one_device_moves_no_work_of_another(shift: int, tmp_path: Path) -> None:
    kernels, calls = [], []
    for at in range(4 * COUNT):
        start, device = 50 * US * (at + 1), at % 2
        kernels.append(
            kernel(start + 10 * US + device * shift, start + 40 * US + device * shift, at + 1, deviceId=device)
        )
        calls.append(call(start, start + 5 * US, at + 1))
    read = ingest(tmp_path, {"StringIds": STRINGS, KERNEL: kernels, RUNTIME: calls})
    assert read.defects() == {"clock-shifted": 1}
    starts = {
        device: [
            start
            for start, own in zip(*map(partial(read.column, "gpu_ops"), ("start_ns", "device")), strict=True)
            if own == device
        ]
        for device in (0, 1)
    }
    assert starts[0] == [row["start"] for row in kernels[::2]]
    assert all(
        abs(start - row["start"] + shift) <= 10 * US for start, row in zip(starts[1], kernels[1::2], strict=True)
    )


@pytest.mark.sampled
@pytest.mark.parametrize("late", [-30 * 10**9, 30 * 10**9])
def test_a_start_out_of_the_order_of_launches_is_read_at_its_launch(late: int, tmp_path: Path) -> None:
    start = 610 * US + late
    read = ingest(tmp_path, recording(start=start, end=start + 40 * US))
    assert read.defects() == {"misplaced-start": 1}
    assert sorted(read.column("gpu_ops", "start_ns"))[5] - read.rows("traces")[0]["first_ns"] == 500 * US
    assert set(read.column("gpu_ops", "dur_ns")) == {40 * US}


@pytest.mark.check
def test_a_kernel_a_year_ahead_is_left_out(tmp_path: Path) -> None:
    year = 365 * 86_400 * 10**9
    read = ingest(tmp_path, recording(start=year, end=year + 40 * US))
    assert read.defects() == {"far-timestamp": 1}
    assert len(read.rows("gpu_ops")) == COUNT - 1


def test_sound_rows_stay_as_they_are(tmp_path: Path) -> None:
    assert ingest(tmp_path, recording()).defects() == {}
