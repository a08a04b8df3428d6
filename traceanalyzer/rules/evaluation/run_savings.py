"""What fixes save of the run: its ranks wait for each other, so that not every rank's saving is the run's.

Of a rank that was recorded several times, it is the sum over its recordings, whose steps are pooled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from traceanalyzer.rules.evaluation.interventions import (
    Device,
    DeviceBound,
    Intervention,
    InterventionKey,
    RememberedScan,
)
from traceanalyzer.rules.evaluation.scopes import RunScopes
from traceanalyzer.rules.rule_file.model import Rule

if TYPE_CHECKING:
    from traceanalyzer.attribution.replay.bounds import Bounds


Interventions = Mapping[Device, Intervention]

# A share of the window far below what is ever reported.
_NEXT_TO_NOTHING = 0.002

_ALONE = "not-applicable: one device is all there is"
_APART = "not-applicable: the ranks do not wait for each other in collectives"
_Key = frozenset[tuple[Device, InterventionKey]]


class RunSavings:
    """Measures what fixes save of a run, by the replay over all ranks; remembers every answer."""

    def __init__(self, bounds: Bounds, blocker: str | None = None) -> None:
        """Take the bounds of a run, and why its ranks must not be compared although they could be scanned."""
        self._bounds = bounds
        # By what is changed: what is saved, and how much less it may be.
        self._known: dict[_Key, tuple[int, int]] = {frozenset(): (0, 0)}
        self.abstains = _abstains(bounds) or blocker
        self.window_ns = max((device.window_ns for device in bounds.devices.values()), default=0)

    def saved_ns(self, interventions: Interventions) -> int:
        """Return by how many ns the slowest rank's window is shorter with these fixes, each on its device."""
        stated_ns = max((intervention.stated_ns for intervention in interventions.values()), default=0)
        return min(self._scanned(interventions)[0] + stated_ns, self.window_ns)

    def open_ns(self, interventions: Interventions) -> int:
        """Return how much less than `saved_ns` it may be: not 0 where the scan could not be shown to be exact."""
        return self._scanned(interventions)[1]

    def prepare(self, queries: Iterable[Interventions]) -> None:
        """Work out what each of these saves, several in one pass over the events."""
        questions = [_changes(interventions) for interventions in queries]
        unknown = {key: changes for changes in questions if (key := _key(changes)) not in self._known}
        answers = self._bounds.runs(
            [{device: item.scenario() for device, item in changes.items()} for changes in unknown.values()]
        )
        self._known.update(zip(unknown, ((answer.saved_ns, answer.open_ns) for answer in answers), strict=True))

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

    def _scanned(self, interventions: Interventions) -> tuple[int, int]:
        self.prepare([interventions])
        return self._known[_key(_changes(interventions))]


def _changes(interventions: Interventions) -> dict[Device, Intervention]:
    return {device: item for device, item in interventions.items() if item.is_scanned}


def _key(changes: Interventions) -> _Key:
    return frozenset((device, item.key) for device, item in changes.items())


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

    def __init__(self, run: RunScopes, scan: RememberedScan) -> None:
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


def pooled_row(run: RunScopes, rows: Sequence[Mapping[str, Any]], saved_ns: int) -> dict[str, Any]:
    """Return the columns of `bound` over all pooled recordings, from a rule's rows; where it did not fire has no part.

    Empty where nothing is pooled. A message takes its numbers from here, so that it says what its title says.
    """
    if not run.pooled:
        return {}
    windows = [run.windows[device] for device in run.pooled]
    window_ns, steps = (sum(window[name] for window in windows) for name in ("window_ns", "step_count"))

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


def run_bounds(
    rule: Rule,
    interventions: Mapping[Device, Intervention],
    run_savings: RunSavings,
    windows: Mapping[Device, Mapping[str, Any]],
) -> dict[Device, DeviceBound]:
    """Return what the run saves if the rule's fix is made on one rank alone, and on all of them.

    A rank that was recorded several times is fixed in all its recordings: the run takes as long as the longest.
    """
    all_ns = None if rule.says_its_bound or run_savings.abstains else run_savings.saved_ns(interventions)
    # One alone saves no more than all of them: what is nothing on all is not asked of each.
    longest_ns = max((window["window_ns"] for window in windows.values()), default=0)
    alone = dict.fromkeys(windows, None if all_ns is None else 0)
    if all_ns is not None and all_ns > _NEXT_TO_NOTHING * longest_ns:
        queries = {
            device: {each: interventions[each] for each in devices}
            for device, devices in _of_one_rank(windows).items()
            if len(devices) > 1 or run_savings.most_alone_ns(device)
        }
        run_savings.prepare(queries.values())
        alone |= {device: run_savings.saved_ns(fixes) for device, fixes in queries.items()}
    return {
        device: DeviceBound(window, interventions[device], alone[device], run_ns=all_ns, longest_ns=longest_ns)
        for device, window in windows.items()
    }


def _of_one_rank(windows: Mapping[Device, Mapping[str, Any]]) -> dict[Device, list[Device]]:
    """Return for each device those of the same number in all recordings of its rank."""
    of_rank: dict[tuple[int, int], list[Device]] = {}
    for device, window in windows.items():
        rank = -1 - device[0] if window["rank"] is None else int(window["rank"])
        of_rank.setdefault((rank, device[1]), []).append(device)
    return {device: devices for devices in of_rank.values() for device in devices}
