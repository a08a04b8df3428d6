"""A program whose pace something outside sets is promised nothing for its pauses."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceanalyzer.diagnosis.verdict import judge
from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import NO_SETTINGS
from tracesim.simulate import simulate

#  frame  | histogram 7 to 9 ms | wait for the next frame: 32 to 30 ms | histogram ...
EXTRA_US = (0, 1000, 2000, 500)
pytestmark = pytest.mark.check


def said(folder: Path, pause_us: tuple[int, ...]) -> tuple[str, list[str]]:
    """Return the headline of a program of 16 turns and the rules that fired on it."""
    turns = [
        [
            {"kernel": {"us": 7000 + EXTRA_US[turn % 4], "name": "histogram(int*, int*)"}},
            {"kernel": {"us": 200, "name": "scale(float*)"}},
            {"item": 1},
            {"py": {"us": pause_us[turn % len(pause_us)]}},
        ]
        for turn in range(16)
    ]
    job = simulate({"steps": 1, "steps_marked": False, "program": [action for turn in turns for action in turn]})
    job.write_nsys(folder / "run.sqlite")
    with open_run(folder / "run.sqlite", store=folder / "store") as run:
        diagnosis = run.diagnose(settings=NO_SETTINGS)
    return judge(diagnosis).sentence, [finding.rule for finding in diagnosis.findings]


def test_the_headline_of_a_paced_program_promises_nothing(tmp_path: Path) -> None:
    sentence, rules = said(tmp_path, tuple(32_000 - extra for extra in EXTRA_US))
    assert "keeps a fixed pace" in sentence
    assert "faster" not in sentence
    assert not {"host-stalls", "launch-bound", "sync-in-step"} & set(rules)


def test_pauses_that_take_their_own_time_are_pauses(tmp_path: Path) -> None:
    sentence, rules = said(tmp_path, (32_000, 31_500, 33_000))
    assert "pauses while the GPU has nothing to run" in sentence
    assert "paced-program" not in rules
