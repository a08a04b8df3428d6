"""Starts the command line: `traceanalyzer` and `python -m traceanalyzer`."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

# Compares with a peer that works on pandas.
_WITH_PANDAS = "crosscheck"


class _PandasIsAbsent(MetaPathFinder):
    """Answers that pandas is not installed.

    Arrow imports it, for a third of a second, only to ask whether a value is one of its objects: none is here.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not used by the command line", name=fullname)


def start() -> None:
    """Run the command line and leave with its exit code."""
    if _WITH_PANDAS not in sys.argv[1:]:
        sys.meta_path.insert(0, _PandasIsAbsent())
    from traceanalyzer.cli import main

    sys.exit(main())


if __name__ == "__main__":
    start()
