"""Names that version 0.2.0 changed: until 0.3 the old ones still work in queries, rule files and options."""

from __future__ import annotations

import re

METRICS = {"standalone": "cause_savings", "op_bound": "kernel_class_savings"}
BUCKETS = {"dev.comm_skew": "dev.straggler_wait", "edge.carried_in": "edge.queued_before_trace"}
# Columns of attribution tables: a query that names a table without its schema finds them under both names.
COLUMNS = {
    "windows": {"reading_op_id": "measure_at_op_id", "reading_scale": "measure_scale"},
    "lead_events": {
        "cap_ns": "lead_limit_ns",
        "own_ns": "explained_wait_ns",
        "first_position": "pred1_position",
        "first_slack_ns": "pred1_slack_ns",
        "second_position": "pred2_position",
        "second_slack_ns": "pred2_slack_ns",
    },
}
FORMER_BUCKETS = {new: old for old, new in BUCKETS.items()}

_BUCKET = re.compile(rf"\b(?:{'|'.join(map(re.escape, BUCKETS))})\b")
_METRIC = re.compile(rf"(?i)\b(?P<reads>(?:from|join)\s+(?:main\.)?)(?P<name>{'|'.join(METRICS)})\b")


def with_new_names(text: str) -> str:
    """Return SQL, a rule file's text or a cause with the new names of buckets, and of metrics after FROM or JOIN."""
    text = _BUCKET.sub(lambda match: BUCKETS[match[0]], text)
    return _METRIC.sub(lambda match: match["reads"] + METRICS[match["name"].lower()], text)
