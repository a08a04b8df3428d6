"""`traceanalyzer record`: how to record a trace with the data that every rule needs."""

from __future__ import annotations

import click

from traceanalyzer.recording import DEFAULT_FOLDER, PROFILERS, recipe


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
