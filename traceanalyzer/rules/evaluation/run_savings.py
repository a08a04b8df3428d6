"""What fixes save of the run: its ranks wait for each other, so that not every rank's saving is the run's.

Of a rank that was recorded several times, it is the sum over its recordings, whose steps are pooled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from traceanalyzer.rules.evaluation import sandbox
from traceanalyzer.rules.evaluation.interventions import Device, Intervention, InterventionKey, WhatIfScan, write_bound
from traceanalyzer.rules.evaluation.scopes import RunScopes

if TYPE_CHECKING:
    from traceanalyzer.attribution.replay.bounds import Bounds
    from traceanalyzer.attribution.replay.run_bounds import RunBound
    from traceanalyzer.attribution.replay.scan import WhatIf
    from traceanalyzer.rules.evaluation.verdicts import Verdict


Interventions = Mapping[Device, Intervention]

_ALONE = "not-applicable: one device is all there is"
_APART = "not-applicable: the ranks do not wait for each other in collectives"
_Key = frozenset[tuple[Device, InterventionKey]]


class RunSavings:
    """Measures what fixes save of a run, by the replay over all ranks; remembers every answer."""

    def __init__(self, bounds: Bounds, blocker: str | None = None) -> None:
        """Take the bounds of a run, and why its ranks must not be compared although they could be scanned."""
        self._bounds = bounds
        self._nothing = bounds.nothing_saved
        self._known: dict[_Key, RunBound] = {}
        self.abstains = _abstains(bounds) or blocker
        self.window_ns = max((device.window_ns for device in bounds.devices.values()), default=0)

    def saved_ns(self, interventions: Interventions) -> int:
        """Return by how many ns the slowest rank's window is shorter with these fixes, each on its device."""
        stated_ns = max((intervention.stated_ns for intervention in interventions.values()), default=0)
        return min(self._scanned(interventions).saved_ns + stated_ns, self.window_ns)

    def open_ns(self, interventions: Interventions) -> int:
        """Return how much less than `saved_ns` it may be: not 0 where the scan could not be shown to be exact."""
        return self._scanned(interventions).open_ns

    def prepare(self, queries: Iterable[Interventions]) -> None:
        """Work out what each of these saves, several in one pass over the events."""
        questions = [_changes(interventions) for interventions in queries]
        unknown = {key: changes for changes in questions if changes and (key := _key(changes)) not in self._known}
        answers = self._bounds.runs([_scenarios(changes) for changes in unknown.values()])
        self._known.update(zip(unknown, answers, strict=True))

    def most_alone_ns(self, device: Device) -> int:
        """Return a limit of what any fix on one device alone saves, found without a scan."""
        return self._bounds.most_alone_ns(device)

    def taken_ns(self, queries: Mapping[Device, Sequence[Intervention]]) -> dict[Device, list[int]]:
        """Return the time that each fix takes out of its device's window, whether or not the run gains by it."""
        taken = self._bounds.taken_of_each({at: [one.scenario() for one in of_one] for at, of_one in queries.items()})
        return {
            device: [ns + intervention.stated_ns for ns, intervention in zip(taken[device], of_one, strict=True)]
            for device, of_one in queries.items()
        }

    def _scanned(self, interventions: Interventions) -> RunBound:
        changes = _changes(interventions)
        if not changes:
            return self._nothing
        key = _key(changes)
        if key not in self._known:
            self._known[key] = self._bounds.run(_scenarios(changes))
        return self._known[key]


def _changes(interventions: Interventions) -> dict[Device, Intervention]:
    return {device: item for device, item in interventions.items() if item.is_scanned}


def _key(changes: Interventions) -> _Key:
    return frozenset((device, item.key) for device, item in changes.items())


def _scenarios(changes: Interventions) -> dict[Device, WhatIf]:
    return {device: item.scenario() for device, item in changes.items()}


def by_device(queries: Iterable[Interventions]) -> dict[Device, list[Intervention]]:
    """Return what is asked of each device."""
    interventions: dict[Device, list[Intervention]] = {}
    for fix in queries:
        for device, intervention in fix.items():
            interventions.setdefault(device, []).append(intervention)
    return interventions


def joined(*fixes: Interventions) -> dict[Device, Intervention]:
    """Return all fixes at once."""
    at_once: dict[Device, Intervention] = {}
    for fix in fixes:
        for device, intervention in fix.items():
            at_once[device] = at_once[device].joined(intervention) if device in at_once else intervention
    return {device: at_once[device] for device in sorted(at_once)}


def _abstains(bounds: Bounds) -> str | None:
    """Return why the ranks cannot be compared, as 'reason: detail'; None: they can."""
    if bounds.apart is not None:
        return bounds.apart
    if len(bounds.device_keys) < 2:
        return _ALONE
    return bounds.run_abstains() or (None if bounds.together.sync_points else _APART)


class PooledSavings:
    """Measures what fixes save of all pooled recordings together, each by the replay of its device."""

    def __init__(self, run: RunScopes, scan: WhatIfScan) -> None:
        """Take the scopes of a run, with its pooled recordings, and what measures savings on each."""
        self._scan = scan
        self._windows = {device: int(run.windows[device]["window_ns"]) for device in run.pooled}
        self.window_ns = sum(self._windows.values())
        self.step_count = sum(int(run.windows[device]["step_count"]) for device in run.pooled)

    def saved_ns(self, interventions: Interventions) -> int:
        """Return by how many ns the windows of all recordings together are shorter with these fixes."""
        return sum(
            min(intervention.bound_ns(self._scan, device), self._windows.get(device, 0))
            for device, intervention in interventions.items()
        )

    def open_ns(self, interventions: Interventions) -> int:
        """Return how much less than `saved_ns` it may be for want of a finer scan: each recording is scanned whole."""
        return 0

    def prepare(self, queries: Iterable[Interventions]) -> None:
        """Work out what each of these saves, several in one pass over the events."""
        self._scan.prepare(by_device(queries))

    def added_ns(self, waiting: Interventions, done: Interventions) -> dict[Device, int]:
        """Return what each recording gains by its fix in addition to what is done."""
        return {
            device: intervention.added_ns(self._scan, device, done.get(device))
            for device, intervention in waiting.items()
        }


def selected_over_all(
    con: duckdb.DuckDBPyConnection, run: RunScopes, verdict: Verdict, values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the row that a rule selects where the table `bound` has the means of all pooled recordings.

    Of what the rule selects besides, the row has the numbers of the verdict's recording. Where nothing is pooled, and
    where the query fails, it is the verdict's own row.
    """
    if not verdict.pooled:
        return verdict.row
    scope = verdict.scope
    trace_id, device = run.key(scope)
    whole = {**verdict.row, **_of_one_recording(verdict)}
    write_bound(con, [{**whole, "trace": scope.trace, "device": device, "trace_id": trace_id}])
    try:
        rows = sandbox.query(con, verdict.rule.select, values).dicts()
    except sandbox.RuleQueryError:
        rows = []
    own = (row for row in rows if (row.get("trace"), row.get("device")) == (scope.trace, scope.device))
    return next(own, {name: whole.get(name) for name in verdict.row})


# Sums over recordings. What a rule counts besides is of one recording, and so are its steps and its longest row.
_SUMS = ("window_ns", "bound_ns", "saving_sum_ns", "claimed_ns", "claimed_count")
_OF_THE_RECORDING = ("step_count", "worst_ms")


def _of_one_recording(verdict: Verdict) -> dict[str, Any]:
    """Return the columns of `bound` over all pooled recordings for as many steps as the verdict's recording has."""
    steps, pooled = verdict.row.get("step_count"), verdict.pooled
    if not steps:
        return dict(pooled)
    scaled = {name: round(pooled[name] * steps / pooled["step_count"]) for name in _SUMS}
    own = {name: verdict.row[name] for name in _OF_THE_RECORDING if name in verdict.row}
    return {**pooled, **scaled, **own}


def pooled_row(run: RunScopes, verdicts: Sequence[Verdict], saved_ns: int) -> dict[str, Any]:
    """Return the columns of `bound` for one rule over all pooled recordings; those where it did not fire have no part.

    Empty where nothing is pooled. A message takes its numbers from here, so that it says what its title says.
    """
    if not run.pooled:
        return {}
    windows = [run.windows[device] for device in run.pooled]
    window_ns, steps = (sum(window[name] for window in windows) for name in ("window_ns", "step_count"))
    rows = [verdict.row for verdict in verdicts]

    def total(name: str) -> int:
        return sum(row.get(name) or 0 for row in rows)

    in_steps = sum((row.get("step_share") or 0) * (row.get("step_count") or 0) for row in rows)
    return {
        "window_ns": window_ns,
        "step_count": steps,
        "step_ms": window_ns / 1e6 / steps,
        "bound_ns": saved_ns,
        "bound_share": saved_ns / window_ns,
        "saving_sum_ns": total("saving_sum_ns"),
        "claimed_ns": total("claimed_ns"),
        "claimed_share": total("claimed_ns") / window_ns,
        "claimed_count": total("claimed_count"),
        "ms_per_step": saved_ns / 1e6 / steps,
        "step_share": in_steps / steps,
        "worst_ms": max(row.get("worst_ms") or 0.0 for row in rows),
    }
