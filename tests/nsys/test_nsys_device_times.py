"""Rows of devices that contradict their stream or the host: damaged durations, far rows, clocks apart."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from nsys_export import KERNEL, RUNTIME, STRINGS, Rows, call, ingest, kernel

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
