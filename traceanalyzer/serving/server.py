"""The tools over stdio, with the official SDK of the Model Context Protocol."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import duckdb
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.visible import visible
from traceanalyzer.serving.answers import MOST_CHARACTERS, Answers, bounded
from traceanalyzer.serving.folders import ServedFolders
from traceanalyzer.version import __version__

# A tool is a method of Answers and its name here; its docstring and types are what a client sees.
TOOLS = ("runs", "diagnose", "diff", "top", "sql", "metrics", "rules")
INSTRUCTIONS = (
    "Offline GPU trace analysis. Call `runs`, then `diagnose` one. Savings are upper bounds and may overlap: "
    "quote them as such. A rule that was skipped for missing data is no all-clear. "
    "Check a claim with `rules`, `top` or `sql`."
)
_READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
# Queries share limits of the process, and one analysis already uses every core.
_ONE_AT_A_TIME = threading.Lock()


def serve(folders: ServedFolders) -> None:
    """Answer a client on standard input and output until it leaves."""
    os.environ.pop("FORCE_COLOR", None)
    server: MCPServer[Any] = MCPServer(
        "traceanalyzer", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR"
    )
    answers = Answers(folders)
    for name in TOOLS:
        server.add_tool(_explaining(getattr(answers, name)), name, annotations=_READ_ONLY, structured_output=False)
    server.run("stdio")


def _explaining(tool: Callable[..., str]) -> Callable[..., str]:
    """Return a tool whose errors a client sees as the command line words them."""

    @functools.wraps(tool)
    def explained(*arguments: Any, **named: Any) -> str:
        with _ONE_AT_A_TIME:
            try:
                return tool(*arguments, **named)
            except TraceAnalyzerError as error:
                hint = f"\nhint: {visible(error.hint)}" if error.hint else ""
                raise ToolError(bounded(visible(str(error)), MOST_CHARACTERS - len(hint)) + hint) from None
            except duckdb.Error as error:
                said = visible(str(error).strip().split("\n")[0])
                raise ToolError(bounded(f"DuckDB gave up: {said}")) from None
            except (OSError, MemoryError) as error:
                raise ToolError(bounded(visible(str(error)) or "not enough memory")) from None

    return explained
