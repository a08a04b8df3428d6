"""What the command line says where it cannot go on: hints that help, and files without an end."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from traceanalyzer import cli
from traceanalyzer.cli import main
from traceanalyzer.commands import sql
from traceanalyzer.comparison import summary
from traceanalyzer.errors import TraceAnalyzerError


@pytest.mark.parametrize(
    ("error", "arguments", "hint"),
    [
        (duckdb.OutOfRangeException("Overflow in addition"), [], "this is a bug"),
        (duckdb.OutOfMemoryException("no room"), [], "use fewer --jobs"),
        (duckdb.OutOfMemoryException("no room"), ["--jobs", "1"], "use a machine with more memory"),
        (duckdb.OutOfMemoryException("no room"), ["--jobs=1"], "use a machine with more memory"),
        (RuntimeError("can't start new thread"), ["--jobs", "2"], "use fewer --jobs"),
        (RuntimeError("can't start new thread"), ["--jobs", "1"], "use a machine with more memory"),
    ],
)
def test_hints_help(error: Exception, arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._unforeseen(error, arguments) == 2
    assert f"hint: {hint}" in capsys.readouterr().err


def test_queries_and_summaries_without_an_end_are_not_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sql, "MOST_CHARACTERS", 1000)
    monkeypatch.setattr(summary, "MAX_FILE_BYTES", 1000)
    with pytest.raises(TraceAnalyzerError, match="longer than 1,000 characters"):
        sql._query(None, Path("/dev/zero"))
    assert main(["export", "baseline", "/dev/zero"]) == 2
    assert "larger than 1,000 bytes" in capsys.readouterr().err


def test_a_query_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_bytes(b"SELECT '\xff'")
    with pytest.raises(TraceAnalyzerError, match="no text in UTF-8"):
        sql._query(None, tmp_path / "query.sql")
