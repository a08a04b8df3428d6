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
    computing AS (
        SELECT
            trace_id, device, start_ns, dur_ns,
            sum(dur_ns) OVER (PARTITION BY trace_id, device ORDER BY start_ns, row_id) - dur_ns AS before_ns
        FROM pieces
        WHERE bucket = 'compute'
    ),
    edges AS (
        SELECT
            pieces.trace_id, pieces.device, pieces.row_id, others.device AS other,
            unnest([pieces.start_ns, pieces.start_ns + pieces.dur_ns]) AS at_ns,
            unnest([-1, 1]) AS sign
        FROM pieces
        JOIN (SELECT DISTINCT trace_id, device FROM pieces) AS others
          ON others.trace_id = pieces.trace_id AND others.device <> pieces.device
    ),
    -- What another device has computed until then.
    computed AS (
        SELECT
            edges.trace_id, edges.device, edges.row_id,
            edges.sign * coalesce(computing.before_ns + least(edges.at_ns - computing.start_ns, computing.dur_ns), 0) AS signed_ns
        FROM edges
        ASOF LEFT JOIN computing
          ON computing.trace_id = edges.trace_id
         AND computing.device = edges.other
         AND computing.start_ns <= edges.at_ns
    ),
    summed AS (
        SELECT trace_id, device, row_id, sum(signed_ns)::BIGINT AS both_ns
        FROM computed
        GROUP BY trace_id, device, row_id
    )
    SELECT pieces.trace_id, pieces.device, pieces.row_id, pieces.bucket, pieces.dur_ns, least(summed.both_ns, pieces.dur_ns) AS others_ns
    FROM pieces
    JOIN summed USING (trace_id, device, row_id)
);
