"""HTA's known deviations, and our own computation with any of them switched on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path

import duckdb
import pyarrow as pa

_SQL = Path(__file__).parent / "sql"

# Every deviation, in the words that a user reads.
DEVIATIONS: Mapping[str, str] = {
    "rounding": "HTA rounds every start up and every end down to whole microseconds",
    "syncs": "HTA counts synchronisation records as GPU work",
    "host_ops": "HTA counts host operators that name a stream (compiled code) as GPU work",
    "names": "HTA separates compute from communication by its own patterns of kernel names",
    "linked": "HTA drops GPU work whose launch call is not in the trace",
    "devices": "HTA puts all devices of a trace on one timeline",
    "apis": "HTA knows only some launch calls, and no graph launches",
    "table": "HTA's table shows the maximum over sums of kernels, where the trace has more than ten kernel names",
    "ties": "HTA counts a launch before a start at the same instant",
    "points": "HTA averages over the points where bandwidth changes, not over time",
    "last_stream": "HTA reports only the last stream",
}
# Deviations that change which events count, and those that change how numbers are computed from them. The mean
# bandwidth ("points") is another definition, which nothing here computes.
_OF_EVENTS = ("rounding", "syncs", "host_ops", "names", "linked", "devices", "apis")
_OF_NUMBERS = ("table", "ties", "last_stream")
_SWITCHES = (*_OF_EVENTS, *_OF_NUMBERS)

# Calls that HTA 0.5 and 0.6 look for, in launch statistics and in queue lengths.
_STATISTICS_CALLS = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")
_QUEUE_CALLS = (
    *_STATISTICS_CALLS,
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "hipLaunchKernel",
    "hipExtModuleLaunchKernel",
    "hipMemcpyAsync",
    "hipMemsetAsync",
    "hipMemcpyWithStream",
)

Numbers = dict[str, float | None]
Reasons = tuple[str, ...] | None


class DeviatingTrace:
    """The device events of one trace, from which numbers can be computed with deviations switched on."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, trace_id: int, kind_of: Callable[[str], str]) -> None:
        self._connection = connection.cursor()
        self._known: dict[frozenset[str], Numbers] = {}
        self._run("events.sql", {"trace_id": trace_id})
        names = [row[0] for row in self._connection.execute("SELECT DISTINCT name FROM peer_events").fetchall()]
        kinds = pa.table({"name": names, "peer_kind": [kind_of(name or "") for name in names]})
        kinds = kinds.cast(pa.schema({"name": pa.string(), "peer_kind": pa.string()}))
        self._connection.register("peer_kinds", kinds)
        self._run("kinds.sql", {"statistics_calls": list(_STATISTICS_CALLS), "queue_calls": list(_QUEUE_CALLS)})

    def numbers(self, switched_on: frozenset[str] = frozenset()) -> Numbers:
        """Return every number with some deviations switched on, times in microseconds."""
        if switched_on not in self._known:
            self._run("deviating.sql", {switch: switch in switched_on for switch in _OF_EVENTS})
            found = self._run("numbers.sql", {switch: switch in switched_on for switch in _OF_NUMBERS}).fetchall()
            self._known[switched_on] = dict(found)
        return self._known[switched_on]

    def explain(self, name: str, theirs: float | None, agrees: Callable[[float | None, float | None], bool]) -> Reasons:
        """Return the fewest deviations that turn our number into theirs; None if no set of them does."""
        exact = self.numbers()
        # A deviation that changes no number here explains nothing, and each one doubles the work.
        effective = [switch for switch in _SWITCHES if self.numbers(frozenset({switch})) != exact]
        for size in range(len(effective) + 1):
            for switched_on in combinations(effective, size):
                if agrees(self.numbers(frozenset(switched_on)).get(name), theirs):
                    return switched_on
        return None

    def _run(self, file: str, values: Mapping[str, object]) -> duckdb.DuckDBPyConnection:
        return self._connection.execute((_SQL / file).read_text(encoding="utf-8"), dict(values))
