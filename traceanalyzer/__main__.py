"""Starts the command line: `traceanalyzer` and `python -m traceanalyzer`."""

from __future__ import annotations

import gc
import os
import sys

from traceanalyzer.process import fit_into_limited_memory

_OBJECTS_BETWEEN_LOOKS = 1_000_000
_STUCK = (
    "error: query: it reached its time limit and cannot be stopped\n"
    "hint: make it cheaper; where a rule asks it, -v names rules that are not built in, which can be switched off\n"
)


def _keep_stream_numbers() -> None:
    """Occupy the numbers of standard streams that the caller closed: nothing else may be opened as one of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the smallest number that is free


def start() -> None:
    """Run the command line and leave with its exit code."""
    _keep_stream_numbers()
    # No matrices are multiplied here: NumPy's threads for that would only spin for a while when they start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    fit_into_limited_memory()
    # Next to nothing here refers to itself: looking for that as often as by default takes a small diagnosis 0.2 s.
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
    from traceanalyzer.errors import EXIT_ERROR
    from traceanalyzer.process import end_process_when_stuck, hide_pandas, interrupted, leave_on_signals

    hide_pandas()
    end_process_when_stuck(_STUCK, EXIT_ERROR)

    try:
        leave_on_signals()
        from traceanalyzer.cli import main

        code = main()
    except KeyboardInterrupt:
        code = interrupted()
    gc.freeze()  # what ends is not looked through once more for what refers to itself
    sys.exit(code)


if __name__ == "__main__":
    start()
