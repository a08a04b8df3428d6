"""Where every nanosecond of a device went, and what removing a cause can save: what SQL cannot say.

`compute` fills the tables that this folder's .sql files define, from the canonical tables; `Bounds` answers what-if
questions from them. The way of a trace: device_ops and host_slices are read; blocking_calls and host_timeline say what
the issuing threads did; steps and windows cut the time; ledger splits each pause between compute kernels into the
host's lateness (lateness) and waits on the device (device_waits, by dependencies); lead_events and lead_scan
bound what a fix can win.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceanalyzer.attribution.bounds import Bounds
    from traceanalyzer.attribution.lead_scan import Scenario
    from traceanalyzer.attribution.options import AttributionOptions
    from traceanalyzer.attribution.tables import compute

__all__ = ["AttributionOptions", "Bounds", "Scenario", "compute"]

# A run whose tables are stored needs none of what computes them.
_MODULES = {"AttributionOptions": "options", "Bounds": "bounds", "Scenario": "lead_scan", "compute": "tables"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
