"""The order of trace files, and their ranks, by their names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

_RANK_IN_NAME = re.compile(r"(?:rank|worker|proc|process)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts rank10 after rank2."""
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"(\d+)", name) if part]


def ranks_from_names(names: Sequence[str]) -> list[int | None]:
    """Return the ranks in file names: the number after rank or worker, or the only number in which names differ."""
    ranks = [int(match[1]) if (match := _RANK_IN_NAME.search(name)) else None for name in names]
    families: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        if ranks[index] is None:
            families[tuple(_NUMBER.split(name))].append(index)
    for members in families.values():
        numbers = [_NUMBER.findall(names[index]) for index in members]
        varying = [place for place, values in enumerate(zip(*numbers, strict=True)) if len(set(values)) > 1]
        if len(members) > 1 and len(varying) == 1:
            for index, values in zip(members, numbers, strict=True):
                ranks[index] = int(values[varying[0]])
    return ranks
