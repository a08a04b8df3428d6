"""Files, folders, programs and queries that are not finished yet: what ends them, and what they may take.

They go when the command ends, also when a signal ends it. Libraries may be busy for minutes in a call that Python
cannot end, on any thread. So a thread of its own waits for signals, gives the command a moment to end by itself, and
then removes what is unfinished and ends the process. One thread watches the clock for all queries: starting one costs
more than a query.

Where the caller limits the address space, as `ulimit -v` does, a command takes less, and says when that is too little.
"""

from __future__ import annotations

import atexit
import itertools
import math
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from traceanalyzer.errors import EXIT_ERROR, TraceAnalyzerError

if TYPE_CHECKING:
    import duckdb


class _PandasIsAbsent:
    """Makes `import pandas` fail, as if pandas were not installed.

    Arrow and the SQLite driver import pandas only to ask whether a value is one of its objects, and no value here is.
    The import would happen while traces are ingested. On sample_traces/slow_loader (medians of 10 interleaved runs) the
    first `ingest` takes 1.13 s of CPU time instead of 1.38 s, the first `diagnose` 2.23 s instead of 2.45 s. A command
    on a stored run does not import pandas with or without this hook.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("traceanalyzer does not use it", name=fullname)


def hide_pandas() -> None:
    """Make `import pandas` fail from now on; only for processes that run nothing but traceanalyzer."""
    sys.meta_path.insert(0, _PandasIsAbsent())


# As in malloc.h of glibc and in prctl.h of Linux.
_M_ARENA_MAX = -8
_PR_SET_PDEATHSIG = 1
# How libraries end a process that has no memory left; glibc exits with 127.
_ENDS_WITHOUT_MEMORY = (127, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGTRAP)


def fit_into_limited_memory() -> None:
    """Where address space is limited, take less, load now what needs room later, and go on in a child."""
    limit_bytes = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit_bytes == resource.RLIM_INFINITY:
        return
    import ctypes

    # Arrow's own allocator reserves space ahead.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    _go_on_in_a_child(limit_bytes)
    with suppress(OSError, AttributeError):  # other systems have other libraries
        # glibc ends a thread with this library, and aborts where it cannot load it.
        ctypes.CDLL("libgcc_s.so.1")
        libc = ctypes.CDLL("libc.so.6")
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # glibc reserves 64 MB for each of up to eight arenas a core.
        libc.mallopt(_M_ARENA_MAX, 2)


def _go_on_in_a_child(limit_bytes: int) -> None:
    """Return in a child; this process waits for it, says what a library could not, and ends as the child did."""
    child = os.fork()
    if not child:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts both
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(child, received))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code in _ENDS_WITHOUT_MEMORY:
        sys.stderr.write(
            f"error: not enough memory: address space is limited to {limit_bytes / 1e6:,.0f} MB\n"
            "  hint: use fewer --jobs, or raise the limit (ulimit -v)\n"
        )
        sys.stderr.flush()
        code = EXIT_ERROR
    os._exit(code if code >= 0 else 128 - code)


# Smaller runs need little memory, and giving it back early would take a tenth of their time.
_LARGE_BYTES = 16 << 20
_FREED_IS_KEPT = "background_thread:true,dirty_decay_ms:10,muzzy_decay_ms:0"


def keep_little_memory(run_bytes: int) -> None:
    """Have DuckDB give memory back 10 ms after it was freed, not 10 s, for a large run; call before it is loaded."""
    if run_bytes >= _LARGE_BYTES:
        os.environ.setdefault("DUCKDB_JE_MALLOC_CONF", _FREED_IS_KEPT)


def give_memory_back() -> None:
    """Give what Arrow and the C library keep for their next use back to the system, where a run is large."""
    if "DUCKDB_JE_MALLOC_CONF" not in os.environ:
        return
    import ctypes

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # other systems have other libraries
        ctypes.CDLL("libc.so.6").malloc_trim(0)


# What a shell reports for a program that a signal ended is this and the signal's number.
SIGNAL_EXIT = 128
_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
# Long enough for Python code to end by itself, and soon enough for somebody who waits.
_GRACE_S = 0.4
_STANDARD_ERROR = 2
# Threads that still write may put files into a folder while it is removed.
_ATTEMPTS = 20

_unfinished: set[Path] = set()
_children: set[subprocess.Popen[str]] = set()
_lock = threading.Lock()
_met: list[int] = []
_ending = threading.Event()
_said = threading.Event()


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Have a file or folder removed where a signal ends the process before the block is left."""
    with _lock:
        _unfinished.add(path)
    try:
        yield path
    finally:
        with _lock:
            _unfinished.discard(path)


@contextmanager
def started_program(arguments: Sequence[str], errors_to: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    """Start another program, and wait for its end behind the block.

    Where a signal ends the process, or the block is left early, all that the program started ends with it.
    """
    with subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors_to,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as child:
        try:
            with _lock:
                if _ending.is_set():
                    raise KeyboardInterrupt
                _children.add(child)
            yield child
            child.wait()
        except BaseException:
            _end(child)
            raise
        finally:
            with _lock:
                _children.discard(child)


def run_program(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run another program and return what it said."""
    with started_program(arguments, errors_to=subprocess.PIPE) as child:
        out, said = child.communicate()
    return subprocess.CompletedProcess(arguments, child.returncode, out, said)


def interrupted() -> int:
    """Say that the command was interrupted, and return its exit code: that of the signal, SIGINT without one."""
    if not _said.is_set():
        _said.set()
        with suppress(OSError, ValueError):
            sys.stderr.write("interrupted\n")
            sys.stderr.flush()
    return SIGNAL_EXIT + (_met[0] if _met else signal.SIGINT)


def leave_on_signals() -> None:
    """Let signals that ask to end end this process within a second; those that the caller ignores stay ignored."""
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_await_signal, args=(reading, writing), name="signals", daemon=True).start()


def stay_on_interrupt() -> None:
    """Let Ctrl-C end nothing but what raises KeyboardInterrupt then, as at a prompt."""
    if signal.getsignal(signal.SIGINT) is _interrupt:
        _SIGNALS.discard(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: object) -> None:
    _met.append(number)
    raise KeyboardInterrupt


def _await_signal(reading: socket.socket, writing: socket.socket) -> None:
    while not (received := reading.recv(1)) or received[0] not in _SIGNALS:
        pass
    with _lock:
        _ending.set()
        for child in _children:
            _end(child)
    time.sleep(_GRACE_S)
    for _ in range(_ATTEMPTS):
        with _lock:
            left = [path for path in _unfinished if os.path.lexists(path)]
        if not left:
            break
        for path in left:
            _remove(path)
    writing.close()
    if not _said.is_set():
        with suppress(OSError):
            os.write(_STANDARD_ERROR, b"interrupted\n")  # another thread may hold the stream
    os._exit(SIGNAL_EXIT + received[0])


def _end(child: subprocess.Popen[str]) -> None:
    """End a program and all that it started."""
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def dicts_of(result: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Return the rows of a query that was executed, by the names of its columns."""
    columns = [column[0] for column in result.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]


def query_error(message: str) -> TraceAnalyzerError:
    """Return DuckDB's error as what, where and hint, with the place in the query and DuckDB's own suggestion."""
    body, _, excerpt = message.partition("\n\nLINE ")
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    what = lines[0] if lines else "the query failed"
    suggestions = [line for line in lines[1:] if line.startswith(("Did you mean", "Candidate bindings", "HINT"))]
    place = f"\nline {excerpt}".replace("\n", "\n    ") if excerpt else ""
    hint = " ".join(suggestions) or "`traceanalyzer metrics list` lists what can be queried"
    return TraceAnalyzerError(what + place.rstrip(), "query", hint)


# How late an interruption may come; nothing wakes up more often than this while a query runs.
_TICK_S = 0.05
# DuckDB looks for an interruption between pieces of work, and what is constant in a query is one piece, worked out
# while the query is planned. So much later the query counts as one that cannot be stopped.
STUCK_AFTER_S = 30.0


class Interruptible(Protocol):
    """A connection whose running query can be stopped from another thread."""

    def interrupt(self) -> None:
        """Stop the query that runs on it."""


@contextmanager
def interrupted_after(timeout_s: float, con: Interruptible) -> Iterator[None]:
    """Interrupt the connection where the body takes longer by the clock, however busy the machine is."""
    if timeout_s == math.inf:
        yield
        return
    key = _WATCH.add(con, time.monotonic() + timeout_s)
    try:
        yield
    finally:
        _WATCH.remove(key)


def end_process_when_stuck(message: str, code: int) -> None:
    """End this process, with a message on standard error, once a query cannot be stopped: for programs of our own."""

    def end() -> None:
        # The thread that runs the query may hold the lock of the stream.
        os.write(2, message.encode())
        os._exit(code)

    _WATCH.when_stuck = end


# The limit is the process's: of queries that run at once, the first sets it and sets it back.
_LIMITING_MEMORY = threading.Lock()


@contextmanager
def memory_within(size_bytes: float) -> Iterator[None]:
    """Refuse the process more than this much new memory during the body, where the system can: on Linux.

    DuckDB's own limit leaves out what a function makes of one batch of rows: two thousand texts of 100 MB each.
    """
    if sys.platform != "linux" or size_bytes == math.inf or not _LIMITING_MEMORY.acquire(blocking=False):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    data_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    limit_bytes = data_pages * resource.getpagesize() + int(size_bytes)
    try:
        if all(limit == resource.RLIM_INFINITY or limit > limit_bytes for limit in (soft, hard)):
            resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        _LIMITING_MEMORY.release()


class _Watch:
    """The deadlines of the queries that run now; its thread starts with the first and ends with the program."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[Interruptible, float]] = {}
        self._keys = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_idle = False
        self._ended = False
        self.when_stuck: Callable[[], None] | None = None

    def add(self, con: Interruptible, deadline_s: float) -> int:
        key = next(self._keys)
        with self._changed:
            self._running[key] = con, deadline_s
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="rule query watch", daemon=True)
                self._thread.start()
                # A thread that is cut off keeps alive what DuckDB then complains about.
                atexit.register(self._end)
            elif self._is_idle:
                self._changed.notify()
        return key

    def remove(self, key: int) -> None:
        with self._changed:
            del self._running[key]

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        with self._changed:
            while not self._ended:
                self._is_idle = not self._running
                self._changed.wait(None if self._is_idle else _TICK_S)
                now_s = time.monotonic()
                # Again at each tick: DuckDB forgets an interruption that meets no running query.
                for con, deadline_s in self._running.values():
                    if now_s >= deadline_s:
                        con.interrupt()
                    if now_s >= deadline_s + STUCK_AFTER_S and self.when_stuck is not None:
                        self.when_stuck()


_WATCH = _Watch()
