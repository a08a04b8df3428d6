"""From a scenario of several ranks to one scenario a rank: own programs, own faults, own clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError
from tracesim.catalogue.keys import checked_count

# Keys that speak of the whole job.
_OF_THE_JOB = ("ranks", "programs", "faults")
# Keys whose lists hold one value a rank.
_BY_RANK = ("clock_offset_us", "clock_drift_ppm")


def scenarios_of_ranks(scenario: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each rank's own scenario.

    `ranks: 4` says how many; `programs` gives each a program of its own; `faults` is one mapping or several, each of
    all ranks or of those it names (`rank: 3`, `rank: [1, 3]`); `clock_offset_us` and `clock_drift_ppm` may list
    one value a rank.
    """
    count = checked_count(scenario.get("ranks", 1), "ranks")
    if count < 1:
        raise TraceAnalyzerError("ranks: a job has at least one rank", "scenario")
    programs = scenario.get("programs")
    if programs is not None and (isinstance(programs, str) or len(programs) != count):
        raise TraceAnalyzerError(f"programs: there are {count} ranks, each with one program", "scenario")
    shared = {key: value for key, value in scenario.items() if key not in _OF_THE_JOB}
    if count > 1:
        shared["world_size"] = count
    faults = scenario.get("faults") or {}
    scenarios = []
    for rank in range(count):
        own = dict(shared)
        if count > 1:
            own["rank"] = rank
        for key in _BY_RANK:
            if isinstance(own.get(key), list | tuple):
                own[key] = _of_rank(own[key], rank, count, key)
        if programs is not None:
            own["program"] = programs[rank]
        planted = {key: value for fault in _faults_of(faults, rank, count) for key, value in fault.items()}
        if planted:
            own["faults"] = planted
        scenarios.append(own)
    return scenarios


def _of_rank(values: Sequence[Any], rank: int, count: int, key: str) -> object:
    if len(values) != count:
        raise TraceAnalyzerError(f"{key}: there are {count} ranks, and {len(values)} values", "scenario")
    return values[rank]


def _faults_of(faults: object, rank: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield the faults of one rank, without the ranks they name."""
    for place, fault in enumerate(faults if isinstance(faults, list | tuple) else [faults]):
        if not isinstance(fault, Mapping):
            raise TraceAnalyzerError(f"faults[{place}]: {fault!r} is not a fault", "scenario", "such as `gc_us: 500`")
        named = fault.get("rank", range(count))
        ranks = [checked_count(named, "faults.rank")] if isinstance(named, int) else list(named)
        if any(one not in range(count) for one in ranks):
            raise TraceAnalyzerError(f"faults.rank: {named!r} is no rank of {count}", "scenario")
        if rank in ranks:
            yield {key: value for key, value in fault.items() if key != "rank"}
