"""One trace on the command's whole way, which must end in a result or in one sentence."""

from __future__ import annotations

import io
import signal
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from traceanalyzer.cli import main

# Far above what any small trace takes on a busy machine.
LONGEST_S = 120
SAYS_WHAT_IS_WRONG = 2
BLOCKED = 3  # the trace is read, and what it holds is not worth a diagnosis


class TooLong(Exception):
    """The command did not end in time."""


def fault_of(data: bytes, name: str, *, whole: bool, is_readable: bool = False) -> str | None:
    """Return what is wrong about how `diagnose` (or, unless `whole`, `ingest`) takes a file; None: nothing.

    Of a file that `is_readable` even one sentence is wrong: it costs the whole file.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        arguments = ["diagnose", str(path), "--format", "json"] if whole else ["ingest", str(path)]
        out, said = io.StringIO(), io.StringIO()
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(LONGEST_S)
        try:
            with redirect_stdout(out), redirect_stderr(said):
                code = main([*arguments, "--store", str(Path(folder) / "store"), "--jobs", "1"])
        except TooLong:
            return f"no end within {LONGEST_S} s"
        finally:
            signal.alarm(0)
        words = said.getvalue()
    if code in (0, BLOCKED):
        return None
    if is_readable:
        return f"a value costs the file: exit {code}: {words or 'no word'}"
    if code != SAYS_WHAT_IS_WRONG or not words.startswith("error: "):
        return f"exit {code}: {words or 'no word'}"
    if any(word in words for word in ("internal error", "DuckDB gave up", "Traceback", "not enough memory")):
        return words
    return None


def _too_long(number: int, frame: object) -> None:
    raise TooLong
