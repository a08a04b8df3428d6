"""Offline GPU trace analysis: where every microsecond of GPU time went, and what fixing it can save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.version import __version__ as __version__

if TYPE_CHECKING:
    from traceanalyzer import charts
    from traceanalyzer.comparison.loading import diff
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.errors import TraceAnalyzerError
    from traceanalyzer.run import Run, open_run

    open = open_run

__all__ = ["Diagnosis", "Run", "TraceAnalyzerError", "charts", "diff", "open", "open_run"]

_MODULES = {
    "Diagnosis": "traceanalyzer.diagnosis",
    "Run": "traceanalyzer.run",
    "TraceAnalyzerError": "traceanalyzer.errors",
    "diff": "traceanalyzer.comparison.loading",
    "open_run": "traceanalyzer.run",
}


def __getattr__(name: str) -> Any:
    """Import DuckDB and Arrow only when a run is opened: `--help` needs neither."""
    from importlib import import_module

    if name == "charts":
        return import_module("traceanalyzer.charts")
    if name in __all__:
        name = "open_run" if name == "open" else name
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
