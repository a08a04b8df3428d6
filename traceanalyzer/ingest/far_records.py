"""Records that lie far outside a recording, each with a damaged time: they would stretch it to days or years."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Records are counted by this much time.
SLOT_NS = 60 * 10**9
# A few records are far where nothing happened for so long, and for so many times the length of the recording.
_SILENCE_NS = 600 * 10**9
_SILENCE_LENGTHS = 100
MOST_FAR = 3  # or this share of all
# A recorder that writes without pauses leaves no silence like this before or after so few records.
BRIEF_SILENCE_NS = SLOT_NS
_FEW_SHARE = 0.001


@dataclass(frozen=True)
class Slot:
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
