"""Checks a diagnosis against what must hold for every run: times add up, bounds keep their order, clocks do not matter.

`check_run` asks everything of one run: `closing` whether times add up, `bounding` whether bounds can be believed,
`changed_tables` and `invariance` whether the same run told in another way gives the same answer, and whether a run that
recorded less says so.
"""

from traceanalyzer.self_check.checking import Check, check_run

__all__ = ["Check", "check_run"]
