"""How to record a trace with the data that every rule needs: one text file a profiler, ready to paste."""

from __future__ import annotations

import shlex
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError, suggestion

DEFAULT_FOLDER = "runs/run42"
PROFILERS = ("torch", "nsys", "ncu", "dynolog", "jax", "tensorflow", "torch_xla", "rocprof")
_IN_PYTHON = ("torch", "jax", "tensorflow", "torch_xla")
_FOLDER_MARK = "@FOLDER@"


def recipe(profiler: str, folder: str = DEFAULT_FOLDER) -> str:
    """Return the code or commands that record a run into a folder; raise TraceAnalyzerError for other profilers."""
    if profiler not in PROFILERS:
        raise TraceAnalyzerError(
            "no such profiler", profiler, suggestion(profiler, PROFILERS, "there are " + ", ".join(PROFILERS))
        )
    text = (Path(__file__).parent / f"{profiler}.txt").read_text(encoding="utf-8")
    return text.replace(_FOLDER_MARK, repr(folder) if profiler in _IN_PYTHON else shlex.quote(folder))
