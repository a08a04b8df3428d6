"""The begin events of a thread whose ends are still to come."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

Row = tuple[Any, ...]


class OpenBegins:
    """Finds what an end event ends, in time that does not grow with the number of open events."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}  # by the order in which they began
        self._count = 0
        # Numbers of begin events by what an end may name: both, either or neither. Those that ended are still there.
        self._by_key: dict[tuple[str | None, str | None], list[int]] = defaultdict(list)

    def add(self, row: Row, name: str | None, category: str | None) -> None:
        """Open an event."""
        self._rows[self._count] = row
        for key in {(name, category), (name, None), (None, category), (None, None)}:
            self._by_key[key].append(self._count)
        self._count += 1

    def take(self, name: str | None, category: str | None) -> Row | None:
        """Close and return the innermost open event of a name and a category, of any where they are None."""
        numbers = self._by_key.get((name, category), [])
        while numbers:
            row = self._rows.pop(numbers.pop(), None)
            if row is not None:
                return row
        return None

    def left(self) -> list[Row]:
        """Return the events that are still open, in the order in which they began."""
        return list(self._rows.values())
