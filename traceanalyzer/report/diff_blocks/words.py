"""Changes as people read them."""

from __future__ import annotations

from traceanalyzer.comparison.comparing import Diff
from traceanalyzer.report.words import duration, percent

BAR_CELLS = 10


def change(share: float) -> str:
    """Say a change of a share: `−21.6 %`, `+0.4 %`."""
    if abs(share) < 0.0005:
        return "0.0 %"
    words = f"{share * 100:,.0f} %" if share >= 10 else percent(abs(share))
    return f"{'−' if share < 0 else '+'}{words}"


def signed_duration(dur_ns: float) -> str:
    """Say a change of a time: `−44.60 ms`."""
    if not dur_ns:
        return "0"
    return f"{'−' if dur_ns < 0 else '+'}{duration(abs(dur_ns))}"


def bar(part: float, whole: float) -> str:
    """Return up to BAR_CELLS block characters."""
    return "█" * max(1, round(BAR_CELLS * abs(part) / whole)) if part and whole else ""


def unit_words(diff: Diff) -> str:
    """Say what a time is per."""
    if diff.alignment.kind == "work":
        return "per unit of work"
    return "per step" + (" on the host" if diff.sides[0][0].time_of == "host" else "")
