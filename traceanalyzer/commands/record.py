"""`traceanalyzer record`: how to record a trace with the data that every rule needs."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from traceanalyzer.errors import TraceAnalyzerError, suggestion

DEFAULT_FOLDER = "runs/run42"
PROFILERS = ("torch", "nsys", "ncu", "dynolog", "jax", "tensorflow", "torch_xla", "rocprof")
_IN_PYTHON = ("torch", "jax", "tensorflow", "torch_xla")
_FOLDER_MARK = "@FOLDER@"
# One text file a profiler, ready to paste.
_RECIPES = Path(__file__).parents[1] / "recording"


@click.command()
@click.argument("profiler", type=click.Choice(PROFILERS), metavar="PROFILER")
@click.option(
    "--into", "folder", default=DEFAULT_FOLDER, show_default=True, metavar="FOLDER", help="Folder for the traces."
)
def record(profiler: str, folder: str) -> None:
    """Print the code or the commands that record a trace with the data that every rule needs.

    PROFILER is torch, nsys, ncu, dynolog, jax, tensorflow, torch_xla or rocprof.
    Nothing is run or written: paste what is printed into the program, or into a shell.
    """
    click.echo(recipe(profiler, folder), nl=False)


def recipe(profiler: str, folder: str = DEFAULT_FOLDER) -> str:
    """Return the code or commands that record a run into a folder; raise TraceAnalyzerError for other profilers."""
    if profiler not in PROFILERS:
        raise TraceAnalyzerError(
            "no such profiler", profiler, suggestion(profiler, PROFILERS, "there are " + ", ".join(PROFILERS))
        )
    text = (_RECIPES / f"{profiler}.txt").read_text(encoding="utf-8")
    return text.replace(_FOLDER_MARK, repr(folder) if profiler in _IN_PYTHON else shlex.quote(folder))
