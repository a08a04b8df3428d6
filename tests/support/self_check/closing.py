"""Checks that times add up: the ledger fills every span and window, and no two findings own the same time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import duckdb

from traceanalyzer.diagnosis import Diagnosis, Finding
from traceanalyzer.rules.rule_file.model import Rule

_Place = tuple[str | None, int | None] | None  # trace and device; None: the run, whose ranks wait for each other

_GAPS = """
WITH rows_with_next AS (
    SELECT
        trace_id,
        device,
        start_ns,
        start_ns + dur_ns AS end_ns,
        lead(start_ns) OVER device_rows AS next_ns
    FROM attribution.ledger_rows
    WINDOW device_rows AS (PARTITION BY trace_id, device ORDER BY row_id)
),
ledgers AS (
    SELECT
        trace_id,
        device,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        count(*) FILTER (WHERE next_ns <> end_ns) AS gap_count
    FROM rows_with_next
    GROUP BY trace_id, device
),
spans AS (
    SELECT
        trace_id,
        device,
        -- The window may begin ahead of its first operation.
        least(min(ops.start_ns), any_value(windows.start_ns)) AS start_ns,
        max(ops.start_ns + ops.dur_ns) AS end_ns
    FROM canonical.gpu_ops AS ops
    JOIN attribution.windows AS windows USING (trace_id, device)
    GROUP BY trace_id, device
)
SELECT
    trace,
    device,
    coalesce(gap_count, 0),
    coalesce(ledgers.end_ns - ledgers.start_ns, 0) - (spans.end_ns - spans.start_ns)
FROM spans
JOIN canonical.traces USING (trace_id)
LEFT JOIN ledgers USING (trace_id, device)
WHERE gap_count > 0
   OR (
       spans.end_ns > spans.start_ns
       AND (ledgers.start_ns IS DISTINCT FROM spans.start_ns OR ledgers.end_ns IS DISTINCT FROM spans.end_ns)
   )
"""
_RUN = """
SELECT
    (SELECT coalesce(sum(dur_ns), 0)::BIGINT FROM attribution.run_rows) AS run_rows_ns,
    max(window_ns)
FROM attribution.windows
WHERE run_abstains IS NULL
"""
_WINDOWS = """
SELECT
    trace,
    device,
    coalesce(sum(dur_ns), 0) - any_value(window_ns)
FROM attribution.windows
JOIN canonical.traces USING (trace_id)
LEFT JOIN (SELECT * FROM attribution.ledger_rows WHERE kept) USING (trace_id, device)
GROUP BY trace, device
HAVING coalesce(sum(dur_ns), 0) <> any_value(window_ns)
"""


def gaps(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return the devices whose ledger rows leave gaps, overlap, or miss the device's span."""
    rows = con.execute(_GAPS).fetchall()
    return tuple(f"{trace} device {device}: {count} gaps, {ns} ns too long" for trace, device, count, ns in rows)


def open_windows(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return the devices whose kept rows do not add up to the analysis window."""
    rows = con.execute(_WINDOWS).fetchall()
    return tuple(f"{trace} device {device}: {excess_ns} ns too long" for trace, device, excess_ns in rows)


def open_claims(diagnosis: Diagnosis, rules: Sequence[Rule]) -> tuple[str, ...]:
    """Return by how much owned and unexplained time miss the time without compute, or claim more compute than ran.

    Findings that stand for several traces carry the worst one's numbers, so that only an upper limit is known of them.
    """
    of_kernels = {rule.id for rule in rules if rule.claims.compute_ops is not None}
    timed = [finding for finding in diagnosis.findings if finding.owned_ns is not None]
    merged = any(_is_merged(finding) for finding in timed)
    compute_ns = sum(dict(ledger.buckets).get("compute", 0) for ledger in diagnosis.ledgers)
    absent_ns = sum(ledger.window_ns for ledger in diagnosis.ledgers) - compute_ns
    owned_ns = sum(finding.owned_ns or 0 for finding in timed if finding.rule not in of_kernels)
    open_ns = owned_ns + sum(dur_ns for _, dur_ns in diagnosis.not_explained) - absent_ns
    kernels_ns = sum(finding.owned_ns or 0 for finding in timed if finding.rule in of_kernels)
    broken = []
    if open_ns > 0 or (open_ns < 0 and not merged):
        broken.append(f"{open_ns} ns too much without compute")
    if kernels_ns > compute_ns:
        broken.append(f"{kernels_ns - compute_ns} ns more compute is owned than ran")
    return tuple(broken)


def marginals(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Return the devices whose fixes together promise more than the window, or save less than the best one alone.

    A fix may cost what the window begins earlier with it. Where ranks wait for each other the fixes are those of the
    run: what one of them saves of its own device is more.
    """
    windows = {(ledger.trace, ledger.device): ledger.window_ns for ledger in diagnosis.ledgers}
    run_ns = max(windows.values(), default=0)
    if diagnosis.run_ledger is not None and diagnosis.run_ledger.recording_count > 1:
        run_ns = diagnosis.run_ledger.window_ns
    together: dict[_Place, int] = defaultdict(int)
    gained: dict[_Place, int] = defaultdict(int)
    best: dict[_Place, int] = defaultdict(int)
    for finding in diagnosis.findings:
        of_run = finding.run_saving_ns is not None
        if finding.marginal_ns is not None and (of_run or not _is_merged(finding)):
            place = None if of_run else (finding.trace, finding.device)
            together[place] += finding.marginal_ns
            gained[place] += max(0, finding.marginal_ns)
            if finding.marginal_order == 1:
                best[place] = max(best[place], (finding.run_saving_ns if of_run else finding.saving_ns) or 0)
    return tuple(
        f"{'the run' if place is None else f'{place[0]} device {place[1]}'}: {total_ns} ns together, "
        f"the best alone {best[place]} ns"
        for place, total_ns in together.items()
        if best[place] > gained[place]
        or not 0 <= total_ns <= (run_ns if place is None else windows.get((place[0] or "", place[1] or 0), 0))
    )


def open_run(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return by how much the run's ledger is not the slowest window, where there is one."""
    ((run_rows_ns, window_ns),) = con.execute(_RUN).fetchall()
    return () if window_ns is None or run_rows_ns == window_ns else (f"{run_rows_ns} ns of {window_ns} ns",)


def _is_merged(finding: Finding) -> bool:
    return len(finding.same_on_traces) > 1 or len(finding.same_on_devices) > 1
