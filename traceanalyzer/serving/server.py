"""The tools over stdio, with the official SDK of the Model Context Protocol.

Worker processes answer those that read runs: a query that cannot be stopped ends its process, and no other.
"""

from __future__ import annotations

import functools
import inspect
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import duckdb
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.process import end_process_when_stuck, hide_pandas
from traceanalyzer.serving.answers import MOST_CHARACTERS, Answers, ServedFolders, bounded
from traceanalyzer.text.visible import visible
from traceanalyzer.version import __version__

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess


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


# Not forked: threads of the server may hold locks.
_CONTEXT = multiprocessing.get_context("spawn")
_STUCK = 3  # exit code
_ENDED = {
    _STUCK: "limit reached: the query took too long, and could not be stopped\nhint: make the query cheaper",
    -signal.SIGKILL: "the work was killed: not enough memory?",
}


class ToolFailedError(Exception):
    """What a client is to read of a call that has no answer."""


class Worker:
    """A process that answers one call after the other, started by the first; another one follows where it ended."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        # Queries share limits of their process, and one analysis already uses every core.
        self._one_at_a_time = threading.Lock()
        self._process: BaseProcess | None = None
        self._calls: Connection | None = None

    def answer(self, tool: str, named: Mapping[str, Any]) -> str:
        """Return what a method of Answers returns; raises ToolFailedError where it raises."""
        with self._one_at_a_time:
            calls = self._started()
            try:
                calls.send((tool, dict(named)))
                is_answer, text = calls.recv()
            except (EOFError, OSError):
                raise ToolFailedError(self._end()) from None
        if not is_answer:
            raise ToolFailedError(text)
        return str(text)

    def _started(self) -> Connection:
        if self._process is None or self._calls is None or not self._process.is_alive():
            self._calls, theirs = _CONTEXT.Pipe()
            self._process = _CONTEXT.Process(target=_work, args=(theirs, self._answers), daemon=True)
            self._process.start()
            theirs.close()
        return self._calls

    def _end(self) -> str:
        """Return why the process ended."""
        process, self._process = self._process, None
        if process is None:
            return "the work ended"
        process.join()
        return _ENDED.get(process.exitcode or 0, f"the work ended unexpectedly (exit code {process.exitcode})")


def explained(tool: str, answers: Answers, named: Mapping[str, Any]) -> str:
    """Return the answer to a call; raises ToolFailedError with what the command line would say."""
    try:
        return str(getattr(answers, tool)(**named))
    except TraceAnalyzerError as error:
        hint = f"\nhint: {visible(error.hint)}" if error.hint else ""
        raise ToolFailedError(bounded(visible(str(error)), MOST_CHARACTERS - len(hint)) + hint) from None
    except duckdb.Error as error:
        said = visible(str(error).strip().split("\n")[0])
        raise ToolFailedError(bounded(f"DuckDB gave up: {said}")) from None
    except (OSError, MemoryError) as error:
        raise ToolFailedError(bounded(visible(str(error)) or "not enough memory")) from None


def _work(calls: Connection, answers: Answers) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts the server, too, which ends this process
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # the server's answers go there
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    end_process_when_stuck("", _STUCK)
    hide_pandas()
    while True:
        try:
            tool, named = calls.recv()
        except EOFError:
            return
        try:
            answer = True, explained(tool, answers, named)
        except ToolFailedError as error:
            answer = False, str(error)
        except Exception as error:
            answer = False, f"internal error: {type(error).__name__}: {visible(str(error))}"
        calls.send(answer)


def _end_with_the_server() -> None:
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
    os._exit(0)
