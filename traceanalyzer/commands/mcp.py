"""`traceanalyzer mcp`: tools for assistants over the Model Context Protocol."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from traceanalyzer.errors import TraceAnalyzerError


@click.command()
@click.argument("folder", nargs=-1, required=True, type=click.Path(path_type=Path))
def mcp(folder: tuple[Path, ...]) -> None:
    """Serve diagnoses and queries of the runs in FOLDER to an assistant (MCP over stdio); needs the extra `mcp`.

    Read-only: no run outside the folders is read, no link out of them is followed, queries cannot read files, and
    computed tables are kept in your cache. A client starts it itself; its settings have a line such as:

    \b
    {"command": "traceanalyzer", "args": ["mcp", "/data/runs"]}
    """
    from traceanalyzer.serving.answers import served_folders

    served = served_folders(folder)
    if find_spec("mcp") is None:
        raise TraceAnalyzerError("the extra `mcp` is not installed", "mcp", "pip install 'gpu-traceanalyzer[mcp]'")
    from traceanalyzer.serving.server import serve

    serve(served)
