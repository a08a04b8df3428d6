"""The processes that answer the tools of `mcp`: a query that cannot be stopped ends one of them, and costs one call."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from traceanalyzer import process
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.serving import server
from traceanalyzer.serving.answers import Answers, served_folders
from traceanalyzer.serving.server import ToolFailedError, Worker

pytestmark = pytest.mark.check  # processes start


class Stubborn(Answers):
    """Answers of which one never comes."""

    def sql(self, run: str, query: str, limit: int = 100) -> str:
        """Run a query in which DuckDB looks for no interruption."""
        import duckdb

        def slow(x: int) -> int:
            time.sleep(60 * x)
            return x

        process.STUCK_AFTER_S = 0.2
        con = duckdb.connect()
        con.create_function("slow", slow)
        con.execute("SELECT slow(0)")  # so that the limit meets the sleep
        return str(sandbox.query(con, query, {}, timeout_s=float(run)))

    def runs(self) -> str:
        """Return which process answers."""
        return str(os.getpid())

    def top(self, *_: object, **__: object) -> str:
        """Fail as a program with a mistake does."""
        raise ZeroDivisionError

    def rules(self, *_: object, **__: object) -> str:
        """Fail as a caller's mistake does."""
        raise TraceAnalyzerError("no such rule", "x", "look there")

    def metrics(self, name: str | None = None) -> str:
        """End the process."""
        os._exit(9)


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(Stubborn(served_folders([tmp_path])))


def test_a_query_that_cannot_be_stopped_costs_one_call(worker: Worker) -> None:
    first = worker.answer("runs", {})
    assert first != str(os.getpid())
    assert worker.answer("runs", {}) == first
    with pytest.raises(ToolFailedError, match="could not be stopped"):
        worker.answer("sql", {"run": "1", "query": "SELECT slow(1)"})
    assert worker.answer("runs", {}) not in (first, str(os.getpid()))


def test_mistakes_and_crashes_are_answers(worker: Worker) -> None:
    with pytest.raises(ToolFailedError, match="internal error: ZeroDivisionError"):
        worker.answer("top", {})
    with pytest.raises(ToolFailedError, match="x: no such rule\nhint: look there"):
        worker.answer("rules", {})
    with pytest.raises(ToolFailedError, match="exit code 9"):
        worker.answer("metrics", {})


def test_other_calls_are_answered_while_a_query_runs(worker: Worker) -> None:
    other = Worker(worker._answers)
    other.answer("runs", {})
    failed = []

    def ask() -> None:
        try:
            worker.answer("sql", {"run": "8", "query": "SELECT slow(1)"})
        except ToolFailedError as error:
            failed.append(str(error))

    query = threading.Thread(target=ask)
    query.start()
    assert other.answer("runs", {})
    assert query.is_alive()
    query.join()
    assert failed == [server._ENDED[server._STUCK]]
