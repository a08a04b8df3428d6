"""Why the ranks of a run cannot be scanned together: some are missing, or what they do together is not recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NOT_MATCHED = "unmatched-collectives: the trace does not show which kernels of the ranks are one collective"
MESSAGES = "messages-between-ranks: ranks send each other data in ways that the scan cannot follow"
# Communication that some ranks may leave early is ignored below this share of the windows.
IGNORED_SHARE = 0.01
# What `why_apart` looks at: a member of a collective that is not matched, and the time of messages.
MEMBERS_THAT_MATTER = """
SELECT TRUE AS synchronises, NULL AS wait_ns, NULL AS transfer_ns, NULL AS present_count
FROM (SELECT 1 FROM attribution.collective_members WHERE synchronises AND wait_ns IS NULL LIMIT 1)
UNION ALL
SELECT FALSE, sum(wait_ns), sum(transfer_ns), 2
FROM attribution.collective_members
WHERE NOT synchronises AND present_count > 1
"""


def why_apart(
    traces: Sequence[Mapping[str, int | None]], members: Sequence[Mapping[str, int | None]], windows_ns: int
) -> str | None:
    """Return why ranks cannot be scanned together."""
    world = max((row["world_size"] or 0 for row in traces), default=0)
    there = len({row["rank"] for row in traces})
    if world > there:
        return f"missing-ranks: {there} of {world} ranks {'is' if there == 1 else 'are'} in the run"
    if len(traces) > 1 and any(row["synchronises"] and row["wait_ns"] is None for row in members):
        return NOT_MATCHED
    messages = [row for row in members if not row["synchronises"] and (row["present_count"] or 0) > 1]
    sent_ns = sum((row["transfer_ns"] or 0) + (row["wait_ns"] or 0) for row in messages)
    return MESSAGES if sent_ns > IGNORED_SHARE * windows_ns else None
