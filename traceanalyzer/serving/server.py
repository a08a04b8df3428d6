"""The tools over stdio, with the official SDK of the Model Context Protocol."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from traceanalyzer.serving.answers import Answers, ServedFolders
from traceanalyzer.serving.workers import ToolFailedError, Worker, explained
from traceanalyzer.version import __version__

# A tool is a method of Answers and its name here; its docstring and types are what a client sees.
TOOLS = ("runs", "diagnose", "diff", "top", "sql", "metrics", "rules")
INSTRUCTIONS = (
    "Offline GPU trace analysis. Call `runs`, then `diagnose` one. Savings are upper bounds and may overlap: "
    "quote them as such. A rule that was skipped for missing data is no all-clear. "
    "Check a claim with `rules`, `top` or `sql`."
)
_READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
# Of the others, these answer at once where they name no run.
_WITHOUT_RUN = ("runs", "metrics", "rules")


def serve(folders: ServedFolders) -> None:
    """Answer a client on standard input and output until it leaves.

    One process answers queries, and one reads runs for all other tools, so that none waits for a long query.
    """
    os.environ.pop("FORCE_COLOR", None)
    server: MCPServer[Any] = MCPServer(
        "traceanalyzer", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR"
    )
    answers = Answers(folders)
    queries, others = Worker(answers), Worker(answers)
    for name in TOOLS:
        tool = _tool(name, answers, queries if name == "sql" else others)
        server.add_tool(tool, name, annotations=_READ_ONLY, structured_output=False)
    server.run("stdio")


def _tool(name: str, answers: Answers, worker: Worker) -> Callable[..., str]:
    """Return a tool whose errors a client sees as the command line words them."""
    method = getattr(answers, name)

    @functools.wraps(method)
    def tool(*arguments: Any, **named: Any) -> str:
        named |= dict(zip(inspect.signature(method).parameters, arguments, strict=False))
        try:
            if name in _WITHOUT_RUN and named.get("run") is None:
                return explained(name, answers, named)
            return worker.answer(name, named)
        except ToolFailedError as error:
            raise ToolError(str(error)) from None

    return tool
