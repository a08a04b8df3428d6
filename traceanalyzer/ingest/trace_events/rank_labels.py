"""Labels of ranks in what tools write for the numbers of processes, where they merge files of several ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Words that stand before the number of a rank, in labels of processes and in their names.
_DIMENSION = re.compile(r"(?i)(?<![a-z])(rank|tp|dp|pp|ep|cp|sp|r)(?:[ _:#=-]*rank)?[ _:#=-]*(\d{1,9})(?!\d)")
# A label before or behind the number of a process: [TP00-PP01] 3241, rank 0: 3241, 3241 (rank 0), 0/3241, 3241_0.
_LABELS = (
    re.compile(r"^\s*(?P<label>\[[^\]]*\]|\([^)]*\)|<[^>]*>)[ :/_-]*(?P<own>.*)$"),
    re.compile(r"(?i)^\s*(?P<label>(?:[ _/.-]*(?:rank|tp|dp|pp|ep|cp|sp|r)[ _:#=-]*\d+)+)(?:[ :/_.-]+(?P<own>.*))?$"),
    re.compile(r"^(?P<own>.*?)[ :/_-]*(?P<label>\[[^\]]*\]|\([^)]*\))$"),
    re.compile(r"(?i)^(?P<own>\d+|\w*?)[ :/_@.-]+(?P<label>(?:[ _/.-]*(?:rank|tp|dp|pp|ep|cp|sp|r)[ _:#=-]*\d+)+)$"),
)
_NUMBERS = (
    re.compile(r"^(?P<label>\d{1,9})[:/_.-](?P<own>\d+)$"),
    re.compile(r"^(?P<own>\d+)[:/_.-](?P<label>\d{1,9})$"),
)


@dataclass(frozen=True)
class Label:
    """A label as it is written, the text beside it, and what it says: ((tp, 0), (pp, 1)), or its only number."""

    text: str
    own: str
    parts: tuple[tuple[str, int], ...]
    has_words: bool


def labels_of(pids: Sequence[str]) -> Iterator[list[Label | None]]:
    """Return the labels of processes, in each of the ways in which tools write them.

    Of two numbers, ranks are the lower ones.
    """
    for pattern in _LABELS:
        yield _read(pattern, pids)
    yield from sorted((_read(pattern, pids) for pattern in _NUMBERS), key=_largest)


def _read(pattern: re.Pattern[str], pids: Sequence[str]) -> list[Label | None]:
    return [_label(match) if (match := pattern.match(pid)) else None for pid in pids]


def _largest(labels: Sequence[Label | None]) -> int:
    return max((number for label in labels if label is not None for _, number in label.parts), default=0)


def _label(match: re.Match[str]) -> Label | None:
    text, own = match["label"].strip(), (match["own"] or "").strip()
    if found := tuple((part[1].lower(), int(part[2])) for part in _DIMENSION.finditer(text)):
        return Label(text, own, found, has_words=True)
    numbers = re.findall(r"\d{1,9}", text)
    return Label(text, own, (("rank", int(numbers[0])),), has_words=False) if len(numbers) == 1 else None


def numbered(labels: Sequence[tuple[tuple[str, int], ...]], most: int) -> list[int] | None:
    """Return the ranks that labels mean: a number that says so, else the place in the grid of the dimensions.

    None where they are no ranks that differ, or ranks beyond `most`.
    """
    sides = [dict(label) for label in labels]
    if len({frozenset(side.items()) for side in sides}) < len(sides):
        return None
    for word in ("rank", "r"):
        named = [side.get(word) for side in sides]
        if None not in named and len(set(named)) == len(named):
            return [number for number in named if number is not None]
    varying = [word for word in ("dp", "pp", "cp", "sp", "tp", "ep") if len({side.get(word) for side in sides}) > 1]
    # Dimensions that follow from others, such as experts on the ranks of tensor parallelism, say nothing more.
    telling = varying
    for word in ("ep", "sp", "cp", "dp"):
        fewer = [other for other in telling if other != word]
        if fewer and len({tuple(side.get(other) for other in fewer) for side in sides}) == len(sides):
            telling = fewer
    ranks = []
    for side in sides:
        rank = 0
        for word in telling:
            rank = rank * (max(other.get(word, 0) for other in sides) + 1) + side.get(word, 0)
        ranks.append(rank)
    return ranks if len(set(ranks)) == len(ranks) and max(ranks) <= most else None
