"""Our numbers beside those of Holistic Trace Analysis (HTA) on the same traces, with the reason where they differ.

A reason is proved and not guessed: each known deviation of HTA can be switched on in our own computation, and a
difference counts as explained only if the numbers agree once the named deviations are on. HTA's mean bandwidth alone
is taken for what it is: the mean of another thing.
"""

from __future__ import annotations

from traceanalyzer.crosscheck.comparing import Comparison, Verdict, crosscheck
from traceanalyzer.crosscheck.deviations import DEVIATIONS
from traceanalyzer.crosscheck.hta_numbers import require_hta

__all__ = ["DEVIATIONS", "Comparison", "Verdict", "crosscheck", "require_hta"]
