"""Our numbers beside those of Holistic Trace Analysis (HTA) on the same traces, with the reason where they differ.

Each reason is proved: our own computation can switch on each known deviation of HTA, and a difference counts as
explained only if the numbers agree once the named deviations are on. The one exception is HTA's mean bandwidth, which
has another definition.
"""

from __future__ import annotations

from hta_crosscheck.comparing import Agreement, Comparison, crosscheck
from hta_crosscheck.deviations import DEVIATIONS
from hta_crosscheck.hta_numbers import require_hta

__all__ = ["DEVIATIONS", "Agreement", "Comparison", "crosscheck", "require_hta"]
