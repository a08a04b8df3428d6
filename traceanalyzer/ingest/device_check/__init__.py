"""Whether the records of devices fit together: with the order of their streams, and with the clock of the host.

Records that lie far outside a recording have a damaged time each: they would stretch it to days or years.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import duckdb

# Records are counted by this much time.
SLOT_NS = 60 * 10**9
# A few records are far where nothing happened for so long, and for so many times the length of the recording.
_SILENCE_NS = 600 * 10**9
_SILENCE_LENGTHS = 100
MOST_FAR = 3  # or this share of all
# A recorder that writes without pauses leaves no silence like this before or after so few records.
BRIEF_SILENCE_NS = SLOT_NS
_FEW_SHARE = 0.001


class Slot(Struct, frozen=True):
    """The records that start in one slot of time: how many, the first and the last."""

    count: int
    first_ns: int
    last_ns: int


def recording_of(
    slots: Iterable[Slot], *, least_count: int = 10, few_silence_ns: int = _SILENCE_NS
) -> tuple[int, int] | None:
    """Return the first and the last start that belongs to a recording; None: there are no records.

    Of fewer records than `least_count` in one place, all belong to it. Up to MOST_FAR records are far where nothing
    happened for `few_silence_ns`.
    """
    ordered = sorted(slots, key=lambda slot: slot.first_ns)
    if not ordered:
        return None
    total = sum(slot.count for slot in ordered)
    groups: list[Slot] = []
    for slot in ordered:
        if groups and slot.first_ns - groups[-1].last_ns < few_silence_ns:
            before = groups.pop()
            slot = Slot(before.count + slot.count, before.first_ns, slot.last_ns)
        groups.append(slot)
    main = max(range(len(groups)), key=lambda at: groups[at].count)
    if groups[main].count < least_count:
        return groups[0].first_ns, groups[-1].last_ns
    length_ns = groups[main].last_ns - groups[main].first_ns
    most = max(MOST_FAR, int(_FEW_SHARE * total))

    def is_far(beyond: list[Slot], gap_ns: int) -> bool:
        count = sum(group.count for group in beyond)
        least_ns = silence_ns(length_ns, few_silence_ns if count <= MOST_FAR else _SILENCE_NS)
        return count <= most and gap_ns >= least_ns

    first = last = main
    while first > 0 and not is_far(groups[:first], groups[first].first_ns - groups[first - 1].last_ns):
        first -= 1
    while last + 1 < len(groups) and not is_far(groups[last + 1 :], groups[last + 1].first_ns - groups[last].last_ns):
        last += 1
    return groups[first].first_ns, groups[last].last_ns


def silence_ns(length_ns: int, least_ns: int = _SILENCE_NS) -> int:
    """Return how far from a recording of a length a record lies that has a damaged time."""
    return max(least_ns, _SILENCE_LENGTHS * length_ns)


# Times are rounded, some of them to whole microseconds.
ROUNDING_NS = 1_000
# Real recordings have operations that overlap with the next one of their stream by some 10 µs.
_OVERLAP_NS = 100_000
# Profilers align the clocks of host and device to a few microseconds.
CLOCK_NS = 50_000
# So many records of a stream may be damaged before it is the order of the stream that is unknown.
FEW, FEW_SHARE = 3, 0.05
# Work beside much other work of its stream is too long if it lasts so many times as long as equal work.
_TOO_LONG = 100
# The strictest of so many bounds are taken for those of damaged records, but for the last of them.
_OUTLIERS = 3
# No work starts sooner after its launch was called, and no call returns sooner after the work that it waits for.
_LAUNCH_NS, _RETURN_NS = 5_000, 4_000
# A device that was idle for so long starts what it gets within a millisecond, and always as soon.
SLOW_LAUNCH_NS = 1_000_000
_IDLE_NS, _LEAST_LAUNCHES = 10_000, 12
# If clocks drift, the delays of its launches lie so well on a line that rises by no more than that. Queues grow faster.
_DRIFT_FIT, _MOST_DRIFT = 0.99, 0.1
# Nothing is queued for so long.
_NEVER_QUEUED_NS = 3_600 * 10**9
_NO_OVERRUNS = "CREATE OR REPLACE TEMP TABLE overruns (op_id BIGINT, name VARCHAR, recorded_ns BIGINT, dur_ns BIGINT)"

# defect → (severity, what it means)
DEVICE_DEFECTS = {
    "repeated-record": (
        "repair",
        "the file holds work or calls twice, of one launch at one time of one stream or thread; each counts once",
    ),
    "overrun-duration": (
        "repair",
        "work on a device is recorded as running when work that waits for it had begun, or when a call that waits for "
        "it had returned: its duration is damaged, and read as that of equal work",
    ),
    "misplaced-start": (
        "repair",
        "work on a device is recorded as starting out of the order of its launches: its start is damaged, and "
        "read as after what is ahead of it",
    ),
    "clock-shifted": (
        "repair",
        "the clocks of host and device differ: calls return before the work that they wait for ends, or work starts "
        "before its launch; all times of the device were moved by what these records prove",
    ),
    "clocks-contradict": (
        "loss",
        "the clocks of host and device differ, and not always by the same: times of the two cannot be compared",
    ),
}
# Of XLA's profiles, also as JSON.
PROFILED_DEFECTS = {
    "device-clock-mapped": (
        "note",
        "the profiler maps the device's clock to the host's unevenly; operations are timed by the device's own clock, "
        "and the greatest distance of the two is the example",
    ),
    "unset-launch-values": (
        "note",
        "the profiler wrote registers or shared memory that no device has (it never set them); they are unknown",
    ),
    "programs-as-work": (
        "note",
        "a TPU shows runs of programs and no operations: each run counts as work from its start to its end, so what "
        "waits inside it counts as work, too; record operations as well",
    ),
}


class Findings(Struct, frozen=True):
    """What is wrong: `shifts_ns` by which clocks of devices are ahead, times of damaged operations, defects."""

    shifts_ns: dict[int, int]
    starts_ns: dict[int, int]  # by op_id, on the clock of the device
    durations_ns: dict[int, int]  # by op_id
    defects: dict[str, tuple[int, str]]  # count and example

    def __bool__(self) -> bool:
        return bool(self.shifts_ns or self.starts_ns or self.durations_ns)

    @contextmanager
    def corrections(self, database: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Offer what is right as tables: `device_fixes` of operations, `device_shifts` of devices."""
        database.execute("CREATE TEMP TABLE device_fixes (op_id BIGINT, fixed_start_ns BIGINT, fixed_ns BIGINT)")
        for op_id in sorted(self.starts_ns.keys() | self.durations_ns.keys()):
            row = [op_id, self.starts_ns.get(op_id), self.durations_ns.get(op_id)]
            database.execute("INSERT INTO device_fixes VALUES ($1, $2, $3)", row)
        database.execute("CREATE TEMP TABLE device_shifts (shifted INTEGER, shift_ns BIGINT)")
        for shift in self.shifts_ns.items():
            database.execute("INSERT INTO device_shifts VALUES ($1, $2)", list(shift))
        yield
        database.execute("DROP TABLE device_fixes; DROP TABLE device_shifts")


# The times of operations beside which the tables of corrections stand.
CORRECTED = (
    "coalesce(fixed_start_ns, start_ns) - coalesce(shift_ns, 0) AS start_ns, coalesce(fixed_ns, dur_ns) AS dur_ns"
)


def check_device_records(database: duckdb.DuckDBPyConnection, *, launched_in_order: bool = True) -> Findings:
    """Return what is wrong with the records of the views `device_work` and `device_waits`.

    `device_work` has a row an operation: op_id, device, stream, lane (whose operations run in order), name, size_bytes,
    start_ns, end_ns, is_ordered (it starts after what is ahead of it in its lane), is_read_back (its call returns after
    it), correlation (an id that counts launches), and call_start_ns and call_end_ns of its launch. `device_waits` has a
    row a call that returns after work on a stream, or on all of a device (NULL), that was launched before: device,
    stream, start_ns, end_ns. Work that several threads launch is not `launched_in_order`: no launch proves a start.
    """
    defects: dict[str, tuple[int, str]] = {}
    _bound_work(database)
    starts_ns = _starts_in_order(database, defects) if launched_in_order else {}
    _find_overruns(database, clocks_agree=False)
    shifts, apart, contradicted = _clocks(database)
    if apart:
        defects["clocks-contradict"] = (contradicted, apart)
    for device, shift_ns in shifts.items():
        sooner = "UPDATE bounded_work SET start_ns = start_ns - $ns, end_ns = end_ns - $ns, next_ns = next_ns - $ns, "
        database.execute(
            sooner + "next_end_ns = next_end_ns - $ns WHERE device = $device", {"ns": shift_ns, "device": device}
        )
    if shifts:
        text = "; ".join(f"device {device}: {_signed_s(shift_ns)}" for device, shift_ns in sorted(shifts.items()))
        defects["clock-shifted"] = (len(shifts), text)
    if not apart:
        _find_overruns(database, clocks_agree=True)
    damaged = database.execute("SELECT op_id, name, recorded_ns, dur_ns FROM overruns ORDER BY op_id").fetchall()
    if damaged:
        _, name, recorded_ns, _ = max(damaged, key=lambda row: row[2])
        defects["overrun-duration"] = (len(damaged), f"{recorded_ns / 1e6:,.3f} ms of {name}")
    database.execute("DROP TABLE bounded_work; DROP TABLE overruns")
    return Findings(shifts, starts_ns, {op_id: dur_ns for op_id, _, _, dur_ns in damaged}, defects)


def _bound_work(database: duckdb.DuckDBPyConnection) -> None:
    # Imported where work is checked: other readers take the words for defects alone from here.
    from traceanalyzer.ingest.device_check.bounds import bound_work

    bound_work(database)


def _starts_in_order(database: duckdb.DuckDBPyConnection, defects: dict[str, tuple[int, str]]) -> dict[int, int]:
    """Correct the starts in `device_work` that contradict the order of launches, and return them by operation.

    Launches whose own times contradict it have none there any more. `bounded_work` says whether there are any.
    """
    if not database.execute("SELECT bool_or(is_out_of_order) FROM bounded_work").fetchall()[0][0]:
        return {}
    values = {"overlap_ns": _OVERLAP_NS, "few": FEW, "few_share": FEW_SHARE}
    database.execute(_sql("misplaced_starts"), values)
    found = database.execute("FROM misplaced_starts ORDER BY op_id").fetchall()
    rows = [row for row in found if row[3] is not None]
    if len(found) > len(rows):
        calls = "SELECT op_id FROM misplaced_starts WHERE start_ns IS NULL"
        timeless = f"UPDATE device_work SET call_start_ns = NULL, call_end_ns = NULL WHERE op_id IN ({calls})"
        database.execute(timeless)
    if rows:
        _, name, recorded_ns, start_ns = max(rows, key=lambda row: abs(row[2] - row[3]))
        late_ns = recorded_ns - start_ns
        example = f"{name} {abs(late_ns) / 1e6:,.3f} ms {'late' if late_ns > 0 else 'early'}"
        defects["misplaced-start"] = (len(rows), example)
        database.execute(
            "UPDATE device_work SET start_ns = other.start_ns, end_ns = end_ns - device_work.start_ns + other.start_ns "
            "FROM misplaced_starts AS other WHERE other.op_id = device_work.op_id AND other.start_ns IS NOT NULL"
        )
    database.execute("DROP TABLE misplaced_starts")
    if found:
        _bound_work(database)
    return {op_id: start_ns for op_id, _, _, start_ns in rows}


def _find_overruns(database: duckdb.DuckDBPyConnection, *, clocks_agree: bool) -> None:
    values = {
        "rounding_ns": ROUNDING_NS,
        "overlap_ns": _OVERLAP_NS,
        "clock_ns": CLOCK_NS,
        "clocks_agree": clocks_agree,
    }
    database.execute(_sql("suspects"), values)
    # Planning the search takes longer than most traces' rows, and sound traces have none to look for.
    if database.execute("FROM suspects LIMIT 1").fetchall():
        database.execute(_sql("overruns"), {"few": FEW, "few_share": FEW_SHARE, "times": _TOO_LONG})
    else:
        database.execute(_NO_OVERRUNS)
    database.execute("DROP TABLE suspects")


def _clocks(database: duckdb.DuckDBPyConnection) -> tuple[dict[int, int], str, int]:
    """Return by how much clocks of devices are ahead, which of them contradict themselves, and in how many records."""
    shifts: dict[int, int] = {}
    apart: list[str] = []
    contradicted = 0
    rows = database.execute(_sql("clock_bounds"), {"outliers": _OUTLIERS, "clock_ns": CLOCK_NS}).fetchall()
    for device, call_delays_ns, most_ns, work_count, early_count, late_count, apart_ns in rows:
        if most_ns is None:
            continue
        drift_share = _drift(database, device) if abs(apart_ns or 0) > CLOCK_NS // 4 else None
        if drift_share:
            speed = "slower" if drift_share < 0 else "faster"
            apart.append(f"device {device}: {100 * abs(drift_share):.2f} % {speed} than the host")
            contradicted += work_count
            continue
        least_ns = call_delays_ns[-1] if call_delays_ns else None
        is_early, is_late = most_ns < -CLOCK_NS, least_ns is not None and least_ns > CLOCK_NS
        if (is_early or is_late) and least_ns is not None and least_ns > most_ns + CLOCK_NS:
            if max(early_count, late_count) > max(FEW, FEW_SHARE * work_count):
                apart.append(f"device {device}: between {_signed_s(most_ns)} and {_signed_s(least_ns)}")
                contradicted += early_count + late_count
        elif is_early:
            shifts[device] = most_ns - _LAUNCH_NS if least_ns is None else max(most_ns - _LAUNCH_NS, least_ns)
        elif is_late and least_ns is not None:
            # One call waits for several operations. The last of them gives the strictest bound, if it is not damaged.
            least_ns = int(next((late_ns for late_ns in call_delays_ns if late_ns <= most_ns), least_ns))
            is_narrow = most_ns - least_ns <= CLOCK_NS  # then the bound by launches is the better one
            shifts[device] = max(most_ns - _LAUNCH_NS, least_ns) if is_narrow else least_ns + _RETURN_NS
        elif least_ns is None and most_ns > SLOW_LAUNCH_NS and _is_launch_delay(database, device, most_ns):
            shifts[device] = most_ns - _LAUNCH_NS
        elif least_ns is None and most_ns > _NEVER_QUEUED_NS:
            shifts[device] = most_ns
    return shifts, "; ".join(apart), contradicted


def _is_launch_delay(database: duckdb.DuckDBPyConnection, device: int, delay_ns: int) -> bool:
    """Tell whether an idle device starts what is launched no sooner, and mostly no later: its clock is ahead."""
    count, usual_ns, returned_ns, *_ = _idle_launches(database, device)
    return bool(count >= _LEAST_LAUNCHES and usual_ns - delay_ns <= CLOCK_NS and returned_ns > SLOW_LAUNCH_NS)


def _drift(database: duckdb.DuckDBPyConnection, device: int) -> float | None:
    """Return by which share of the time a device's clock runs faster than the host's; None: it does not."""
    *_, count, share, drifted_ns, fit = _idle_launches(database, device)
    is_line = count >= _LEAST_LAUNCHES and (fit or 0) >= _DRIFT_FIT
    return share if is_line and abs(drifted_ns) > CLOCK_NS // 2 and abs(share) <= _MOST_DRIFT else None


def _idle_launches(database: duckdb.DuckDBPyConnection, device: int) -> Sequence[Any]:
    (found,) = database.execute(_sql("idle_launches"), {"device": device, "idle_ns": _IDLE_NS}).fetchall()
    return found


def _signed_s(time_ns: int) -> str:
    return f"{abs(time_ns) / 1e9:,.6f} s {'ahead of' if time_ns > 0 else 'behind'} the host"


@cache
def _sql(name: str) -> str:
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
