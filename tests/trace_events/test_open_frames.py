"""Python frames that were left open until the recording stopped end with their caller, and before its next call."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from trace_event_tables import events, read

from traceanalyzer.ingest.trace_events import host_order

STOP = 1_000
Frame = tuple[Any, ...]


def frame(name: str, start: int, end: int, frame_id: int | None, caller: int | None, tid: int = 1) -> str:
    """Return the event of a frame; without an id it has no arguments."""
    fields = {"ph": "X", "cat": "python_function", "name": name, "pid": 7, "tid": tid, "ts": start, "dur": end - start}
    args = {} if frame_id is None else {"args": {"Python id": frame_id, "Python parent id": caller}}
    return json.dumps(fields | args)


def ends(*frames: str) -> dict[str, float]:
    """Return when each frame ends, in µs."""
    rows = read(events(*frames))["host_slices"]
    return {row["name"]: (row["start_ns"] + row["dur_ns"]) / 1_000 for row in rows}


def test_a_frame_ends_with_its_caller() -> None:
    found = ends(
        frame("main", 0, STOP, 1, None),
        frame("step", 10, 60, 2, 1),
        frame("<built-in run>", 12, STOP, 3, 2),
        frame("a.py(3): f", 20, STOP, 4, 2),
    )
    assert found == {"main": STOP, "step": 60, "<built-in run>": 20, "a.py(3): f": 60}


def test_an_open_frame_ends_before_the_next_call_of_its_caller() -> None:
    # main  |--------------------------> stop
    # size      |----- - - - - - - - - > stop
    # view             |--- - - - - - -> stop
    found = ends(
        frame("main", 0, STOP, 1, None),
        frame("<built-in method size>", 10, STOP, 2, 1),
        frame("<built-in method view>", 40, STOP, 3, 1),
        frame("a.py(3): f", 90, 95, 4, 1),
    )
    assert found["<built-in method size>"] == 40
    assert found["<built-in method view>"] == 90
    assert found["a.py(3): f"] == 95


def test_open_frames_of_open_frames_end_with_them() -> None:
    found = ends(
        frame("main", 0, STOP, 1, None),
        frame("<built-in function map>", 10, STOP, 2, 1),
        frame("a.py(3): f", 20, 25, 3, 2),
        frame("<built-in function any>", 30, STOP, 4, 2),
        frame("a.py(9): g", 70, 80, 5, 1),
    )
    assert found["<built-in function map>"] == found["<built-in function any>"] == 70


def test_a_root_frame_that_is_open_ends_before_the_next_root() -> None:
    found = ends(frame("<built-in run>", 0, STOP, 1, None), frame("a.py(3): f", 50, 80, 2, None))
    assert found == {"<built-in run>": 50, "a.py(3): f": 80}


def test_the_next_call_of_an_unrecorded_caller_ends_an_open_frame() -> None:
    found = ends(
        frame("main", 0, STOP, 1, None), frame("<built-in run>", 10, STOP, 2, 99), frame("a.py(3): f", 50, 80, 3, 99)
    )
    assert found["<built-in run>"] == 50


def test_threads_and_processes_have_stacks_of_their_own() -> None:
    found = ends(
        frame("main", 0, STOP, 1, None),
        frame("<built-in function wait>", 10, STOP, 2, 1),
        frame("worker", 20, 90, 3, None, tid=2),
        frame("a.py(3): f", 30, 40, 4, 1, tid=2),  # it was called on another thread
    )
    assert found == {"main": STOP, "<built-in function wait>": STOP, "worker": 90, "a.py(3): f": 40}


def test_frames_that_run_when_the_recording_stops_run_until_then() -> None:
    found = ends(
        frame("main", 0, STOP, 1, None),
        frame("<built-in function exec>", 10, STOP, 2, 1),
        frame("a.py(3): f", 20, STOP, 3, 2),
        frame("a.py(9): g", 30, 40, 4, 3),
        frame("a.py(9): g, again", 50, 60, 5, 3),
        frame("<built-in method stop>", 70, STOP, 6, 3),
    )
    assert {name for name, end in found.items() if end == STOP} == {
        "main",
        "<built-in function exec>",
        "a.py(3): f",
        "<built-in method stop>",
    }


def test_an_end_that_was_recorded_is_true_even_where_a_frame_names_a_wrong_caller() -> None:
    # PyTorch: where a frame raises, the next one may name its caller's caller.
    found = ends(
        frame("main", 0, STOP, 1, None),
        frame("<built-in function any>", 10, 80, 2, 1),
        frame("a.py(3): f", 20, 70, 3, 2),
        frame("a.py(9): g", 30, 40, 4, 1),
    )
    assert (found["<built-in function any>"], found["a.py(3): f"], found["a.py(9): g"]) == (80, 70, 40)


def test_frames_without_ids_that_are_open_end_with_the_frame_around_them() -> None:
    found = ends(
        frame("main", 0, STOP, None, None), frame("step", 10, 60, None, None), frame("run", 12, STOP, None, None)
    )
    assert found == {"main": STOP, "step": 60, "run": 60}


def test_rounded_times_end_no_frame_early() -> None:
    found = ends(frame("step", 0, 60, 1, None), frame("<built-in run>", 10, 61, 2, 1), frame("f", 59, 60, 3, 1))
    assert found["<built-in run>"] == 61


def open_calls(count: int) -> list[str]:
    """Return frames of which each built-in one was left open."""
    stop = 100 * count + 100
    frames = [frame("main", 0, 100 * count, 1, None)]
    for at in range(count):
        frames.append(frame("call", 100 * at, 100 * at + 50, 2 * at + 2, 1))
        frames.append(frame("<built-in run>", 100 * at + 1, stop, 2 * at + 3, 2 * at + 2))
    return frames


def test_stacks_of_open_frames_do_not_grow() -> None:
    rows = read(events(*open_calls(200)))["host_slices"]
    assert max(row["depth"] for row in rows) == 2
    assert len({row["stack_id"] for row in rows}) == 3


@pytest.mark.check
def test_twenty_thousand_open_frames_nest_as_closed_ones() -> None:
    tables = read(events(*open_calls(20_000)))
    assert max(row["depth"] for row in tables["host_slices"]) == 2
    assert tables.defects == {}


@pytest.mark.check
@pytest.mark.parametrize("chunk_bytes", [2_000, 2**20])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_events_in_the_file_does_not_matter(chunk_bytes: int, seed: int) -> None:
    frames = open_calls(40)
    mixed = random.Random(seed).sample(frames, len(frames))

    def spans(texts: list[str]) -> list[tuple[Any, ...]]:
        rows = read(events(*texts), chunk_bytes=chunk_bytes)["host_slices"]
        return sorted((row["start_ns"], row["dur_ns"], row["name"], row["depth"], row["stack_id"]) for row in rows)

    assert spans(mixed) == spans(frames)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
def test_frames_that_lie_in_their_callers_are_as_those_that_are_looked_at_one_by_one(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chosen = random.Random(seed)
    frames = [frame("root", 0, STOP, 0, None), frame("other", 0, STOP, 100, None, tid=2)]
    for at in range(1, 9):
        end = chosen.choice((100 * at + 40, 100 * at + 90, 100 * at + 90, STOP if seed % 2 else 100 * at + 60))
        frames.append(frame(f"f{at}", 100 * at, end, 2 * at, 0))
        frames.append(frame(f"g{at}", 100 * at + 10, 100 * at + 40, 2 * at + 1, chosen.choice((2 * at, 2 * at, seed))))
    expected = read(events(*frames)).rows
    monkeypatch.setattr(host_order, "frames_lie_in_callers", lambda *_: False)
    assert read(events(*frames)).rows == expected
