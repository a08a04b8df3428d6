-- One row per trace and stack of host slices: what the host did there, and the device's work that it launched there.
--
-- A stack is a slice's name and those of all that contains it on its thread: Python frames, annotations, operators, and
-- calls of the runtime. What ends before a slice does not contain it. Equal stacks of all threads are one row. Self time is the duration without the slices inside. Device
-- time belongs to the stack of the launch call (op_owners). Idle time is the device's, by the ledger: what the device waited
-- for the host, on the stack of the slice that is to blame (time_ledger); the rest of a device's idle time has no host slice.
--
-- columns:
--   trace             VARCHAR  name of the trace
--   rank              INTEGER  rank in the job
--   trace_id          INTEGER  traces.trace_id
--   stack_id          BIGINT   the stack (host_slices.stack_id)
--   parent_stack_id   BIGINT   the stack without its last slice; NULL: there is no other
--   depth             INTEGER  fewest slices that are open when it starts
--   category          VARCHAR  category of its last slice, as in host_slices
--   name              VARCHAR  name of its last slice
--   call_count        BIGINT   slices with this stack
--   host_sum_ns       BIGINT   sum of their durations
--   host_self_ns      BIGINT   the same without the slices inside
--   device_self_ns    BIGINT   sum of the durations of the GPU operations that these slices launched themselves
--   device_op_count   BIGINT   those operations
--   idle_self_ns      BIGINT   time that devices waited for these slices themselves
WITH RECURSIVE
-- A slice that outlasts its parent is not inside it: it is inside the innermost ancestor that does not end before it.
climbing AS (
    SELECT
        slices.trace_id,
        slices.slice_id,
        slices.start_ns + slices.dur_ns AS end_ns,
        parents.slice_id AS around_id,
        parents.start_ns + parents.dur_ns AS around_end_ns,
        parents.parent_id AS next_id
    FROM canonical.host_slices AS slices
    JOIN canonical.host_slices AS parents
      ON parents.trace_id = slices.trace_id AND parents.slice_id = slices.parent_id
    WHERE slices.start_ns + slices.dur_ns > parents.start_ns + parents.dur_ns
    UNION ALL
    SELECT
        climbing.trace_id,
        climbing.slice_id,
        climbing.end_ns,
        climbing.next_id,
        parents.start_ns + parents.dur_ns,
        parents.parent_id
    FROM climbing
    LEFT JOIN canonical.host_slices AS parents
           ON parents.trace_id = climbing.trace_id AND parents.slice_id = climbing.next_id
    WHERE climbing.around_end_ns < climbing.end_ns
),
crossing AS MATERIALIZED (
    SELECT
        trace_id,
        slice_id,
        around_id
    FROM climbing
    WHERE coalesce(around_end_ns >= end_ns, TRUE)
),
placed AS (
    SELECT
        slices.trace_id,
        slices.slice_id,
        slices.stack_id,
        slices.depth,
        slices.category,
        slices.name,
        slices.start_ns,
        slices.dur_ns,
        CASE WHEN crossing.slice_id IS NULL THEN slices.parent_id ELSE crossing.around_id END AS around_id
    FROM canonical.host_slices AS slices
    LEFT JOIN crossing USING (trace_id, slice_id)
),
-- The slices inside one slice can overlap only where one of them outlasts another.
overlapping AS (
    SELECT DISTINCT
        trace_id,
        around_id
    FROM crossing
    WHERE around_id IS NOT NULL
),
inner_time AS (
    SELECT
        trace_id,
        around_id AS slice_id,
        sum(dur_ns) AS inner_ns
    FROM placed
    ANTI JOIN overlapping USING (trace_id, around_id)
    WHERE around_id IS NOT NULL
    GROUP BY trace_id, around_id
    UNION ALL
    SELECT
        trace_id,
        around_id,
        sum(added_ns)
    FROM (
        SELECT
            trace_id,
            around_id,
            uncovered_ns(
                start_ns,
                start_ns + dur_ns,
                max(start_ns + dur_ns) OVER (
                    PARTITION BY trace_id, around_id
                    ORDER BY start_ns, slice_id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                )
            ) AS added_ns
        FROM placed
        SEMI JOIN overlapping USING (trace_id, around_id)
    )
    GROUP BY trace_id, around_id
),
stacks AS (
    SELECT
        placed.trace_id,
        placed.stack_id,
        arg_min(placed.around_id, placed.slice_id) AS around_id,
        min(placed.depth) AS depth,
        any_value(placed.category) AS category,
        any_value(placed.name) AS name,
        count(*) AS call_count,
        CAST(sum(placed.dur_ns) AS BIGINT) AS host_sum_ns,
        CAST(sum(placed.dur_ns - coalesce(inner_time.inner_ns, 0)) AS BIGINT) AS host_self_ns
    FROM placed
    LEFT JOIN inner_time USING (trace_id, slice_id)
    GROUP BY placed.trace_id, placed.stack_id
),
device_work AS (
    SELECT
        ops.trace_id,
        slices.stack_id,
        CAST(sum(ops.dur_ns) AS BIGINT) AS device_self_ns,
        count(*) AS device_op_count
    FROM canonical.gpu_ops AS ops
    JOIN canonical.host_slices AS slices
      ON slices.trace_id = ops.trace_id AND slices.slice_id = coalesce(ops.launch_id, ops.cpu_op_id)
    GROUP BY ops.trace_id, slices.stack_id
),
idle AS (
    SELECT
        pieces.trace_id,
        slices.stack_id,
        CAST(sum(pieces.dur_ns) AS BIGINT) AS idle_self_ns
    FROM attribution.ledger_rows AS pieces
    JOIN canonical.host_slices AS slices
      ON slices.trace_id = pieces.trace_id AND slices.slice_id = pieces.blame_id
    WHERE pieces.bucket LIKE 'host.%'
      AND pieces.blame_kind = 'slice'
    GROUP BY pieces.trace_id, slices.stack_id
)
SELECT
    traces.trace,
    traces.rank,
    stacks.trace_id,
    stacks.stack_id,
    parents.stack_id AS parent_stack_id,
    stacks.depth,
    stacks.category,
    stacks.name,
    stacks.call_count,
    stacks.host_sum_ns,
    stacks.host_self_ns,
    coalesce(device_work.device_self_ns, 0) AS device_self_ns,
    coalesce(device_work.device_op_count, 0) AS device_op_count,
    coalesce(idle.idle_self_ns, 0) AS idle_self_ns
FROM stacks
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN canonical.host_slices AS parents
       ON parents.trace_id = stacks.trace_id AND parents.slice_id = stacks.around_id
LEFT JOIN device_work ON device_work.trace_id = stacks.trace_id AND device_work.stack_id = stacks.stack_id
LEFT JOIN idle ON idle.trace_id = stacks.trace_id AND idle.stack_id = stacks.stack_id
