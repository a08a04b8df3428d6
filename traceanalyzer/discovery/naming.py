"""The order of trace files, and their ranks, by their names."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

_NUMBER = re.compile(r"[0-9]+")
# Adapters of low rank have a rank of their own.
_NO_ADAPTER = "".join(rf"(?<!{word}{mark})" for word in ("lora", "low") for mark in ("", "[-_. ]"))
_RANK = re.compile(rf"{_NO_ADAPTER}(?:local[-_.]?)?rank[-_.= ]?(?P<number>[0-9]{{1,6}})(?![0-9])", re.IGNORECASE)
_R = re.compile(rf"{_NO_ADAPTER}(?<![a-z0-9])r(?P<number>[0-9]{{1,6}})(?![a-z0-9])", re.IGNORECASE)
# Words that come before a rank, or before the number of a process, which the system gave it.
_WORKER = re.compile(r"(?P<word>worker|process|proc)[-_.= ]?(?P<number>[0-9]{1,6})(?![0-9])", re.IGNORECASE)
_MOST_WORKERS = 4096
_WORD_BEFORE = re.compile(r"([a-z]+)[^a-z0-9]*$", re.IGNORECASE)
# What a job can have several of on one rank: a number after one of these words tells recordings apart.
_NO_RANK = re.compile(
    r"attempt|batch(?:size)?|bench(?:mark)?|bsz?|capture|case|checkpoint|chunk|ckpt|conf(?:ig)?|copy|cycle|day|dump|epoch"
    r"|exp(?:eriment)?|graph|image|iter(?:ation)?s?|kernel|layer|len(?:gth)?|loop|mb|micro(?:batch)?|model|o|opt|part|phase"
    r"|pid|prompt|query|repeat|report|req(?:uest)?|round|run|sample|schedule|seed|segment|seq(?:len)?|session|snapshot"
    r"|stage|steps?|test|trial|try|v(?:ar(?:iant)?|er(?:sion)?)?|wait|warmup|window|workers|zero"
)
_PARALLEL = {"cp", "dcp", "device", "dp", "ep", "gpu", "pp", "tp"}
_EPOCH = "ep"  # or a place among experts: the times tell


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts rank10 after rank2; numbers are compared as text, for they may be of any length."""
    parts = (part for part in re.split(r"([0-9]+)", name) if part)
    return [(1, len(digits), digits) if (digits := _digits(part)) else (0, 0, part) for part in parts]


def _digits(part: str) -> str:
    return (part.lstrip("0") or "0") if _NUMBER.fullmatch(part) else ""


def _never(_: Sequence[int]) -> bool:
    return False


def ranks_from_names(names: Sequence[str], are_apart: Callable[[Sequence[int]], bool] = _never) -> list[int | None]:
    """Return the ranks that file names say; None for a name whose numbers may be stamps, dates, pids or steps.

    A number after `rank` or `r` is one. Others are where the numbers of files with otherwise equal names are
    nearly 0 to N-1: after a word for a place in a parallel job, or where the files are not of times `are_apart`, by
    their places in `names`.
    """
    ranks = _after_word(names)
    families: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        if ranks[index] is None:
            families[tuple(_NUMBER.split(name))].append(index)
    for texts, members in families.items():
        numbers = [_NUMBER.findall(names[index]) for index in members]
        place = _place_of_rank(texts, numbers)
        if place is not None and (_word_before(texts[place]) in _PARALLEL - {_EPOCH} or not are_apart(members)):
            for index, values in zip(members, numbers, strict=True):
                ranks[index] = int(values[place])
    return ranks


def _after_word(names: Sequence[str]) -> list[int | None]:
    """Return the numbers after words that mean a rank; a local rank is one where no other host has the same."""
    found = [_last(_RANK, name) or _last(_R, name) for name in names]
    local = Counter(match["number"] for match in found if match and _is_local(match))
    alone = [match is not None and not (_is_local(match) and local[match["number"]] > 1) for match in found]
    ranks = [int(match["number"]) if match and is_alone else None for match, is_alone in zip(found, alone, strict=True)]
    workers = {i: match for i, name in enumerate(names) if not found[i] and (match := _last(_WORKER, name))}
    numbers = {int(match["number"]) for match in workers.values()}
    are_workers = all(match["word"].lower() == "worker" for match in workers.values())
    if numbers and (_nearly_all_ranks(numbers) or (are_workers and max(numbers) < _MOST_WORKERS)):
        for index, match in workers.items():
            ranks[index] = int(match["number"])
    return ranks


def _is_local(match: re.Match[str]) -> bool:
    return match[0][:5].lower() == "local"


def _last(pattern: re.Pattern[str], name: str) -> re.Match[str] | None:
    """Return the last match: a folder comes before the name of its file."""
    return next(reversed(list(pattern.finditer(name))), None)


def _place_of_rank(texts: tuple[str, ...], numbers: Sequence[Sequence[str]]) -> int | None:
    """Return which number of a family of names is the rank; `texts` are the texts between the numbers."""
    columns = list(zip(*numbers, strict=True))
    varying = [place for place, values in enumerate(columns) if len(set(values)) > 1]
    words = list(map(_word_before, texts))
    likely = [
        place for place in varying if not _NO_RANK.fullmatch(words[place]) and _may_be_ranks(columns, texts, place)
    ]
    if len(varying) > 1:
        # Time stamps may vary beside the rank; then only the words for a place in a parallel job mean one.
        likely = likely if all(words[place] in _PARALLEL for place in likely) else []
    return likely[0] if len(likely) == 1 else None


def _word_before(text: str) -> str:
    return found[1].lower() if (found := _WORD_BEFORE.search(text)) else ""


def _may_be_ranks(columns: Sequence[Sequence[str]], texts: tuple[str, ...], place: int) -> bool:
    values = columns[place]
    if max(map(len, values)) > 6:
        return False
    is_time = place > 0 and not _WORD_BEFORE.search(texts[place])
    if is_time and all(len(value) == 2 for value in (*values, *columns[place - 1])):
        return False  # 10-00-01: a time of day, or a date
    return _nearly_all_ranks({int(value) for value in values})


def _nearly_all_ranks(numbers: set[int]) -> bool:
    """Return whether numbers are nearly 0 to N-1: 0 is there, and few are absent."""
    return 0 in numbers and max(numbers) < len(numbers) + max(1, len(numbers) // 3)
