"""How to record a trace with the data that every rule needs: one text file a profiler, ready to paste."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.diagnosis import TraceSummary
from traceanalyzer.errors import TraceAnalyzerError, suggestion

DEFAULT_FOLDER = "runs/run42"
PROFILERS = ("torch", "nsys", "ncu", "dynolog", "jax", "tensorflow", "torch_xla", "rocprof")
_IN_PYTHON = ("torch", "jax", "tensorflow", "torch_xla")
_FOLDER_MARK = "@FOLDER@"
# By traces.recorder. What any other program writes has no options that are known here.
_BY_RECORDER = {
    "kineto": "torch",
    "nsys": "nsys",
    "jax": "jax",
    "tensorflow": "tensorflow",
    "torch_xla": "torch_xla",
    "rocprof": "rocprof",
}


def recipe(profiler: str, folder: str = DEFAULT_FOLDER) -> str:
    """Return the code or commands that record a run into a folder; raise TraceAnalyzerError for other profilers."""
    if profiler not in PROFILERS:
        raise TraceAnalyzerError(
            "no such profiler", profiler, suggestion(profiler, PROFILERS, "there are " + ", ".join(PROFILERS))
        )
    text = (Path(__file__).parent / f"{profiler}.txt").read_text(encoding="utf-8")
    return text.replace(_FOLDER_MARK, repr(folder) if profiler in _IN_PYTHON else shlex.quote(folder))


def profiler_of(traces: Sequence[TraceSummary]) -> str | None:
    """Return the profiler whose recipe records traces like these; None: what recorded them has none."""
    return next((known for trace in traces if (known := _BY_RECORDER.get(trace.recorder or ""))), None)
