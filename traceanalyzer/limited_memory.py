"""Commands whose caller limits their address space, as `ulimit -v` does: they take less, and say when it is too little.

Libraries end their process at once where they get no memory, and nothing in it can say why. So a child does the work.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress

from traceanalyzer.errors import EXIT_ERROR

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
