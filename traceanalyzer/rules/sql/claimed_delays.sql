-- One row per host cause and operation that it delays, of the host time that goes with the claimed rows:
-- - all that led to a claimed row. The rows of a pause follow each other by cause, so a row does not say which operation
--   it delayed: it is any that begins in the pause between two compute kernels, or that was launched between them.
-- - what delays an operation of the same name by at least half as much and was not judged: where the device still had work,
--   or outside the window. It shows only once the rest is gone.
WITH claimed AS (
    SELECT NULL /* claimed */
),
claimed_causes AS (
    SELECT rows.trace_id, rows.device, rows.cause, rows.row_id, rows.start_ns, rows.dur_ns
    FROM claimed
    JOIN ledger_rows AS rows
      ON rows.trace_id = claimed.row_trace_id
     AND rows.device = claimed.row_device
     AND rows.row_id = claimed.item_id
),
shortest AS (
    SELECT trace_id, device, cause, min(dur_ns) AS dur_ns
    FROM claimed_causes
    GROUP BY trace_id, device, cause
),
-- Claimed rows, and rows that the rule saw and did not claim although they are long enough.
judged AS (
    SELECT trace_id, device, cause, start_ns, dur_ns, TRUE AS is_claimed
    FROM claimed_causes
    UNION ALL
    SELECT trace_id, device, cause, rows.start_ns, rows.dur_ns, FALSE
    FROM ledger_rows AS rows
    JOIN shortest USING (trace_id, device, cause)
    ANTI JOIN claimed_causes USING (trace_id, device, row_id)
    WHERE rows.kept AND rows.dur_ns >= shortest.dur_ns
),
computed AS (
    SELECT trace_id, device, start_ns, start_ns + dur_ns AS end_ns FROM ledger_rows WHERE bucket = 'compute'
),
pauses AS (
    SELECT
        judged.trace_id, judged.device, judged.cause, before.end_ns AS since_ns, after.start_ns AS until_ns,
        bool_or(judged.is_claimed) AS is_claimed,
        min(judged.dur_ns) AS dur_ns
    FROM judged
    ASOF LEFT JOIN computed AS before
        ON before.trace_id = judged.trace_id
       AND before.device = judged.device
       AND before.start_ns <= judged.start_ns
    ASOF LEFT JOIN computed AS after
        ON after.trace_id = judged.trace_id
       AND after.device = judged.device
       AND after.start_ns > judged.start_ns
    GROUP BY ALL
),
scanned AS (
    SELECT
        events.trace_id, events.device, events.position, events.op_id, ops.start_ns,
        hash(ops.name) AS name_id,  -- names are long, and there is one for each event
        (ops.kind = 'kernel' AND NOT ops.is_comm) OR ops.kind = 'graph' AS is_compute
    FROM attribution.replay_events AS events
    JOIN gpu_ops AS ops ON ops.trace_id = events.trace_id AND ops.op_id = events.op_id
),
stretches AS (
    -- The launches after which, and up to which, the host led to a pause.
    SELECT
        pauses.trace_id, pauses.device, pauses.cause, pauses.is_claimed, pauses.dur_ns, pauses.since_ns,
        pauses.until_ns,
        min(scanned.position) AS until_position
    FROM pauses
    LEFT JOIN scanned
           ON scanned.trace_id = pauses.trace_id
          AND scanned.device = pauses.device
          AND scanned.start_ns = pauses.until_ns
          AND scanned.is_compute
    GROUP BY ALL
),
launches AS (
    SELECT trace_id, device, position FROM scanned WHERE is_compute
),
-- Pauses do not overlap: an operation begins in at most one, and is launched before the end of at most one.
began AS (
    SELECT scanned.trace_id, scanned.device, scanned.op_id, spans.since_ns, spans.until_ns
    FROM scanned
    ASOF JOIN (SELECT DISTINCT trace_id, device, since_ns, until_ns FROM stretches) AS spans
        ON spans.trace_id = scanned.trace_id
       AND spans.device = scanned.device
       AND coalesce(spans.since_ns, CAST(-9223372036854775807 AS BIGINT)) <= scanned.start_ns
    WHERE scanned.start_ns <= coalesce(spans.until_ns, scanned.start_ns)
),
ends AS (
    SELECT stretches.trace_id, stretches.device, stretches.until_position, launches.position AS after_position
    FROM (SELECT DISTINCT trace_id, device, until_position FROM stretches WHERE until_position IS NOT NULL) AS stretches
    ASOF LEFT JOIN launches
        ON launches.trace_id = stretches.trace_id
       AND launches.device = stretches.device
       AND launches.position < stretches.until_position
),
launched AS (
    SELECT scanned.trace_id, scanned.device, scanned.op_id, ends.until_position
    FROM scanned
    ASOF JOIN ends
        ON ends.trace_id = scanned.trace_id
       AND ends.device = scanned.device
       AND ends.until_position >= scanned.position
    WHERE scanned.position > coalesce(ends.after_position, -1)
),
led AS (
    SELECT trace_id, device, cause, op_id, bool_or(is_claimed) AS is_claimed, min(dur_ns) AS dur_ns
    FROM (
        SELECT stretches.trace_id, stretches.device, stretches.cause, began.op_id, stretches.is_claimed, stretches.dur_ns
        FROM stretches
        JOIN began
          ON began.trace_id = stretches.trace_id
         AND began.device = stretches.device
         AND began.since_ns IS NOT DISTINCT FROM stretches.since_ns
         AND began.until_ns IS NOT DISTINCT FROM stretches.until_ns
        UNION ALL
        SELECT stretches.trace_id, stretches.device, stretches.cause, launched.op_id, stretches.is_claimed, stretches.dur_ns
        FROM stretches
        JOIN launched
          ON launched.trace_id = stretches.trace_id
         AND launched.device = stretches.device
         AND launched.until_position = stretches.until_position
    )
    GROUP BY trace_id, device, cause, op_id
),
-- Host time between two events belongs to the operation that comes next.
long_costs AS (
    SELECT costs.trace_id, costs.device, costs.cause, costs.cost_ns, next.op_id, next.name_id
    FROM attribution.replay_costs AS costs
    JOIN shortest
      ON shortest.trace_id = costs.trace_id
     AND shortest.device = costs.device
     AND shortest.cause = costs.cause
     AND costs.cost_ns >= shortest.dur_ns / 2
    ASOF JOIN scanned AS next
      ON next.trace_id = costs.trace_id
     AND next.device = costs.device
     AND next.position >= costs.position
),
delayed_names AS (
    SELECT trace_id, device, cause, name_id, min(long_costs.cost_ns) AS cost_ns
    FROM long_costs
    JOIN led USING (trace_id, device, cause, op_id)
    WHERE led.is_claimed AND long_costs.cost_ns >= led.dur_ns / 2
    GROUP BY trace_id, device, cause, name_id
)
SELECT trace_id, device, cause, op_id FROM led WHERE is_claimed
UNION
(
    SELECT trace_id, device, cause, op_id
    FROM long_costs
    JOIN delayed_names USING (trace_id, device, cause, name_id)
    WHERE long_costs.cost_ns >= delayed_names.cost_ns / 2
    EXCEPT
    SELECT trace_id, device, cause, op_id FROM led WHERE NOT is_claimed
)
