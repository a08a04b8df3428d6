"""The cause of every nanosecond of a device, and an upper bound of what removing a cause saves.

`compute` fills the tables that `schema/` defines, from the canonical tables; `Bounds` answers what-if questions from
them. A trace passes through the folders in this order: `records` reads operations and host calls; `host` finds what the
issuing threads did; `steps` finds the steps and the analysis window; `matching_collectives` pairs
collectives over ranks; `ledger` splits each pause between compute kernels into launch delays of the host and waits on
the device; `replay` bounds what a fix can save. `attributed_device` does this for one device, `tables` for a run, and
`run_tables` for all its ranks together.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceanalyzer.attribution.options import AttributionOptions
    from traceanalyzer.attribution.replay.bounds import Bounds
    from traceanalyzer.attribution.replay.scan import WhatIf
    from traceanalyzer.attribution.tables import READS, Matched, RankTables, attribute, compute, match

__all__ = ["READS", "AttributionOptions", "Bounds", "Matched", "RankTables", "WhatIf", "attribute", "compute", "match"]

# Imported on first use: a run whose tables are stored needs none of the code that computes them.
_MODULES = {
    "AttributionOptions": "traceanalyzer.attribution.options",
    "Bounds": "traceanalyzer.attribution.replay.bounds",
    "WhatIf": "traceanalyzer.attribution.replay.scan",
    "READS": "traceanalyzer.attribution.tables",
    "Matched": "traceanalyzer.attribution.tables",
    "RankTables": "traceanalyzer.attribution.tables",
    "attribute": "traceanalyzer.attribution.tables",
    "compute": "traceanalyzer.attribution.tables",
    "match": "traceanalyzer.attribution.tables",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(import_module(_MODULES[name]), name)
