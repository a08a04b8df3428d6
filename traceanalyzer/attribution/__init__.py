"""Where every nanosecond of a device went, and what removing a cause can save: what SQL cannot say.

`compute` fills the tables that this folder's .sql files define, from the canonical tables; `Bounds` answers what-if
questions from them. The way of a trace: device_ops and host_slices are read; blocking_calls and host_timeline say what
the issuing threads did; steps and windows cut the time; ledger splits each pause between compute kernels into the
host's lateness (lateness) and waits on the device (device_waits, by dependencies); lead_events and lead_scan
bound what a fix can win.
"""

from typing import TYPE_CHECKING, Any

from traceanalyzer.attribution.bounds import Bounds
from traceanalyzer.attribution.lead_scan import Scenario

if TYPE_CHECKING:
    from traceanalyzer.attribution.tables import compute

__all__ = ["Bounds", "Scenario", "compute"]


def __getattr__(name: str) -> Any:
    # A run whose tables are stored needs none of what computes them.
    if name != "compute":
        raise AttributeError(name)
    from traceanalyzer.attribution.tables import compute

    return compute
