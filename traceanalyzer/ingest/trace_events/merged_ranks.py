"""Which ranks the processes of a file belong to, where tools merged the traces of several ranks into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from traceanalyzer.ingest.device_check import FEW_SHARE
from traceanalyzer.ingest.trace_events.rank_labels import labels_of, numbered

_NAMED_RANK = re.compile(r"(?i)(?<![a-z])(?<!local[ _-])rank[ _:#=-]*(\d{1,9})(?!\d)")
_WHOLE_NUMBER = re.compile(r"-?\d{1,18}")
# No operating system numbers its processes so high, and no tool that shifts them for each rank shifts them by less.
_LEAST_SHIFT = 10_000
_MOST_RANK = 2**31 - 1
# Of a device's work, how much one process launched at least: the first launches may lie before the recording.
_LEAST_OWN_SHARE = 0.9
# Of a device's work, how much starts after the launches of its own process: few records have wrong times.
_LEAST_POSSIBLE_SHARE = 0.99


class Process(Struct, frozen=True):
    """A process of the file; the places of its slices are numbers of events."""

    pid: str | None
    first_id: int
    call_count: int
    operator_count: int
    gpu_count: int
    slices: tuple[int, int] | None  # first and last
    names: Sequence[str]
    repeated_count: int = 0  # launches with the id of another one of the same name

    @property
    def works(self) -> bool:
        """Whether it has what a profiler of PyTorch records of a rank."""
        return self.call_count + self.operator_count + self.gpu_count > 0

    @property
    def is_host(self) -> bool:
        """Whether it has operators or calls of a runtime."""
        return self.call_count + self.operator_count > 0


class DeviceProcess(Struct, frozen=True):
    """A process that stands for a device: its number if all its work names the same, and the places of its work."""

    device: int | None
    first_id: int
    last_id: int


class RankPart(Struct, frozen=True):
    """Events of a process that are one rank's, from the first to the last, and the process's number in that rank."""

    pid: str | None
    own_pid: str | None
    group: int
    first_id: int = 0
    last_id: int = 2**62


class Merged(Struct, frozen=True):
    """The ranks of a file, and the processes of each; `ranks` are in the order of the groups.

    Processes of a program, whose ranks nothing tells, have names instead. Where all are drawn as one, the arguments of
    events tell whose they are.
    """

    ranks: tuple[int | None, ...]
    members: tuple[RankPart, ...]
    reason: str
    names: tuple[str, ...] = ()
    by_arguments: bool = False


class SeveralRanksError(Exception):
    """The file holds the processes of several ranks, and nothing tells whose work is whose."""


Devices = Mapping[str | None, DeviceProcess]
# Of each process that stands for a device, how much of its work has the id of a call of which process.
Launches = Mapping[str | None, Mapping[str | None, int]]


def find_ranks(
    processes: Sequence[Process],
    devices: Callable[[], Devices],
    launches: Callable[[bool], Launches],
    first_rank: int | None,
) -> Merged | None:
    """Return the ranks that were merged into a file; None where it holds one rank, as files do.

    What takes long is asked for where it is needed: `launches(True)` is of work that starts after its call. Tools that
    merge keep the first header, whose rank is `first_rank`. Raises SeveralRanksError where ranks cannot be separated.
    """
    hosts = [process for process in processes if process.call_count] or [p for p in processes if p.is_host]
    if any(host.operator_count and not host.gpu_count for host in hosts):
        # Calls may be drawn on the device that they are of, as releases of memory are by IBM's profiler.
        hosts = [host for host in hosts if host.operator_count or not host.gpu_count]
    if (labelled := _by_label(processes) or _by_name(processes)) is not None:
        return labelled
    if alike := [host.pid for host in hosts if host.repeated_count > max(1, FEW_SHARE * host.call_count)]:
        raise SeveralRanksError(f"process {alike[0]}")
    shifted = any((_number(process.pid) or 0) >= _LEAST_SHIFT for process in processes if process.gpu_count)
    if len(hosts) < 2 and not shifted:
        return None
    found = _by_shift(processes, device_of := devices(), first_rank)
    if found is None and len(hosts) > 1:
        if not device_of:
            return None  # a program of several processes
        counts = launches(False)
        found = (
            _by_ids(processes, hosts, counts, device_of, first_rank)
            or _by_place(processes, hosts, device_of, first_rank)
            or _by_own_calls(processes, hosts, counts, device_of, first_rank)
            or _by_order(processes, hosts, launches(True), device_of, first_rank)
        )
        if found is None:
            raise SeveralRanksError(f"processes {', '.join(str(host.pid) for host in hosts[:8])}")
    return found


def _by_label(processes: Sequence[Process]) -> Merged | None:
    """Sort processes by the label that the text of their number has, as the merger of SGLang writes it."""
    for labels in labels_of([process.pid or "" for process in processes]):
        label_of = {process.pid: label for process, label in zip(processes, labels, strict=True) if label is not None}
        working = [process for process in processes if process.works]
        parts: dict[str, set[str]] = {}
        for process in working:
            if process.pid in label_of:
                own_parts = ["host"] * process.is_host + ["device"] * (process.gpu_count > 0)
                parts.setdefault(label_of[process.pid].text, set()).update(own_parts)
        if len(parts) < 2 or any(process.pid not in label_of for process in working):
            continue
        used = {label.text: label for label in label_of.values() if label.text in parts}
        # A number without a word may be any, as in 3241.0 and 3241_0: of ranks, each has the same parts.
        if not all(label.has_words for label in used.values()) and len(set(map(frozenset, parts.values()))) > 1:
            continue
        names = list(used)
        ranks = numbered([used[name].parts for name in names], _MOST_RANK)
        if ranks is None:
            continue
        known = {
            pid: RankPart(pid, label.own, names.index(label.text))
            for pid, label in label_of.items()
            if label.text in used
        }
        shown = ", ".join(names[:4]) + (" …" if len(names) > 4 else "")
        return _merged(processes, known, ranks, f"their processes are labelled {shown}")
    return None


def _by_name(processes: Sequence[Process]) -> Merged | None:
    """Sort processes by the rank in their names, as TraceLens and HTA write it."""
    ranks: dict[str | None, int] = {}
    shown: list[str] = []
    for process in processes:
        found = {int(match[1]): name for name in process.names for match in _NAMED_RANK.finditer(name or "")}
        if len(found) > 1:
            return None  # the ranks share the process
        for rank, name in found.items():
            ranks[process.pid] = rank
            shown.append(name)
    working = [process for process in processes if process.works]
    used = sorted({ranks[process.pid] for process in working if process.pid in ranks})
    if len(used) < 2 or max(used) > _MOST_RANK or any(process.pid not in ranks for process in working):
        return None
    known = {pid: RankPart(pid, pid, used.index(rank)) for pid, rank in ranks.items() if rank in used}
    return _merged(processes, known, used, f"their processes are called “{shown[0]}”, “{shown[1]}” …")


def _by_shift(processes: Sequence[Process], devices: Devices, first_rank: int | None) -> Merged | None:
    """Sort processes by what was added to their numbers: without it, a device's process has the device's number."""
    shifts: dict[str | None, int] = {}
    for pid, device in devices.items():
        if (number := _number(pid)) is None or device.device is None:
            return None
        shifts[pid] = number - device.device
    used = sorted(set(shifts.values()))
    gaps = [later - earlier for earlier, later in pairwise(used)]
    if not gaps or min(gaps) < _LEAST_SHIFT or used[0] < 0:
        return None
    known: dict[str | None, RankPart] = {}
    for process in processes:
        if (number := _number(process.pid)) is None:
            continue
        below = [shift for shift in used if shift <= number]
        shift = shifts.get(process.pid, below[-1] if below else used[0])
        known[process.pid] = RankPart(process.pid, str(number - shift), used.index(shift))
    if any(process.works and process.pid not in known for process in processes):
        return None
    hosts = [known[process.pid].group for process in processes if process.is_host]
    if len(hosts) != len(set(hosts)):
        return None  # further ranks, without work on a device, may be among them
    stride = min(gaps)
    regular = all(shift % stride == 0 for shift in used)
    ranks = [shift // stride if regular else at for at, shift in enumerate(used)]
    # The header is that of the file which comes first; without it, the lowest is the first rank.
    begun = min((process.first_id, known[process.pid].group) for process in processes if process.works)[1]
    first = first_rank - ranks[begun] if first_rank is not None else -ranks[0]
    ranks = [rank + first for rank in ranks]
    if min(ranks) < 0 or max(ranks) > _MOST_RANK:
        return None
    words = ", ".join(f"{shift:,}" for shift in used[:4]) + (" …" if len(used) > 4 else "")
    return _merged(processes, known, ranks, f"the numbers of their processes are shifted by {words}")


def _by_ids(
    processes: Sequence[Process], hosts: Sequence[Process], launches: Launches, devices: Devices, first_rank: int | None
) -> Merged | None:
    """Sort the processes of devices by who launched their work, where the ranks have ids of their own."""
    group_of = {host.pid: group for group, host in enumerate(hosts)}
    known = {pid: RankPart(pid, pid, group) for pid, group in group_of.items()}
    reached: set[int] = set()
    for process in processes:
        if not process.gpu_count:
            continue
        counts = launches.get(process.pid, {})
        most = max(counts, key=lambda pid: counts[pid], default=None)
        if process.pid in known or most not in group_of:
            return None
        if counts[most] < _LEAST_OWN_SHARE * max(process.gpu_count, sum(counts.values())):
            return None
        known[process.pid] = RankPart(process.pid, process.pid, group_of[most])
        reached.add(group_of[most])
    if len(reached) < len(hosts):
        return None
    ranks = _by_device(_of_groups(known, devices), len(hosts), first_rank)
    return _merged(processes, known, ranks, "each device runs the work of one process")


def _of_groups(known: Mapping[str | None, RankPart], devices: Devices) -> list[tuple[int, int | None]]:
    return [(known[pid].group, device.device) for pid, device in devices.items()]


def _by_device(devices: Sequence[tuple[int, int | None]], count: int, first_rank: int | None) -> Sequence[int]:
    """Return the ranks of groups that lie in the file in any order: those of a host have its devices in their order.

    `devices` are the group and the number of each. The first group is `first_rank`, unless a device before its own says
    that the header is another one's. Where ranks share a device, or use several, they are numbered by their place.
    """
    device_of = {group: number for group, number in devices if number is not None}
    numbers = sorted(set(device_of.values()))
    if not len(devices) == len(device_of) == len(numbers) == count:
        return range(first_rank or 0, (first_rank or 0) + count)
    order = [numbers.index(device_of[group]) for group in range(count)]
    first = 0 if first_rank is None else first_rank - order[0]
    return [max(first, 0) + place for place in order]


def _by_order(
    processes: Sequence[Process], hosts: Sequence[Process], later: Launches, devices: Devices, first_rank: int | None
) -> Merged | None:
    """Sort the processes of devices by who can have launched their work, where the ranks number launches alike.

    Work starts after its launch. A process that alone can have launched a device's work did, and no other device's.
    """
    working = [process for process in processes if process.gpu_count]
    if len(working) != len(hosts) or any(device.pid in {host.pid for host in hosts} for device in working):
        return None
    able = {
        device.pid: {
            host.pid
            for host in hosts
            if later.get(device.pid, {}).get(host.pid, 0) >= _LEAST_POSSIBLE_SHARE * device.gpu_count
        }
        for device in working
    }
    owners: dict[str | None, dict[str | None, int]] = {}
    while sure := [device for device in working if len(able.get(device.pid, ())) == 1]:
        (owner,) = able.pop(sure[0].pid)
        owners[sure[0].pid] = {owner: sure[0].gpu_count}
        for others in able.values():
            others.discard(owner)
    return None if able else _by_ids(processes, hosts, owners, devices, first_rank)


def _by_place(
    processes: Sequence[Process], hosts: Sequence[Process], devices: Devices, first_rank: int | None
) -> Merged | None:
    """Sort events by their place: the files of the ranks were written one after the other into this one."""
    ordered = sorted(hosts, key=lambda host: host.first_id)
    places = [host.slices for host in ordered if host.slices is not None]
    if any(later[0] <= earlier[1] for earlier, later in pairwise(places)):
        return None
    # Each file begins with the names of its process.
    begins = [0, *(host.first_id for host in ordered[1:])]
    if any(begin <= earlier[1] for begin, earlier in zip(begins[1:], places, strict=False)):
        return None
    ends = [*(begin - 1 for begin in begins[1:]), 2**62]
    bounds = list(zip(begins, ends, strict=True))
    reached = {
        group
        for group, (begin, end) in enumerate(bounds)
        if any(device.first_id <= end and device.last_id >= begin for device in devices.values())
    }
    if len(reached) < len(bounds):
        return None  # a rank without work on a device: it lies elsewhere
    members = tuple(
        RankPart(process.pid, process.pid, group, begin, end)
        for process in processes
        for group, (begin, end) in enumerate(bounds)
    )
    of_groups = [
        (group, device.device)
        for device in devices.values()
        for group, (begin, end) in enumerate(bounds)
        if begin <= device.first_id and device.last_id <= end
    ]
    ranks = tuple(_by_device(of_groups, len(bounds), first_rank))
    pids = ", ".join(str(host.pid) for host in ordered[:4]) + (" …" if len(ordered) > 4 else "")
    reason = f"the events of processes {pids} lie one after the other"
    return Merged(ranks, members, f"{len(ranks)} ranks: {reason}")


def _by_own_calls(
    processes: Sequence[Process], hosts: Sequence[Process], launches: Launches, devices: Devices, first_rank: int | None
) -> Merged | None:
    """Sort events by their process, where each process shows its own calls and the work that they launched.

    They are ranks where the header is that of a rank.
    """
    own = {host.pid for host in hosts}
    for process in processes:
        launched = launches.get(process.pid, {}).get(process.pid, 0)
        if process.gpu_count and (process.pid not in own or launched < _LEAST_OWN_SHARE * process.gpu_count):
            return None
    if first_rank is None or any(host.gpu_count == 0 for host in hosts):
        return processes_apart({host.pid: host.pid for host in hosts}, processes)
    known = {host.pid: RankPart(host.pid, host.pid, group) for group, host in enumerate(hosts)}
    ranks = _by_device(_of_groups(known, devices), len(hosts), first_rank)
    return _merged(processes, known, ranks, "each process shows its calls and their work")


def processes_apart(owners: Mapping[str | None, str | None], processes: Sequence[Process]) -> Merged | None:
    """Return a trace for each process; `owners` are the processes that those of the file belong to."""
    pids = list(dict.fromkeys(owners.values()))
    if len(pids) < 2:
        return None
    known = {pid: RankPart(pid, pid, pids.index(owner)) for pid, owner in owners.items()}
    merged = _merged(processes, known, [0] * len(pids), "")
    names = tuple(f"pid{re.sub(r'[^A-Za-z0-9_.-]', '_', str(pid))}" for pid in pids)
    if len(set(names)) < len(names):
        names = tuple(f"{name}-{place}" for place, name in enumerate(names))
    return Merged((None,) * len(pids), merged.members, f"{len(pids)} processes", names)


def by_arrows(processes: Sequence[Process], devices: Iterable[str | None], launches: Launches) -> Merged | None:
    """Sort the processes of devices by whose arrows lead to their work; None where several share a device."""
    owners: dict[str | None, str | None] = {}
    shown = set(devices)
    for process in processes:
        if process.pid not in shown and process.slices is not None:
            owners[process.pid] = process.pid
    for pid in shown:
        counts = launches.get(pid, {})
        most = max(counts, key=lambda owner: counts[owner], default=None)
        if most not in owners or counts[most] < _LEAST_OWN_SHARE * sum(counts.values()):
            return None
        owners[pid] = most
    return processes_apart(owners, processes)


def _merged(
    processes: Sequence[Process], known: Mapping[str | None, RankPart], ranks: Sequence[int], reason: str
) -> Merged:
    """Return the ranks, each with the processes that are known to be its own, and others by their place in the file."""
    members = list(known.values())
    places = sorted((process.first_id, known[process.pid].group) for process in processes if process.pid in known)
    rest = [process for process in processes if process.pid not in known]
    if rest:
        firsts = _first_places(places)
        for process in rest:  # the profiler's own marks: they have no work, and each file has its own
            for group, (begin, end) in firsts.items():
                members.append(RankPart(process.pid, process.pid, group, begin, end))
    return Merged(tuple(ranks), tuple(members), f"{len(ranks)} ranks: {reason}")


def _first_places(places: Iterable[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Return the events from the first of each group to that of the next one."""
    firsts: dict[int, int] = {}
    for place, group in places:
        firsts.setdefault(group, place)
    ordered = sorted(firsts.items(), key=lambda item: item[1])
    begins = [0, *(place for _, place in ordered[1:])]
    ends = [*(begin - 1 for begin in begins[1:]), 2**62]
    return {group: bounds for (group, _), bounds in zip(ordered, zip(begins, ends, strict=True), strict=True)}


def _number(pid: str | None) -> int | None:
    return int(pid) if pid is not None and _WHOLE_NUMBER.fullmatch(pid) else None
