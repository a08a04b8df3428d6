"""Starts the command line: `traceanalyzer` and `python -m traceanalyzer`."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress

# HTA, with which this command compares, needs pandas.
_WITH_PANDAS = "crosscheck"
# As in malloc.h of glibc.
_M_ARENA_MAX = -8


def _keep_stream_numbers() -> None:
    """Occupy the numbers of standard streams that the caller closed: nothing else may be opened as one of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the smallest number that is free


def _fit_into_limited_memory() -> None:
    """Take less address space where the caller limits it, and load now what a full one would have no room for."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    import ctypes

    # Arrow's own allocator reserves space ahead.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with suppress(OSError, AttributeError):  # other systems have other libraries
        # glibc ends a thread with this library, and aborts where it cannot load it.
        ctypes.CDLL("libgcc_s.so.1")
        # glibc reserves 64 MB for each of up to eight arenas a core.
        ctypes.CDLL("libc.so.6").mallopt(_M_ARENA_MAX, 2)


def start() -> None:
    """Run the command line and leave with its exit code."""
    _keep_stream_numbers()
    _fit_into_limited_memory()
    if _WITH_PANDAS not in sys.argv[1:]:
        from traceanalyzer.without_pandas import hide_pandas

        hide_pandas()
    from traceanalyzer.unfinished import interrupted, leave_on_signals

    try:
        leave_on_signals()
        from traceanalyzer.cli import main

        code = main()
    except KeyboardInterrupt:
        code = interrupted()
    sys.exit(code)


if __name__ == "__main__":
    start()
