"""The three tiers of tests: the loop of someone who changes code, what a change must pass, and everything.

`make test` runs what is not marked `check`. `make check` adds those marked `gate`, and an eighth of the other marked
ones, which the commit chooses: eight commits after each other pass nearly all. `make nightly` runs every test.

The last two set TRACEANALYZER_TIER=check: properties then get more examples, and a missing dependency fails instead of
skipping. In all the same code is tried with the same examples; TRACEANALYZER_FUZZ_S looks for new ones, for so many
seconds.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

IN_CHECK = os.environ.get("TRACEANALYZER_TIER") == "check"
LOOP_EXAMPLES = 15
CHECK_EXAMPLES = 60

for profile, count in (("loop", LOOP_EXAMPLES), ("check", CHECK_EXAMPLES)):
    settings.register_profile(
        profile,
        max_examples=count,
        deadline=None,
        derandomize="TRACEANALYZER_FUZZ_S" not in os.environ,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("check" if IN_CHECK else "loop")


def examples(most: int = CHECK_EXAMPLES) -> settings:
    """Return the settings of a property that is worth `most` examples in `make check`, where each gets 60 or more."""
    return settings(max_examples=max(most, CHECK_EXAMPLES) if IN_CHECK else LOOP_EXAMPLES)


def needed(name: str) -> ModuleType:
    """Import what only `make check` installs; in the loop a test skips without it."""
    if IN_CHECK:
        return importlib.import_module(name)
    module: ModuleType = pytest.importorskip(name, reason=f"{name} is not installed: make check installs it")
    return module


EIGHTHS = 8


def selected(test: str, *, marked: bool, gate: bool, tier: str, eighth: int) -> bool:
    """Return whether a tier runs a test: `marked` check, `gate` too; `eighth` is the commit's."""
    if tier == "all":
        return True
    if tier == "quick":
        return not marked
    return marked and (gate or share(test, EIGHTHS) == eighth)


def share(test: str, shares: int) -> int:
    """Return which of several equal shares of all tests has this one: the same on every machine."""
    return zlib.crc32(test.encode()) % shares


def eighth_of_commit(root: Path) -> int:
    """Return the eighth of the tests that the commit in a checkout chooses; 0 where there is no commit."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        head = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(head, 16) % EIGHTHS


def shard(text: str) -> tuple[int, int]:
    """Return the shard that K/N means, counted from 0, and the number of shards."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ValueError(f"a shard is K/N with 1 <= K <= N, not {text!r}")
    return int(number) - 1, int(count)


def cost_table(costs: Iterable[tuple[str, float]]) -> list[str]:
    """Return the tests and CPU seconds of each suite, a folder of tests/, as lines of a table, the dearest first."""
    counts: Counter[str] = Counter()
    cpu_s: dict[str, float] = {}
    for test, seconds in costs:
        suite = test.split("/")[1] if test.count("/") > 1 else "tests"
        counts[suite] += 1
        cpu_s[suite] = cpu_s.get(suite, 0) + seconds
    rows = [
        f"| {suite} | {counts[suite]} | {seconds:.1f} |"
        for suite, seconds in sorted(cpu_s.items(), key=lambda cost: -cost[1])
    ]
    return [
        "| suite | tests | CPU s |",
        "|---|---:|---:|",
        *rows,
        f"| all | {counts.total()} | {sum(cpu_s.values()):.1f} |",
    ]
