"""The two tiers of tests: the loop of someone who changes code, and the check that holds everything.

Tests marked `check` (and those that ask for the corpus) are left out of the loop. `make check` sets
TRACEANALYZER_TIER=check: properties then get more examples, and a missing dependency fails instead of skipping. In both
the same code is tried with the same examples; TRACEANALYZER_FUZZ_S looks for new ones, for so many seconds.
"""

from __future__ import annotations

import importlib
import os
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
