"""Ends of Python frames that the profiler left open until it stopped, as PyTorch did before August 2026.

https://github.com/pytorch/pytorch/issues/193440
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

# Old profilers cut starts and durations to whole microseconds: frames may overlap by so much.
ROUNDING_NS = 2_000

# event_id, pid, tid, frame_id, caller_id, start_ns, end_ns, stop_ns, is_built_in
FrameRow: TypeAlias = tuple[int, str | None, str | None, int | None, int | None, int, int, int, bool]


@dataclass
class _Frame:
    """A frame of a stack; `is_open` where its record does not say when it ended."""

    event_id: int
    frame_id: int | None
    caller_id: int | None
    start_ns: int
    end_ns: int
    recorded_end_ns: int
    is_open: bool = False

    def outlasts(self, other: _Frame) -> bool:
        """Return whether the frame is recorded as running clearly longer than another one."""
        return self.end_ns > other.end_ns + ROUNDING_NS

    def ends_with(self, other: _Frame) -> bool:
        """Return whether the frame ends no earlier than another one, as far as sums of microseconds in doubles tell."""
        return self.end_ns + 2_000 * math.ulp(self.end_ns / 1_000) >= other.end_ns

    def end_by(self, time_ns: int) -> None:
        """End the frame at a time, if it is recorded as running clearly longer."""
        if self.end_ns > time_ns + ROUNDING_NS:
            self.end_ns = max(time_ns, self.start_ns)


class FrameEnds:
    """Ends open frames with the frame around them, and before the next call of their caller; holds one stack of frames.

    Open are frames that outlast their caller, built-in ones that end with it or with the recording, and without ids all
    that end with the recording. The ends of others are true even where another frame says that it was called elsewhere:
    PyTorch names a wrong caller now and then.
    """

    def __init__(self) -> None:
        self._thread: tuple[str | None, str | None] | None = None
        self._stack: list[_Frame] = []
        # Places in the stack, by the id of the frame, and of its caller where that is not in the stack.
        self._frames: dict[int, int] = {}
        self._called_by: dict[int, int] = {}
        self._ended_ids = array("q")
        self._durations = array("q")

    def feed(self, rows: Iterable[FrameRow]) -> None:
        """Take further frames: by thread, in the order in which it entered them."""
        for event_id, pid, tid, frame_id, caller_id, start_ns, end_ns, stop_ns, is_built_in in rows:
            if (pid, tid) != self._thread:
                self._leave(0)
                self._thread = (pid, tid)
            while self._stack and self._stack[-1].end_ns <= start_ns:
                self._leave(len(self._stack) - 1)
            frame = _Frame(event_id, frame_id, caller_id, start_ns, end_ns, end_ns)
            self._enter(frame, end_ns + ROUNDING_NS >= stop_ns, is_built_in)

    def ended(self) -> pa.Table:
        """Return the frames that end before their record says so, with their durations, once all frames were fed."""
        self._leave(0)
        columns = {"event_id": self._ended_ids, "dur_ns": self._durations}
        return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})

    def _enter(self, frame: _Frame, ends_at_stop: bool, is_built_in: bool) -> None:
        if frame.frame_id is None:
            frame.is_open = ends_at_stop
        else:
            caller = self._return_to_caller(frame)
            ends_with_caller = caller is not None and frame.ends_with(caller)
            frame.is_open = is_built_in and (ends_at_stop or ends_with_caller)
            frame.is_open |= caller is not None and frame.outlasts(caller)
            self._frames[frame.frame_id] = len(self._stack)
        if frame.is_open and self._stack:
            frame.end_by(self._stack[-1].end_ns)
        self._stack.append(frame)

    def _return_to_caller(self, frame: _Frame) -> _Frame | None:
        """End open frames that a frame's caller called before; None: the caller is not in the stack."""
        if frame.caller_id is None:
            self._end_open_frames(0, frame.start_ns)
            return None
        place = self._frames.get(frame.caller_id)
        if place is not None:
            self._end_open_frames(place + 1, frame.start_ns)
            return self._stack[place]
        self._end_open_frames(self._called_by.get(frame.caller_id, len(self._stack)), frame.start_ns)
        self._called_by[frame.caller_id] = len(self._stack)
        return None

    def _end_open_frames(self, depth: int, time_ns: int) -> None:
        """End the open frames at the end of the stack, down to a depth; those around one that runs are running."""
        while len(self._stack) > depth and self._stack[-1].is_open:
            self._stack[-1].end_by(time_ns)
            self._leave(len(self._stack) - 1)

    def _leave(self, depth: int) -> None:
        while len(self._stack) > depth:
            frame = self._stack.pop()
            if frame.frame_id is not None:
                self._frames.pop(frame.frame_id, None)
            if frame.caller_id is not None:
                self._called_by.pop(frame.caller_id, None)
            if frame.end_ns < frame.recorded_end_ns:
                self._ended_ids.append(frame.event_id)
                self._durations.append(frame.end_ns - frame.start_ns)
