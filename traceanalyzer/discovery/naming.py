"""The order of trace files, and their ranks, by their names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

# Digits are 0 to 9 here: other scripts' digits are letters of a name. Stamps, dates and process ids have more of them.
_RANK_WORD = re.compile(r"(?:rank|worker)[-_.]?([0-9]{1,6})(?![0-9])", re.IGNORECASE)
_RANK_LETTER = re.compile(r"(?<![A-Za-z0-9])r([0-9]{1,6})(?![A-Za-z0-9])")
_NUMBER = re.compile(r"[0-9]+")
# PyTorch's tensorboard_trace_handler: HOST_PID.NANOSECONDS.pt.trace.json; numbers of the host's own name are no ranks.
_HOST_AND_PROCESS = re.compile(r"[^/]*_[0-9]+\.[0-9]{10,}(?=\.pt\.trace\.json)")
# What a number after these words counts is recorded one after the other, or is a size.
_NO_RANK_WORDS = re.compile(
    r"(?:iter(?:ation)?|step|epoch|cycle|batch|bs|size|len|seq|report|run|attempt|try|version|v|pid|part)[-_.=]?$",
    re.IGNORECASE,
)
_MOST_RANK_DIGITS = 6


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts rank10 after rank2."""
    parts = (part for part in re.split(r"([0-9]+)", name) if part)
    return [(1, len(number), number) if (number := _digits(part)) else (0, 0, part) for part in parts]


def ranks_from_names(names: Sequence[str]) -> list[int | None]:
    """Return the rank that each file name states; None where it states none.

    A name states a rank after the word rank or worker, or as r3. A family of names that differ in numbers states ranks
    where one of these is nearly 0 to N - 1. Stamps, dates, process ids, iterations and sizes are no ranks.
    """
    ranks = [_stated_rank(name) for name in names]
    families: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        if ranks[index] is None:
            families[tuple(_NUMBER.split(name))].append(index)
    for words, members in families.items():
        columns = list(zip(*(_NUMBER.findall(names[index]) for index in members), strict=True))
        counting = [column for column, word in zip(columns, words, strict=False) if _count_ranks(column, word)]
        if len(counting) == 1:
            for index, number in zip(members, counting[0], strict=True):
                ranks[index] = int(number)
    return ranks


def _digits(part: str) -> str | None:
    """Return the digits of a number without leading zeros, as texts of the same length sort like numbers."""
    return (part.lstrip("0") or "0") if part.isascii() and part.isdecimal() else None


def _stated_rank(name: str) -> int | None:
    default = _HOST_AND_PROCESS.search(name)
    if default:
        stated = re.search(r"rank[-_.]?([0-9]{1,6})(?![0-9])", default[0], re.IGNORECASE)
    else:
        stated = _RANK_WORD.search(name) or _RANK_LETTER.search(name)
    return int(stated[1]) if stated else None


def _count_ranks(numbers: Sequence[str], word_before: str) -> bool:
    """Say whether the numbers at one place of several names are the ranks of a job: distinct, and nearly 0 to N - 1."""
    if len(numbers) < 2 or _NO_RANK_WORDS.search(word_before) or max(map(len, numbers)) > _MOST_RANK_DIGITS:
        return False
    found = {int(number) for number in numbers}
    return len(found) == len(numbers) and 0 in found and max(found) < len(found) + max(1, len(found) // 4)
