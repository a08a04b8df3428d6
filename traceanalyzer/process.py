"""Files, folders and programs that are not finished yet: they go when the command ends, also when a signal ends it.

Libraries may be busy for minutes in a call that Python cannot end, on any thread. So a thread of its own waits for
signals, gives the command a moment to end by itself, and then removes what is unfinished and ends the process.

Spares a process of ours the import of pandas.

Commands whose caller limits their address space, as `ulimit -v` does: they take less, and say when it is too little.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from pathlib import Path

from traceanalyzer.errors import EXIT_ERROR


class _PandasIsAbsent(MetaPathFinder):
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


# What a shell reports for a program that a signal ended is this and the signal's number.
SIGNAL_EXIT = 128
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
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


def _interrupt(number: int, frame: object) -> None:
    _met.append(number)
    raise KeyboardInterrupt


def _await_signal(reading: socket.socket, writing: socket.socket) -> None:
    numbers = {int(number) for number in _SIGNALS}
    while not (received := reading.recv(1)) or received[0] not in numbers:
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
