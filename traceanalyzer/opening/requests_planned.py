"""How many requests of an object store opening a run takes: stores are paid by the request."""

from __future__ import annotations

from dataclasses import dataclass

# Files of a JSON trace, of what attribution says of one trace, and of a whole run; each with its done.json.
_TRACE_FILES, _RANK_FILES, _DERIVED_FILES, _MATCHED_FILES = 19, 9, 14, 5
_PAGE_OBJECTS = 1_000


@dataclass(frozen=True)
class Requests:
    """Requests of an object store: those that read, with listings, and those that write."""

    reads: int = 0
    writes: int = 0

    def __add__(self, other: Requests) -> Requests:
        return Requests(self.reads + other.reads, self.writes + other.writes)

    def times(self, count: int) -> Requests:
        """Return the requests of so many such things."""
        return Requests(count * self.reads, count * self.writes)


# All of a trace; its beginning, by which it is known, was read for the plan, which remembers what it is.
_READ = Requests(reads=1)
# Its tables and its record are published where they are not.
_PUBLISH = Requests(reads=2, writes=_TRACE_FILES + 1)
_LOOK = Requests(reads=1)
# Which of its files count, a listing, and these; whether a run is attributed is asked before.
_FETCH_TRACE = Requests(reads=1 + _TRACE_FILES)
_FETCH_DERIVED = Requests(reads=_DERIVED_FILES)


def of_objects(count: int, new: int) -> Requests:
    """Return the requests for a run of so many objects, of which so many are read."""
    return Requests(reads=-(-count // _PAGE_OBJECTS)) + _READ.times(new)


def of_shared_store(
    new: int, to_fetch: int, here: int, to_attribute: int, *, attribution: bool, on_workers: bool
) -> Requests:
    """Return the requests of a store in a bucket: for traces to publish, to fetch, that are here, and to attribute.

    Workers elsewhere find their run and their store in the same place; what they fetch of each other is not counted.
    """
    found = Requests(reads=1, writes=1 if new else 0)  # that the place is a store, or is made one
    found += _PUBLISH.times(new) + _FETCH_TRACE.times(to_fetch) + _LOOK.times(here)
    if on_workers:
        found += _LOOK.times(2 * new)
    if not attribution:
        return found
    found += (
        Requests(reads=1, writes=2 if new or to_attribute else 0) + _LOOK
    )  # the run's record; whether it is attributed
    if not to_attribute:
        return found + (_FETCH_DERIVED if to_fetch else Requests())
    found += Requests(writes=_DERIVED_FILES) + _LOOK.times(1 + to_attribute)
    if on_workers:
        found += Requests(reads=1, writes=_MATCHED_FILES) + Requests(reads=4, writes=_RANK_FILES).times(to_attribute)
    return found
