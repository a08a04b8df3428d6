"""The true time ledger of a simulated run: the cause of each interval without compute, known from the machine itself.

Each interval is cut as the ledger is defined. Until the launch of the kernel that ends it has arrived, the host is to
blame: the work of its issuing thread since the launch before, or since a later wait that began while compute ran. After
a blocking wait, light work is blamed on the wait, up to the length of the wait. From then on the device op whose end
let the kernel start is to blame. The part of a wait in which compute was idle belongs to the wait, and the host work
after it is blamed by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracesim.catalogue.recording import GpuOp

OWN_CODE = "host.python"
LIGHT_CAUSES = frozenset({"host.op", OWN_CODE, "host.launch_api"})
# Code of the program that runs this long without a call is more than what it does around a launch.
LONG_CODE_NS = 1_000_000


@dataclass(frozen=True)
class Absence:
    """One interval without compute, the op that ends it, and the blame for it by bucket (sums to its length)."""

    start_ns: int
    end_ns: int
    ended_by: int
    blame: Mapping[str, int]


def absences(ops: Sequence[GpuOp]) -> list[Absence]:
    """Return every interval between the first and the last compute kernel in which none ran."""
    intervals = []
    busy_until_ns: int | None = None
    for op in sorted((op for op in ops if op.is_compute), key=lambda op: (op.start_ns, op.index)):
        if busy_until_ns is not None and op.start_ns > busy_until_ns:
            blame = _blame(ops, op, busy_until_ns)
            intervals.append(Absence(busy_until_ns, op.start_ns, op.index, blame))
        busy_until_ns = max(op.end_ns, busy_until_ns or op.end_ns)
    return intervals


def ledger(ops: Sequence[GpuOp], start_ns: int, end_ns: int) -> dict[str, int]:
    """Return ns by bucket for a window whose edges are starts of compute kernels; sums to the window."""
    buckets: Counter[str] = Counter()
    for absence in absences(ops):
        if start_ns < absence.end_ns <= end_ns:
            buckets.update(absence.blame)
    buckets["compute"] = end_ns - start_ns - sum(buckets.values())
    return {bucket: dur_ns for bucket, dur_ns in sorted(buckets.items()) if dur_ns}


def _blame(ops: Sequence[GpuOp], kernel: GpuOp, start_ns: int) -> dict[str, int]:
    end_ns = kernel.start_ns
    blame: Counter[str] = Counter()
    host_end_ns = min(end_ns, kernel.host_ready_ns)
    if kernel.launch_end_ns <= start_ns:
        host_end_ns = start_ns
    # While the launch waits for a slot of the queue, the device is what is slow.
    full_from_ns = max(start_ns, kernel.launch_start_ns)
    full_to_ns = min(host_end_ns, kernel.launch_start_ns + kernel.queue_full_ns)
    full_ns = max(0, full_to_ns - full_from_ns)
    if host_end_ns - start_ns > full_ns:
        blame.update(kernel.settled)
        open_ns = host_end_ns - start_ns - full_ns - sum(kernel.settled.values())
        blame.update(host_blame(kernel.launch_delays, kernel.blocked_ns, open_ns, kernel.long_code_ns))
    if full_ns:
        blame["dev.unresolved"] += full_ns
    _device_blame(ops, kernel, max(start_ns, host_end_ns), blame)
    return {bucket: dur_ns for bucket, dur_ns in blame.items() if dur_ns}


def _device_blame(ops: Sequence[GpuOp], waiting: GpuOp, from_ns: int, blame: Counter[str]) -> None:
    """Blame the time from `from_ns` to an op's start on the chain of ops that it waited for."""
    if from_ns >= waiting.start_ns:
        return
    ready_ns = max(from_ns, waiting.start_ns - waiting.occupied_ns)
    blame["dev.unresolved"] += waiting.start_ns - ready_ns
    if waiting.producer is None:
        blame["host.launch_api"] += ready_ns - from_ns
        return
    producer = ops[waiting.producer]
    idle_from_ns = max(from_ns, min(producer.end_ns, ready_ns))
    same_graph = producer.graph_id is not None and producer.correlation == waiting.correlation
    blame["dev.graph_gap" if same_graph else "dev.dispatch"] += ready_ns - idle_from_ns
    runs_from_ns = max(from_ns, producer.start_ns)
    # Until its last rank was there, a collective waited for that rank; what a message waits for is its own doing.
    waited_ns = 0 if producer.collective is None or producer.collective.is_message else producer.waited_ns
    met_ns = min(max(producer.start_ns + waited_ns, runs_from_ns), idle_from_ns)
    if met_ns > runs_from_ns:
        blame["dev.straggler_wait"] += met_ns - runs_from_ns
    if idle_from_ns > met_ns:
        blame[_device_bucket(producer)] += idle_from_ns - met_ns
    if runs_from_ns > from_ns:
        _device_blame(ops, producer, from_ns, blame)


def _device_bucket(op: GpuOp) -> str:
    if op.collective is not None:
        return "dev.comm_p2p" if op.collective.is_message else "dev.comm_transfer"
    if op.copy is not None:
        return f"dev.{op.copy.copy_kind.lower().replace('to', '2')}"
    return "dev.memset" if op.kind == "memset" else "compute"


def host_blame(launch_delays: Mapping[str, int], blocked_ns: int, dur_ns: int, long_code_ns: int) -> dict[str, int]:
    """Split a host-late time by cause: over the host's work, and over the synchronisations that it waited in before.

    Of the program's own code, `long_code_ns` ran for long without a call: no wait explains that.
    """
    total_ns = sum(launch_delays.values())
    if total_ns == 0:
        return {"host.sync": dur_ns} if blocked_ns else {"host.launch_api": dur_ns}
    shares = {cause: dur_ns * amount_ns / total_ns for cause, amount_ns in launch_delays.items()}
    light = {cause: share for cause, share in shares.items() if cause in LIGHT_CAUSES}
    if long_code_ns:
        light[OWN_CODE] *= 1 - long_code_ns / launch_delays[OWN_CODE]
    by_sync = min(sum(light.values()), float(blocked_ns))
    if by_sync:
        passed = by_sync / sum(light.values())
        shares = {cause: share - passed * light.get(cause, 0.0) for cause, share in shares.items()}
        shares["host.sync"] = shares.get("host.sync", 0.0) + by_sync
    return _whole(shares, dur_ns)


def _whole(shares: Mapping[str, float], total_ns: int) -> dict[str, int]:
    """Round shares to whole ns that sum to the total, largest remainders first."""
    floors = {cause: int(share) for cause, share in shares.items()}
    rest = total_ns - sum(floors.values())
    order = sorted(shares, key=lambda cause: (floors[cause] - shares[cause], cause))
    for cause in order[:rest]:
        floors[cause] += 1
    return floors


class LaunchDelays:
    """Host time by cause since the issuing thread launched the last compute kernel."""

    def __init__(self) -> None:
        self._by_cause: Counter[str] = Counter()
        self._long_code_ns = 0
        self._code_ns = 0  # of the program's own, since its last call
        self._blocked_ns = 0
        self._settled: Counter[str] = Counter()  # blame for what compute has missed up to the last wait
        self._compute_end_ns = 0

    def add(self, cause: str, dur_ns: int) -> None:
        """Count host time to a cause."""
        self._by_cause[cause] += dur_ns
        self._code_ns = self._code_ns + dur_ns if cause == OWN_CODE else 0
        if self._code_ns >= LONG_CODE_NS:
            # What ran before became long with this piece.
            self._long_code_ns += dur_ns if self._code_ns - dur_ns >= LONG_CODE_NS else self._code_ns

    def _forget(self) -> None:
        self._by_cause.clear()
        self._long_code_ns = self._code_ns = 0

    def begin_wait(self, now_ns: int) -> bool:
        """Forget the host's work so far if compute still runs: without it the wait would only have been longer."""
        hidden = self._compute_end_ns > now_ns
        if hidden:
            self._forget()
        return hidden

    def waited(self, begin_ns: int, end_ns: int) -> None:
        """Settle what compute misses while the host waits for the device."""
        missed_ns = min(end_ns - begin_ns, max(0, end_ns - self._compute_end_ns))
        if missed_ns:
            late_ns = max(0, begin_ns - self._compute_end_ns) - sum(self._settled.values())
            self._settled.update(host_blame(self._by_cause, self._blocked_ns, late_ns, self._long_code_ns))
            self._settled["host.sync"] += missed_ns
            self._forget()
            self._blocked_ns = 0
        self._blocked_ns += end_ns - begin_ns - missed_ns

    def so_far(self) -> dict[str, Any]:
        """Return the fields of an op launched now."""
        return {
            "launch_delays": dict(self._by_cause),
            "long_code_ns": self._long_code_ns,
            "blocked_ns": self._blocked_ns,
            "settled": dict(self._settled),
        }

    def launched_compute(self, end_ns: int) -> None:
        """Begin anew: compute runs at least until `end_ns`."""
        self._forget()
        self._blocked_ns = 0
        self._settled.clear()
        self._compute_end_ns = max(self._compute_end_ns, end_ns)
