"""The three tiers of tests: the loop of someone who changes code, what a change must pass, and everything.

`make test` runs what is not marked `check`. `make check` adds those marked `gate`, and a thirtieth of the other marked
ones, which the commit's content chooses: whoever checks the same files runs the same tests. `make nightly` runs every
test. Of a test marked `sampled`, the first case is quick, and the others are marked `check`.

The last two set TRACEANALYZER_TIER to their names: a missing dependency then fails instead of skipping. Properties get
their full number of examples in the nightly tier, the first quarter of them in the check, and few in the loop: the same
ones every time. TRACEANALYZER_FUZZ_S looks for new ones, for so many seconds.
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

TIER = os.environ.get("TRACEANALYZER_TIER", "loop")
IN_CHECK = TIER in {"check", "nightly"}
LOOP_EXAMPLES = 15
NIGHTLY_EXAMPLES = 60


def example_count(most: int, tier: str = TIER) -> int:
    """Return how many examples of a property a tier tries: all `most`, at least 60, in the nightly one."""
    whole = max(most, NIGHTLY_EXAMPLES)
    return {"nightly": whole, "check": max(whole // 4, LOOP_EXAMPLES)}.get(tier, LOOP_EXAMPLES)


settings.register_profile(
    TIER,
    max_examples=example_count(NIGHTLY_EXAMPLES),
    deadline=None,
    derandomize="TRACEANALYZER_FUZZ_S" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(TIER)


def examples(most: int = NIGHTLY_EXAMPLES) -> settings:
    """Return the settings of a property that is worth `most` examples, see `example_count`."""
    return settings(max_examples=example_count(most))


def needed(name: str) -> ModuleType:
    """Import what only `make check` installs; in the loop a test skips without it."""
    if IN_CHECK:
        return importlib.import_module(name)
    module: ModuleType = pytest.importorskip(name, reason=f"{name} is not installed: make check installs it")
    return module


SHARES = 30


def selected(test: str, *, marked: bool, gate: bool, tier: str, chosen: int) -> bool:
    """Return whether a tier runs a test: `marked` check, `gate` too; `chosen` is the commit's."""
    if tier == "all":
        return True
    if tier == "quick":
        return not marked
    return marked and (gate or share(test, SHARES) == chosen)


def is_further(case: str, begun: set[str]) -> bool:
    """Return whether another case of the same test came before; `begun` are the tests of those that did."""
    test = case.partition("[")[0]
    if test in begun:
        return True
    begun.add(test)
    return False


def share(test: str, shares: int) -> int:
    """Return which of several equal shares of all tests has this one: the same on every machine."""
    return zlib.crc32(test.encode()) % shares


def share_of_commit(root: Path) -> int:
    """Return which share of the tests the content of a checkout's commit chooses; 0 where there is no commit."""
    command = ["git", "rev-parse", "HEAD^{tree}"]
    try:
        tree = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(tree, 16) % SHARES


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
