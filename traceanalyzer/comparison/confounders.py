"""What else differs between two sides: what forbids a verdict, and what is only named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from traceanalyzer.comparison.aligning import LEAST_MATCHED_SHARE, Alignment
from traceanalyzer.comparison.options import CompareOptions
from traceanalyzer.comparison.sides import mean_named
from traceanalyzer.comparison.summary import Fact, Summary

# Launches a unit that differ by less are the same program.
SAME_LAUNCHES_SHARE = 0.01
# Facts that say the same as another one.
_IMPLIED = {"sm_count": "gpu", "memory_bytes": "gpu", "rank_count": "world_size", "vendor": "gpu"}


@dataclass(frozen=True)
class Confounder:
    """A difference besides the program: its key for --accept-difference, and both sides in words."""

    key: str
    base: str
    new: str
    blocks: bool = False


def find_confounders(
    base: Sequence[Summary], new: Sequence[Summary], alignment: Alignment, options: CompareOptions
) -> tuple[Confounder, ...]:
    """Return what differs, what forbids a verdict first; an accepted difference forbids nothing."""
    found = [*_blocking(base, new, alignment), *_facts(base, new), *_within_sides(base, new), *_launches(base, new)]
    judged = [
        Confounder(item.key, item.base, item.new, item.blocks and item.key not in options.accepted) for item in found
    ]
    return tuple(sorted(judged, key=lambda item: not item.blocks))


def _blocking(base: Sequence[Summary], new: Sequence[Summary], alignment: Alignment) -> list[Confounder]:
    found = []
    blocked = [next((item.blocked for item in side if item.blocked), None) for side in (base, new)]
    if any(blocked):
        found.append(_pair("blocked", [why or "can be judged" for why in blocked], blocks=True))
    if _sides(base, "time_of") != _sides(new, "time_of"):
        found.append(Confounder("gpu-work", _gpu_work(base), _gpu_work(new), blocks=True))
    if alignment.problem is not None:
        found.append(Confounder("alignment", alignment.problem, alignment.problem, blocks=True))
    modes = [_fact(side, "mode") for side in (base, new)]
    if modes[0] != modes[1] and "unknown" not in modes[0] + modes[1] and all(modes):
        found.append(_pair("mode", modes, blocks=True))
    matched = [alignment.matched_base, alignment.matched_new]
    same_vendor = _fact(base, "vendor") == _fact(new, "vendor")
    low = [share for share in matched if share is not None and share < LEAST_MATCHED_SHARE]
    if low and same_vendor and not any(blocked):
        words = [f"{share or 0:.0%} matched".replace("%", " %") for share in matched]
        found.append(_pair("kernels", words, blocks=True))
    return found


def _facts(base: Sequence[Summary], new: Sequence[Summary]) -> list[Confounder]:
    keys = sorted({key for side in (base, new) for item in side for key in item.fingerprint})
    differing = {key for key in keys if _fact(base, key) != _fact(new, key)}
    found = []
    for key in keys:
        if key not in differing or _IMPLIED.get(key) in differing:
            continue
        sides = _fact(base, key), _fact(new, key)
        # An absent name of a mode blocks nothing, and is no other mode.
        if key == "mode" and all(sides) and "unknown" not in sides[0] + sides[1]:
            continue
        found.append(Confounder(key, sides[0] or "not recorded", sides[1] or "not recorded"))
    versions = _sides(base, "made_by"), _sides(new, "made_by")
    if versions[0] != versions[1]:
        found.append(_pair("traceanalyzer", [", ".join(sorted(side)) for side in versions]))
    for rule in sorted({rule for side in (base, new) for item in side for rule in item.quality}):
        counts = [sum(rule in item.quality for item in side) for side in (base, new)]
        if bool(counts[0]) != bool(counts[1]):
            found.append(_pair(f"quality {rule}", ["yes" if count else "no" for count in counts]))
    return found


def _within_sides(base: Sequence[Summary], new: Sequence[Summary]) -> list[Confounder]:
    """Return what differs among the captures of one side, which should be of one configuration."""
    found = []
    for name, side in (("base", base), ("new", new)):
        keys = sorted({key for item in side for key in item.fingerprint})
        mixed = [key for key in keys if len({item.fingerprint.get(key) for item in side}) > 1]
        if mixed:
            words = ", ".join(mixed)
            found.append(_pair(f"mixed {name}", [words, "–"] if name == "base" else ["–", words]))
    return found


def _launches(base: Sequence[Summary], new: Sequence[Summary]) -> list[Confounder]:
    """Return another number of launches a step: then a step is not the same work."""
    if not all(item.has_steps for side in (base, new) for item in side):
        return []
    counts = []
    for side in (base, new):
        named = mean_named([s.kernels for s in side], [Fraction(1, s.kernels.step_count) for s in side])
        counts.append(float(sum((item.launches for item in named.values()), Fraction(0))))
    if not all(counts) or abs(counts[1] / counts[0] - 1) <= SAME_LAUNCHES_SHARE:
        return []
    return [_pair("launches", [f"{count:,.0f} kernels a step" for count in counts])]


def _pair(key: str, words: Sequence[str], *, blocks: bool = False) -> Confounder:
    return Confounder(key, words[0], words[1], blocks)


def _gpu_work(side: Sequence[Summary]) -> str:
    return "no GPU work" if any(item.time_of == "host" for item in side) else "GPU work"


def _sides(side: Sequence[Summary], name: str) -> set[str]:
    return {getattr(item, name) for item in side}


def _fact(side: Sequence[Summary], key: str) -> str:
    return " or ".join(sorted({_fact_words(key, item.fingerprint.get(key)) for item in side} - {""}))


def _fact_words(key: str, fact: Fact) -> str:
    if fact is None:
        return ""
    if key == "memory_bytes" and not isinstance(fact, bool | str | tuple):
        return f"{fact / 2**30:.1f} GiB"
    if isinstance(fact, tuple):
        return ", ".join(fact)
    return {True: "yes", False: "no"}[fact] if isinstance(fact, bool) else str(fact)
