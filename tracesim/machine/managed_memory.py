"""Moves of managed memory as real exports show them: pieces of 2 MiB ahead of use, or a fault and what follows it."""

from __future__ import annotations

from collections.abc import Iterator

from tracesim.catalogue.recording import Migration

# As measured in a public export of a PCIe device: 2 MiB in 336 us when the program moves them ahead; each fault moves
# its page in 2.3 us, and 336 KiB around it in 57 us once the fault is served.
_AHEAD_BYTES, _AHEAD_NS = 2 << 20, 336_000
_PAGE_BYTES, _PAGE_NS = 4096, 2_300
_AROUND_BYTES, _AROUND_NS = 336 << 10, 57_000
_SERVING_NS = 10_000


def moved_ahead(device: int, start_ns: int, size_bytes: int) -> Iterator[Migration]:
    """Yield the moves of a prefetch to the device, one after the other."""
    for number in range(-(-size_bytes // _AHEAD_BYTES)):
        begin_ns = start_ns + number * _AHEAD_NS
        yield Migration(device, begin_ns, begin_ns + _AHEAD_NS, _AHEAD_BYTES, "HtoD", "user prefetch")


def moved_on_demand(
    device: int, start_ns: int, size_bytes: int, copy_kind: str, function: str | None = None
) -> Iterator[Migration]:
    """Yield the moves of memory that is touched where it does not lie: a page that faults, then its surroundings."""
    for number in range(_fault_count(size_bytes)):
        fault_ns = start_ns + number * (_SERVING_NS + _PAGE_NS + _AROUND_NS) + _SERVING_NS
        page_ns = fault_ns + _PAGE_NS
        yield Migration(device, fault_ns, page_ns, _PAGE_BYTES, copy_kind, "page fault", function)
        yield Migration(
            device, page_ns, page_ns + _AROUND_NS, _AROUND_BYTES, copy_kind, "speculative prefetch", function
        )


def demand_ns(size_bytes: int) -> int:
    """Return how long the moves of memory that is touched take."""
    return _fault_count(size_bytes) * (_SERVING_NS + _PAGE_NS + _AROUND_NS)


def _fault_count(size_bytes: int) -> int:
    return -(-size_bytes // (_PAGE_BYTES + _AROUND_BYTES))
