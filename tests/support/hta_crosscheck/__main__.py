"""Prints our numbers of a run beside HTA's: `PYTHONPATH=tests/support python -m hta_crosscheck RUN`."""

from __future__ import annotations

import sys

import traceanalyzer
from hta_crosscheck import crosscheck, page, require_hta
from traceanalyzer.report import formats

if __name__ == "__main__":
    require_hta()
    with traceanalyzer.open(sys.argv[1]) as opened:
        formats.render(page.sections(crosscheck(opened)), "terminal", sys.stdout)
