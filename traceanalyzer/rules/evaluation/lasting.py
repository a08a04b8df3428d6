"""Finds the conditions of a rule whose answer no fix changes: where one of them is false, the rule stays clear."""

from __future__ import annotations

import re

from traceanalyzer.rules.rule_file.sql_text import and_parts

# The columns of the table `bound` that depend on what is fixed, or on what the rule and others claim.
CHANGING = (
    "after_fixes",
    "bound_ns",
    "bound_share",
    "claimed_count",
    "claimed_ns",
    "claimed_share",
    "ms_per_step",
    "resolved_share",
    "run_ns",
    "run_share",
    "step_share",
    "worst_ms",
    "worst_step",
)
_CHANGES = re.compile(rf"\b(?:{'|'.join(CHANGING)})\b", re.IGNORECASE)
# The table where it is only read. As a value, by its name or another one, it would hold the columns that change.
_READ = re.compile(
    r"\b(?:FROM|JOIN)\s+bound\b(?=\s*(?:$|[,)]|(?:ANTI|ASOF|CROSS|FULL|GROUP|INNER|JOIN|LEFT|ON|ORDER|SEMI|USING|WHERE)\b))",
    re.IGNORECASE,
)
_AS_VALUE = re.compile(r"\bbound\b(?!\.)|\bCOLUMNS\b", re.IGNORECASE)


def lasting_conditions(select: str, when: str) -> list[str]:
    """Return the parts of a rule's condition that no fix changes; none where its select computes with what changes."""
    if _CHANGES.search(select) or _AS_VALUE.search(_READ.sub("", select)):
        return []
    return [part for part in and_parts(when) if not _CHANGES.search(part)]
