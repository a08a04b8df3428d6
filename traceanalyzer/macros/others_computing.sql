-- One row per row of a ledger of traces with several devices ('rows' names it): for how much of its time other devices of the
-- same trace compute, two at once as both, at most all of it.
CREATE OR REPLACE MACRO others_computing(rows) AS TABLE (
    WITH pieces AS (
        SELECT trace_id, device, row_id, start_ns, dur_ns, bucket
        FROM query_table(rows)
        SEMI JOIN (
            SELECT trace_id FROM query_table(rows) WHERE kept GROUP BY trace_id HAVING min(device) < max(device)
        ) USING (trace_id)
        WHERE kept
    ),
    instants AS (
        SELECT trace_id, at_ns, sum(change) AS change
        FROM (
            SELECT trace_id, unnest([start_ns, start_ns + dur_ns]) AS at_ns, unnest([1, -1]) AS change
            FROM pieces
            WHERE bucket = 'compute'
        )
        GROUP BY trace_id, at_ns
    ),
    rates AS (
        SELECT
            trace_id, at_ns,
            sum(change) OVER later AS rate,
            sum(change) OVER later * (lead(at_ns) OVER later - at_ns) AS next_ns
        FROM instants
        WINDOW later AS (PARTITION BY trace_id ORDER BY at_ns)
    ),
    -- A clock that runs as fast as devices compute: what all of them have computed until then.
    clock AS (
        SELECT
            trace_id, at_ns, rate,
            coalesce(sum(next_ns) OVER (PARTITION BY trace_id ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS computed_ns
        FROM rates
    ),
    computed AS (
        SELECT
            pieces.trace_id, pieces.device, pieces.row_id, pieces.bucket, pieces.dur_ns,
            coalesce(ends.computed_ns + ends.rate * (pieces.start_ns + pieces.dur_ns - ends.at_ns), 0)
            - coalesce(starts.computed_ns + starts.rate * (pieces.start_ns - starts.at_ns), 0)
            - if(pieces.bucket = 'compute', pieces.dur_ns, 0) AS both_ns
        FROM pieces
        ASOF LEFT JOIN clock AS starts ON starts.trace_id = pieces.trace_id AND starts.at_ns <= pieces.start_ns
        ASOF LEFT JOIN clock AS ends ON ends.trace_id = pieces.trace_id AND ends.at_ns <= pieces.start_ns + pieces.dur_ns
    )
    SELECT trace_id, device, row_id, bucket, dur_ns, least(both_ns, dur_ns)::BIGINT AS others_ns
    FROM computed
);
