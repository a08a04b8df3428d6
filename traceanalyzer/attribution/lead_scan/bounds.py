"""Upper bounds of what removing causes saves: the lead scan, measured at the end of each device's analysis window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from traceanalyzer.attribution.lead_scan.contracted_run import ContractedRun, Meetings, RankScans
from traceanalyzer.attribution.lead_scan.run_scan import JointScan
from traceanalyzer.attribution.lead_scan.scan import LANES_FROM, LOADER_WORKERS, Savings, Scan, WhatIf
from traceanalyzer.attribution.lead_scan.stored_scans import Place, ScanFacts, StoredScans, by_device, scan_of
from traceanalyzer.attribution.vocabulary.buckets import Ints

# The scans of more devices are read when they are asked, instead of held.
HELD_DEVICES = 64

TRACES = "SELECT trace_id, rank, world_size FROM canonical.traces"
_MEETING_SIZES = """
SELECT match_id, count(*)
FROM attribution.collective_members
WHERE synchronises AND wait_ns IS NOT NULL
GROUP BY match_id
"""
# What `_apart` looks at: a member of a collective that is not matched, and the time of messages.
_MEMBERS_THAT_MATTER = """
SELECT TRUE AS synchronises, NULL AS wait_ns, NULL AS transfer_ns, NULL AS present_count
FROM (SELECT 1 FROM attribution.collective_members WHERE synchronises AND wait_ns IS NULL LIMIT 1)
UNION ALL
SELECT FALSE, sum(wait_ns), sum(transfer_ns), 2
FROM attribution.collective_members
WHERE NOT synchronises AND present_count > 1
"""
_OF_MEMBERS = ["match_id", "synchronises", "present_count", "transfer_ns", "wait_ns"]
_READS = {
    "windows": "SELECT * FROM attribution.windows",
    "lead_events": "SELECT * FROM attribution.lead_events ORDER BY trace_id, device, position",
    "lead_costs": "SELECT * FROM attribution.lead_costs ORDER BY trace_id, device",
    "lead_needs": "SELECT * FROM attribution.lead_needs ORDER BY trace_id, device, position",
    "members": f"SELECT {', '.join(_OF_MEMBERS)} FROM attribution.collective_members",
    "traces": TRACES,
}
NOT_MATCHED = "unmatched-collectives: the trace does not show which kernels of the ranks are one collective"
MESSAGES = "messages-between-ranks: ranks send each other data in ways that the scan cannot follow"
# Communication that some ranks may leave early is ignored below this share of the windows.
IGNORED_SHARE = 0.01

# More what-ifs of all ranks at once would take more memory and hardly less time.
_LANES = 16


@dataclass(frozen=True)
class _Device:
    window: Mapping[str, Any]  # its row of the table `windows`
    facts: ScanFacts
    load: Callable[[], Scan]

    @property
    def scan(self) -> Scan:
        """The device's scan: held, or read when it is asked."""
        return self.load()

    @property
    def window_ns(self) -> int:
        """The length of its window."""
        return int(self.window["window_ns"])

    @property
    def abstains(self) -> str | None:
        """Why its bounds cannot be trusted."""
        reason: str | None = self.window["bound_abstains"]
        return reason

    def at_worst(self, uncertainty: str) -> Self:
        """Return the device if an uncertainty turns out against its fixes; this one if it does not apply."""
        if uncertainty not in self.facts.uncertainties:
            return self
        return replace(self, load=lambda: _at_worst(self.load(), uncertainty))


@dataclass(frozen=True)
class WindowSaving:
    """What a what-if saves of a window, and how much earlier the window then begins.

    Removing more never delays anything, but it can move only the start of the window, which makes the window longer:
    for example, where the window begins with a copy that its first step waits for and later steps hide.
    """

    saved_ns: int
    begins_earlier_ns: int


@dataclass(frozen=True)
class RunBound:
    """What a what-if saves of a run, which takes as long as its slowest rank, and of each of its devices.

    Of many ranks that could not be shown to be exact (see `contracted_run`), these are the most that is saved, and
    `least` is the least.
    """

    saved_ns: int
    window_ns: int  # of the slowest device
    devices: Mapping[Place, int]
    least: Self | None = None

    @property
    def open_ns(self) -> int:
        """How much less may be saved."""
        return 0 if self.least is None else self.saved_ns - self.least.saved_ns


class _Gain(NamedTuple):
    """How much closer the collectives are between which a window is measured: at most, and how much less it may be."""

    most_ns: int
    open_ns: int = 0


@dataclass(frozen=True)
class Bounds:
    """Upper bounds for any what-if, on one device or on all devices of a run together."""

    devices: Mapping[Place, _Device]
    ranks: Mapping[int, int | None]  # by trace_id
    together: JointScan | ContractedRun
    places: tuple[Place, ...]  # of the scans of `together`
    apart: str | None  # why ranks that communicate cannot be scanned together; None: they can

    @classmethod
    def load(cls, con: duckdb.DuckDBPyConnection, held_devices: int = HELD_DEVICES) -> Self:
        """Read the tables of a run; one call serves all questions about it.

        The scans of more than `held_devices` are read when they are asked, for which the connection has to stay open.
        """
        windows = con.sql(_READS["windows"]).to_arrow_table()
        if windows.num_rows > held_devices:
            return cls._of_store(con, windows)
        return cls.of_tables(**{name: con.sql(query).to_arrow_table() for name, query in _READS.items()})

    @classmethod
    def of_tables(
        cls,
        windows: pa.Table,
        lead_events: pa.Table,
        lead_costs: pa.Table,
        lead_needs: pa.Table,
        members: pa.Table | None = None,
        traces: pa.Table | None = None,
    ) -> Self:
        """Prepare the bounds of the devices in these tables; lead_events must be in scan order."""
        events, costs, needs = (by_device(table) for table in (lead_events, lead_costs, lead_needs))
        devices = {}
        for window in windows.to_pylist():
            place = (window["trace_id"], window["device"])
            scan = scan_of(
                window,
                events.get(place, lead_events[:0]),
                costs.get(place, lead_costs[:0]),
                needs.get(place, lead_needs[:0]),
            )
            devices[place] = _Device(window, ScanFacts.of_scan(scan, window), partial(_held, scan))
        kernels = [] if members is None else members.select(_OF_MEMBERS).to_pylist()
        whole = Counter(row["match_id"] for row in kernels if row["synchronises"] and row["wait_ns"] is not None)
        places = tuple(sorted(devices))
        return cls(
            devices,
            {} if traces is None else {row["trace_id"]: row["rank"] for row in traces.to_pylist()},
            JointScan.of_scans([devices[place].scan for place in places], whole),
            places,
            _apart([] if traces is None else traces.to_pylist(), kernels, sum(d.window_ns for d in devices.values())),
        )

    @classmethod
    def _of_store(cls, con: duckdb.DuckDBPyConnection, windows: pa.Table) -> Self:
        """Prepare the bounds of devices whose scans are read one by one, each when it is asked."""
        stored = StoredScans(con, {(row["trace_id"], row["device"]): row for row in windows.to_pylist()})
        devices = {
            place: _Device(stored.windows[place], stored.facts(place), partial(stored.scan, place))
            for place in sorted(stored.windows)
        }
        places = tuple(devices)
        sizes = dict(con.execute(_MEETING_SIZES).fetchall())
        meetings = Meetings.of_calls([devices[place].facts.calls for place in places], sizes)
        traces = con.sql(TRACES).to_arrow_table().to_pylist()
        return cls(
            devices,
            {row["trace_id"]: row["rank"] for row in traces},
            ContractedRun(meetings, RankScans(partial(_scan_of_place, devices, places))),
            places,
            _apart(
                traces,
                con.sql(_MEMBERS_THAT_MATTER).to_arrow_table().to_pylist(),
                sum(device.window_ns for device in devices.values()),
            ),
        )

    @cached_property
    def waits_for_workers(self) -> bool:
        """Whether some batch of a loader's workers was not ready when it was taken."""
        return any(device.facts.waits_for_workers for device in self.devices.values())

    def at_worst(self, uncertainty: str) -> Self:
        """Return what fixes save at least if an uncertainty turns out against them; these bounds if it does not apply.

        LOADER_WORKERS: no worker finishes a batch earlier than it was taken. STREAM_WAITS: streams waited for others
        wherever they may have.
        """
        devices = {place: device.at_worst(uncertainty) for place, device in self.devices.items()}
        if all(devices[place] is self.devices[place] for place in self.places):
            return self
        together: JointScan | ContractedRun
        if isinstance(self.together, JointScan):
            together = replace(self.together, scans=tuple(devices[place].scan for place in self.places))
        else:
            scans = RankScans(partial(_scan_of_place, devices, self.places))
            together = replace(self.together, scans=scans)
        return replace(self, devices=devices, together=together)

    def lower_bounds(self, uncertainties: Sequence[str]) -> dict[str, Self]:
        """Return, by uncertainty, what fixes save if it and all uncertainties before it turn out against them.

        Uncertainties that do not apply to the run have no entry.
        """
        by_uncertainty: dict[str, Self] = {}
        last = self
        for uncertainty in uncertainties:
            lower = last.at_worst(uncertainty)
            if lower is not last:
                by_uncertainty[uncertainty] = last = lower
        return by_uncertainty

    def abstains(self, trace_id: int, device: int) -> str | None:
        """Return why bounds cannot be trusted on a device; None: they can."""
        scanned = self.devices.get((trace_id, device))
        return "not-applicable: no work on the device" if scanned is None else scanned.abstains

    def causes(self, trace_id: int, device: int) -> frozenset[str]:
        """Return every cause whose removal could change something on a device."""
        scanned = self.devices.get((trace_id, device))
        return frozenset() if scanned is None else scanned.facts.causes

    def bound(self, trace_id: int, device: int, removed: frozenset[str], savings: Savings | None = None) -> int:
        """Return how many ns shorter the window gets if causes cost nothing and ops (by id) get faster by `savings`."""
        return self.bounds(trace_id, device, [WhatIf(removed, savings)])[0]

    def bounds(self, trace_id: int, device: int, what_ifs: Sequence[WhatIf]) -> list[int]:
        """Return the bound of each what-if; one call with many is much faster than many calls."""
        return [saving.saved_ns for saving in self.window_savings(trace_id, device, what_ifs)]

    def window_savings(self, trace_id: int, device: int, what_ifs: Sequence[WhatIf]) -> list[WindowSaving]:
        """Return what each what-if saves, and how much earlier the window begins in it."""
        scanned = self.devices.get((trace_id, device))
        if scanned is None or not what_ifs or not scanned.facts.event_count:
            return [WindowSaving(0, 0)] * len(what_ifs)
        scan, window = scanned.scan, scanned.window
        scale, first_op, measure_at_op = (window[name] for name in ("measure_scale", "first_op_id", "measure_at_op_id"))
        leads = scan.leads(what_ifs)
        first = np.zeros(len(what_ifs), np.int64)
        if first_op is not None:
            first = leads.start(scan.position_of[first_op])
        if measure_at_op is None:
            last = scan.end[scan.is_op]
            saved = last.max() - (last[:, None] - leads.end[scan.is_op]).max(axis=0) - first
        else:
            saved = (leads.start(scan.position_of[measure_at_op]) - first) * scale
        # A what-if saves no more than it takes out of the window, however much lead it has from before the window.
        limits = [
            min(_limit(scanned, what_if), round(taken * scale))
            for what_if, taken in zip(what_ifs, leads.taken, strict=True)
        ]
        savings = zip(saved.tolist(), (first * scale).tolist(), limits, strict=True)
        return [WindowSaving(min(max(int(ns), 0), limit), int(earlier_ns)) for ns, earlier_ns, limit in savings]

    def run_abstains(self) -> str | None:
        """Return why there are no bounds of the run as a whole; None: there are."""
        if self.apart is not None:
            return self.apart
        if not self.devices:
            return "not-applicable: no work on a device"
        return next((device.abstains for device in self.devices.values() if device.abstains), None)

    def what_ifs(
        self,
        removed: frozenset[str] | Mapping[int, frozenset[str]],
        savings: Mapping[Place, Savings] | None = None,
    ) -> dict[Place, WhatIf]:
        """Return the what-if of each device; `removed` holds for all ranks, or is by rank."""
        by_place = {}
        for place in self.places:
            rank = self.ranks.get(place[0])
            causes = removed
            if not isinstance(causes, frozenset):
                causes = causes.get(-1 if rank is None else rank, frozenset())
            by_place[place] = WhatIf(causes, (savings or {}).get(place))
        return by_place

    def run(self, what_ifs: Mapping[Place, WhatIf]) -> RunBound:
        """Return what the run saves with one what-if per device; ranks wait for each other in collectives."""
        return self.runs([what_ifs])[0]

    @property
    def nothing_saved(self) -> RunBound:
        """The answer to a question that changes nothing."""
        return RunBound(0, max((device.window_ns for device in self.devices.values()), default=0), {})

    def runs(self, asked: Sequence[Mapping[Place, WhatIf]]) -> list[RunBound]:
        """Return `run` of each; one call with many is much faster than many calls."""
        answers: list[RunBound] = []
        at_once = _LANES if isinstance(self.together, JointScan) else len(asked)
        for start in range(0, len(asked), max(at_once, 1)):
            of_places = [
                [what_ifs.get(place, WhatIf()) for place in self.places] for what_ifs in asked[start : start + at_once]
            ]
            answers += map(self._of_run, of_places, self._gains(of_places))
        return answers

    def _gains(self, asked: Sequence[Sequence[WhatIf]]) -> list[list[_Gain]]:
        """Return for each question how much each device gains between the collectives of its measurement."""
        if not self.together.meetings:
            return [[_Gain(0)] * len(self.places) for _ in asked]
        if isinstance(self.together, ContractedRun):
            return self._contracted_gains(self.together, asked)
        of_asked: list[Sequence[Sequence[int] | Ints | None]]
        if len(asked) < LANES_FROM:
            of_asked = [self.together.leads(what_ifs) for what_ifs in asked]
        else:
            ends = self.together.leads_at_once(asked)
            of_asked = [[None if leads is None else leads[:, lane] for leads in ends] for lane in range(len(asked))]
        return [[self._gain(*of_place) for of_place in zip(self.places, of_one, strict=True)] for of_one in of_asked]

    def _gain(self, place: Place, leads: Sequence[int] | Ints | None) -> _Gain:
        between = self._measured_between[place]
        if between is None or leads is None:
            return _Gain(0)
        first, last = between
        return _Gain(int(leads[last]) - (0 if first is None else int(leads[first])))

    def _contracted_gains(self, together: ContractedRun, asked: Sequence[Sequence[WhatIf]]) -> list[list[_Gain]]:
        measured: dict[int, list[int]] = {}  # numbers of calls, by device
        for at, place in enumerate(self.places):
            if (between := self._measured_between[place]) is not None:
                low = int(together.meetings.first[at])
                measured[at] = [low + together.positions[at].index(item) for item in between if item is not None]
        found = together.leads(asked, np.asarray([call for calls in measured.values() for call in calls], np.int64))
        gains = np.zeros((2, len(self.places), len(asked)), np.int64)
        row = 0
        for at, calls in measured.items():
            last = row + len(calls) - 1
            gains[0, at] = found.lead_ns[last] + found.off_ns[last]
            gains[1, at] = 2 * found.off_ns[last]
            if len(calls) == 2:
                gains[0, at] -= found.lead_ns[row] - found.off_ns[row]
                gains[1, at] += 2 * found.off_ns[row]
            row += len(calls)
        return [[_Gain(*pair) for pair in gains[:, :, lane].T.tolist()] for lane in range(len(asked))]

    def most_alone_ns(self, place: Place) -> int:
        """Return a limit of what the run can save by changes on one device alone, found without a scan."""
        return int(self._most_alone_ns[self.places.index(place)])

    @cached_property
    def _most_alone_ns(self) -> Ints:
        """By place: no other device ends earlier than its waits for this one allow, and the run ends with the last."""
        windows_ns = np.asarray([self.devices[place].window_ns for place in self.places])
        stretches = np.asarray([self._stretch(place) for place in self.places])
        if isinstance(self.together, ContractedRun):
            return _most_alone(windows_ns, stretches, self.together.most_by_one)
        stretches = stretches[:, None]
        left_ns = windows_ns[:, None] - np.ceil(self.together.most_by_others * stretches)
        np.fill_diagonal(left_ns, 0)
        limits: Ints = (windows_ns.max() - left_ns.max(axis=0)).astype(np.int64)
        return limits

    @cached_property
    def _measured_between(self) -> dict[Place, tuple[int | None, int] | None]:
        """By place: the positions of the collectives between which its saving is measured."""
        return {place: _between(self.devices[place], self.together.positions[i]) for i, place in enumerate(self.places)}

    def _stretch(self, place: Place) -> float:
        """Return what a lead between the collectives of a place's measurement is of its window."""
        between = self._measured_between[place]
        if between is None:
            return 1.0
        return self.devices[place].window_ns / self._measured_ns(place, between)

    def _measured_ns(self, place: Place, between: tuple[int | None, int]) -> int:
        first, last = between
        ends = self.devices[place].facts.end_at
        # A window that begins ahead of its first op begins where it does, whatever is removed.
        begun_ns = int(self.devices[place].window["start_ns"]) if first is None else ends[first]
        return ends[last] - begun_ns

    def _of_run(self, what_ifs: Sequence[WhatIf], gains: Sequence[_Gain]) -> RunBound:
        """Return what the run saves with one what-if per place, from the gains between its collectives."""
        saved, least, lengths = {}, {}, {}
        for i, place in enumerate(self.places):
            between = self._measured_between[place]
            window_ns = self.devices[place].window_ns
            lengths[place] = window_ns
            if between is None:
                saved[place] = least[place] = self.bounds(*place, [what_ifs[i]])[0]
                continue
            measured_ns, gain = self._measured_ns(place, between), gains[i]
            saved[place] = min(max(0, round(gain.most_ns * window_ns / measured_ns)), window_ns)
            at_least = min(max(0, round((gain.most_ns - gain.open_ns) * window_ns / measured_ns)), window_ns)
            least[place] = saved[place] if not gain.open_ns else at_least
        most = _run_bound(lengths, saved)
        return most if least == saved else replace(most, least=_run_bound(lengths, least))


def _run_bound(lengths: Mapping[Place, int], saved: Mapping[Place, int]) -> RunBound:
    longest = max(lengths.values(), default=0)
    left = max((lengths[place] - saved[place] for place in lengths), default=0)
    return RunBound(longest - left, longest, saved)


def _held(scan: Scan) -> Scan:
    return scan


def _scan_of_place(devices: Mapping[Place, _Device], places: Sequence[Place], number: int) -> Scan:
    return devices[places[number]].scan


def _most_alone(windows_ns: Ints, stretches: NDArray[np.float64], most_by_one: Ints) -> Ints:
    """Return by place how much sooner the run ends at most where one device's changes give others no more than this."""
    limits = np.zeros(len(windows_ns), np.int64)
    others = np.arange(len(windows_ns))
    for at in np.flatnonzero(most_by_one).tolist():
        left_ns = windows_ns - np.ceil(most_by_one[at] * stretches).astype(np.int64)
        limits[at] = windows_ns.max() - left_ns[others != at].max(initial=0)
    # Without any gain of others, the run is as long as the longest of them.
    longest = np.partition(windows_ns, -2)[-2] if len(windows_ns) > 1 else 0
    alone = (most_by_one == 0) & (windows_ns == windows_ns.max())
    limits[alone] = np.maximum(0, windows_ns.max() - longest)
    return limits


def _at_worst(scan: Scan, uncertainty: str) -> Scan:
    return scan.with_slow_workers if uncertainty == LOADER_WORKERS else scan.with_possible_waits


def _apart(
    traces: Sequence[Mapping[str, int | None]], members: Sequence[Mapping[str, int | None]], windows_ns: int
) -> str | None:
    """Return why ranks cannot be scanned together."""
    world = max((row["world_size"] or 0 for row in traces), default=0)
    there = len({row["rank"] for row in traces})
    if world > there:
        return f"missing-ranks: {there} of {world} ranks {'is' if there == 1 else 'are'} in the run"
    if len(traces) > 1 and any(row["synchronises"] and row["wait_ns"] is None for row in members):
        return NOT_MATCHED
    messages = [row for row in members if not row["synchronises"] and (row["present_count"] or 0) > 1]
    sent_ns = sum((row["transfer_ns"] or 0) + (row["wait_ns"] or 0) for row in messages)
    return MESSAGES if sent_ns > IGNORED_SHARE * windows_ns else None


def _between(device: _Device, meetings: list[int]) -> tuple[int | None, int] | None:
    """Return the last collectives before the window and within it; None: there are no two.

    Ranks leave a collective together. The first kernel of a step, in contrast, also depends on how far its rank had run
    ahead.
    A window that begins ahead of its first op has no collective to begin with.
    """
    facts, ends = device.facts, device.facts.end_at
    opens, closes = facts.opens_at, facts.closes_at
    if opens is None or len(meetings) < 2:
        return None
    # Compared in launch order: what a step receives first may arrive before its first kernel.
    before = [position for position in meetings if position < opens]
    within = [position for position in meetings if closes is None or position < closes]
    last = within[-1] if within else meetings[0]
    if facts.only_in_window and device.window["first_op_id"] is None:
        return (None, last) if ends[last] > device.window["start_ns"] else None
    first = before[-1] if before else meetings[0]
    return (first, last) if ends[last] > ends[first] else None


def _limit(device: _Device, what_if: WhatIf) -> int:
    """Return the most that a what-if can save: the busiest compute stream's idle time, plus what ops get shorter by.

    Streams that took turns may run at once, but no stream gets faster than its own work.
    """
    savings = (what_if.savings or {}).values()
    shorter = int(np.maximum(np.fromiter(savings, np.int64, len(savings)), 0).sum())
    return min(device.window_ns, device.window_ns - int(device.window["busiest_stream_ns"]) + shorter)
