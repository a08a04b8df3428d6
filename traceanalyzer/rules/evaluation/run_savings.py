"""What fixes save of the run: its ranks wait for each other, so that not every rank's saving is the run's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from traceanalyzer.rules.evaluation.removals import Device, Removal, RemovalKey

if TYPE_CHECKING:
    from traceanalyzer.attribution import Bounds, WhatIf
    from traceanalyzer.attribution.replay.run_bounds import RunBound

Removals = Mapping[Device, Removal]

_ALONE = "not-applicable: one device is all there is"
_APART = "not-applicable: the ranks do not wait for each other in collectives"
_Key = frozenset[tuple[Device, RemovalKey]]


class RunSavings:
    """Measures what fixes save of a run, by the replay over all ranks; remembers every answer."""

    def __init__(self, bounds: Bounds, blocker: str | None = None) -> None:
        """Take the bounds of a run, and why its ranks must not be compared although they could be scanned."""
        self._bounds = bounds
        self._nothing = bounds.nothing_saved
        self._known: dict[_Key, RunBound] = {}
        self.abstains = _abstains(bounds) or blocker
        self.window_ns = max((device.window_ns for device in bounds.devices.values()), default=0)

    def saved_ns(self, removals: Removals) -> int:
        """Return by how many ns the slowest rank's window is shorter with these fixes, each on its device."""
        stated_ns = max((removal.stated_ns for removal in removals.values()), default=0)
        return min(self._scanned(removals).saved_ns + stated_ns, self.window_ns)

    def open_ns(self, removals: Removals) -> int:
        """Return how much less than `saved_ns` it may be: not 0 where the scan could not be shown to be exact."""
        return self._scanned(removals).open_ns

    def prepare(self, asked: Iterable[Removals]) -> None:
        """Work out what each of these saves, several in one pass over the events."""
        questions = [_changes(removals) for removals in asked]
        unknown = {key: changes for changes in questions if changes and (key := _key(changes)) not in self._known}
        answers = self._bounds.runs([_scenarios(changes) for changes in unknown.values()])
        self._known.update(zip(unknown, answers, strict=True))

    def most_alone_ns(self, device: Device) -> int:
        """Return a limit of what any fix on one device alone saves, found without a scan."""
        return self._bounds.most_alone_ns(device)

    def taken_ns(self, asked: Mapping[Device, Sequence[Removal]]) -> dict[Device, list[int]]:
        """Return the time that each fix takes out of its device's window, whether or not the run gains by it."""
        taken = self._bounds.taken_of_each({at: [one.scenario() for one in of_one] for at, of_one in asked.items()})
        return {
            device: [ns + removal.stated_ns for ns, removal in zip(taken[device], of_one, strict=True)]
            for device, of_one in asked.items()
        }

    def _scanned(self, removals: Removals) -> RunBound:
        changes = _changes(removals)
        if not changes:
            return self._nothing
        key = _key(changes)
        if key not in self._known:
            self._known[key] = self._bounds.run(_scenarios(changes))
        return self._known[key]


def _changes(removals: Removals) -> dict[Device, Removal]:
    return {place: item for place, item in removals.items() if item.is_scanned}


def _key(changes: Removals) -> _Key:
    return frozenset((place, item.key) for place, item in changes.items())


def _scenarios(changes: Removals) -> dict[Device, WhatIf]:
    return {place: item.scenario() for place, item in changes.items()}


def joined(*fixes: Removals) -> dict[Device, Removal]:
    """Return all fixes at once."""
    by_place: dict[Device, Removal] = {}
    for fix in fixes:
        for place, removal in fix.items():
            by_place[place] = by_place[place].joined(removal) if place in by_place else removal
    return {place: by_place[place] for place in sorted(by_place)}


def _abstains(bounds: Bounds) -> str | None:
    """Return why the ranks cannot be compared, as 'reason: detail'; None: they can."""
    if bounds.apart is not None:
        return bounds.apart
    if len(bounds.places) < 2:
        return _ALONE
    return bounds.run_abstains() or (None if bounds.together.sync_points else _APART)
