"""Offline GPU trace analysis: where every microsecond of GPU time went, and what fixing it can win."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceanalyzer.comparison.loading import diff
    from traceanalyzer.run import Run, open_run

    open = open_run

__all__ = ["Run", "diff", "open", "open_run"]
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """Import DuckDB and Arrow only when a run is opened: `--help` needs neither."""
    if name == "diff":
        from traceanalyzer.comparison.loading import diff

        return diff
    if name in __all__:
        from traceanalyzer import run

        return run.Run if name == "Run" else run.open_run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
