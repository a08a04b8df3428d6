"""Checks that must hold for every diagnosis: times add up, bounds keep their order, clocks do not matter.

`check_run` runs all checks on one run. `closing` checks that times add up, `bounding` that bounds are plausible;
`changed_tables` and `invariance` check that equivalent tables give the same answer, and that missing records never turn
a finding into `clear`.
"""

from self_check.checking import CheckResult, check_run

__all__ = ["CheckResult", "check_run"]
