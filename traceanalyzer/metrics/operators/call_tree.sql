-- One row per trace and stack of host slices: what the host did there, and the device's work that it launched there.
--
-- A stack is a slice's name and those of all that contains it on its thread: Python frames, annotations, operators, and
-- calls of the runtime. What ends before a slice does not contain it. Equal stacks of all threads are one row. Self time is the duration without the slices inside. Device
-- time belongs to the stack of the launch call (op_owners). Idle time is the device's, by the ledger: what the device waited
-- for the host, on the stack of the slice that is to blame (time_ledger); the rest of a device's idle time has no host slice.
--
-- columns: trace, rank, trace_id
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
-- Few do; DuckDB expects few rows of a list, and would else hash all slices in each join below.
outlasting AS MATERIALIZED (
    SELECT unnest(list(pairs), recursive := TRUE)
    FROM (
        SELECT
            slices.trace_id, slices.slice_id, slices.depth, slices.start_ns,
            slices.start_ns + slices.dur_ns AS end_ns,
            parents.slice_id AS around_id,
            parents.start_ns + parents.dur_ns AS around_end_ns,
            parents.parent_id AS next_id
        FROM canonical.host_slices AS slices
        JOIN canonical.host_slices AS parents
          ON parents.trace_id = slices.trace_id AND parents.slice_id = slices.parent_id
        WHERE slices.start_ns + slices.dur_ns > parents.start_ns + parents.dur_ns
    ) AS pairs
),
ancestors AS MATERIALIZED (
    SELECT trace_id, slice_id, parent_id, start_ns + dur_ns AS end_ns
    FROM canonical.host_slices
    WHERE depth < (SELECT max(depth) FROM outlasting)
),
climbing AS (
    SELECT trace_id, slice_id, start_ns, end_ns, around_id, around_end_ns, next_id
    FROM outlasting
    UNION ALL
    SELECT
        climbing.trace_id, climbing.slice_id, climbing.start_ns, climbing.end_ns, climbing.next_id,
        ancestors.end_ns, ancestors.parent_id
    FROM climbing
    JOIN ancestors ON ancestors.trace_id = climbing.trace_id AND ancestors.slice_id = climbing.next_id
    WHERE climbing.around_end_ns < climbing.end_ns
),
crossing AS MATERIALIZED (
    SELECT
        trace_id, slice_id, start_ns, end_ns,
        CASE WHEN around_end_ns >= end_ns THEN around_id END AS around_id
    FROM climbing
    WHERE around_end_ns >= end_ns OR next_id IS NULL
),
-- Where a slice outlasts another one, slices that lie directly inside the same slice may overlap. (Here and below, few
-- slices are asked for: DuckDB reads no more of the others than the one number that IN compares.)
siblings AS (
    SELECT
        slices.trace_id, slices.slice_id, slices.parent_id AS around_id, slices.start_ns,
        slices.start_ns + slices.dur_ns AS end_ns
    FROM (FROM canonical.host_slices WHERE parent_id IN (SELECT around_id FROM crossing)) AS slices
    SEMI JOIN crossing AS crossed ON crossed.trace_id = slices.trace_id AND crossed.around_id = slices.parent_id
    ANTI JOIN crossing ON crossing.trace_id = slices.trace_id AND crossing.slice_id = slices.slice_id
    UNION ALL
    SELECT trace_id, slice_id, around_id, start_ns, end_ns
    FROM crossing
    WHERE around_id IS NOT NULL
),
-- What the durations of such slices add up to beyond the time that they cover, by the stack around them.
twice_covered AS (
    SELECT counted.trace_id, slices.stack_id, sum(counted.overlap_ns) AS overlap_ns
    FROM (
        SELECT
            trace_id, around_id,
            end_ns - start_ns - uncovered_ns(
                start_ns, end_ns,
                max(end_ns) OVER (
                    PARTITION BY trace_id, around_id
                    ORDER BY start_ns, slice_id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                )
            ) AS overlap_ns
        FROM siblings
    ) AS counted
    JOIN (FROM canonical.host_slices WHERE slice_id IN (SELECT around_id FROM crossing)) AS slices
      ON slices.trace_id = counted.trace_id AND slices.slice_id = counted.around_id
    GROUP BY counted.trace_id, slices.stack_id
),
sums AS (
    SELECT
        trace_id, stack_id,
        min(slice_id) AS first_id,
        arg_min_null(parent_id, slice_id) AS first_parent_id,
        min(depth) AS depth,
        any_value(category) AS category,
        any_value(name) AS name,
        count(*) AS call_count,
        CAST(sum(dur_ns) AS BIGINT) AS host_sum_ns
    FROM canonical.host_slices
    GROUP BY trace_id, stack_id
),
-- All slices with a stack have the same stack around them.
placed AS MATERIALIZED (
    SELECT
        sums.* EXCLUDE (first_parent_id),
        if(crossing.slice_id IS NULL, sums.first_parent_id, crossing.around_id) AS around_id
    FROM sums
    LEFT JOIN crossing ON crossing.trace_id = sums.trace_id AND crossing.slice_id = sums.first_id
),
stacks AS MATERIALIZED (
    SELECT placed.* EXCLUDE (around_id), parents.stack_id AS parent_stack_id
    FROM placed
    LEFT JOIN (FROM canonical.host_slices WHERE slice_id IN (SELECT around_id FROM placed)) AS parents
           ON parents.trace_id = placed.trace_id AND parents.slice_id = placed.around_id
),
inner_time AS (
    SELECT trace_id, parent_stack_id AS stack_id, sum(host_sum_ns) AS inner_ns
    FROM stacks
    WHERE parent_stack_id IS NOT NULL
    GROUP BY trace_id, parent_stack_id
),
device_work AS (
    SELECT
        ops.trace_id, slices.stack_id,
        CAST(sum(ops.dur_ns) AS BIGINT) AS device_self_ns,
        count(*) AS device_op_count
    FROM canonical.gpu_ops AS ops
    JOIN canonical.host_slices AS slices
      ON slices.trace_id = ops.trace_id AND slices.slice_id = coalesce(ops.launch_id, ops.cpu_op_id)
    GROUP BY ops.trace_id, slices.stack_id
),
idle AS (
    SELECT pieces.trace_id, slices.stack_id, CAST(sum(pieces.dur_ns) AS BIGINT) AS idle_self_ns
    FROM attribution.ledger_rows AS pieces
    JOIN canonical.host_slices AS slices ON slices.trace_id = pieces.trace_id AND slices.slice_id = pieces.blame_id
    WHERE pieces.bucket LIKE 'host.%' AND pieces.blame_kind = 'slice'
    GROUP BY pieces.trace_id, slices.stack_id
)
SELECT
    traces.trace, traces.rank, stacks.trace_id, stacks.stack_id, stacks.parent_stack_id, stacks.depth,
    stacks.category, stacks.name, stacks.call_count, stacks.host_sum_ns,
    CAST(
        stacks.host_sum_ns - coalesce(inner_time.inner_ns, 0) + coalesce(twice_covered.overlap_ns, 0) AS BIGINT
    ) AS host_self_ns,
    coalesce(device_work.device_self_ns, 0) AS device_self_ns,
    coalesce(device_work.device_op_count, 0) AS device_op_count,
    coalesce(idle.idle_self_ns, 0) AS idle_self_ns
FROM stacks
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN inner_time ON inner_time.trace_id = stacks.trace_id AND inner_time.stack_id = stacks.stack_id
LEFT JOIN twice_covered ON twice_covered.trace_id = stacks.trace_id AND twice_covered.stack_id = stacks.stack_id
LEFT JOIN device_work ON device_work.trace_id = stacks.trace_id AND device_work.stack_id = stacks.stack_id
LEFT JOIN idle ON idle.trace_id = stacks.trace_id AND idle.stack_id = stacks.stack_id
