-- One row per trace, device and kind of GPU work: how long work of the kind ran, and how much of it was hidden.
--
-- Times are lengths of unions over all streams. Communication is hidden while a compute kernel runs; copies and memsets
-- are hidden while any kernel runs; the rest is exposed. Kinds: kernel (compute and comm), compute, comm, graph (graph
-- replays recorded as a whole, which are not in kernel), memset; copies by direction (HtoD, DtoH, DtoD, PtoP, HtoH and
-- others as recorded, with UVM in front where managed memory migrates), memcpy (all copies); op (everything),
-- op_no_graph (everything except whole graph replays, as seen by tools that do not read them). Where whole replays were
-- recorded, also kernel_or_graph and compute_or_graph.
--
-- columns: trace, rank, device
--   engine    VARCHAR  kind of work
--   op_count  BIGINT   operations
--   sum_ns    BIGINT   sum of durations
--   busy_ns   BIGINT   time in which an operation of the kind runs
--   hidden_ns BIGINT   part of busy_ns in which a kernel runs that can hide the work; NULL: kernels, graph replays and
--                      kinds that include them
--   first_ns  BIGINT   start of the first operation
--   last_ns   BIGINT   end of the last operation
--   span_ns   BIGINT   last_ns - first_ns
--   idle_ns   BIGINT   span_ns - busy_ns
WITH activity AS MATERIALIZED (
    SELECT trace_id, device, engine, start_ns, start_ns + dur_ns AS end_ns
    FROM device_activity
),
unions AS (
    SELECT trace_id, device, engine, CAST(sum(end_ns - start_ns) AS BIGINT) AS busy_ns
    FROM activity
    GROUP BY trace_id, device, engine
),
sorts AS (
    SELECT
        trace_id, device, kind, is_comm,
        CASE WHEN self_ns IS NOT NULL THEN 'loop' ELSE copy_kind END AS copy_kind,
        coalesce(name LIKE 'Memcpy UVM %', FALSE) AS is_managed,
        count(*) AS op_count,
        sum(dur_ns) AS sum_ns,
        min(start_ns) AS first_ns,
        max(start_ns + dur_ns) AS last_ns
    FROM gpu_ops
    GROUP BY ALL
),
engines AS (
    SELECT
        *,
        unnest(engines_of(kind, is_comm, copy_kind, is_managed, bool_or(kind = 'graph') OVER (PARTITION BY trace_id, device))) AS engine
    FROM sorts
),
sums AS (
    SELECT
        trace_id, device, engine,
        CAST(sum(op_count) AS BIGINT) AS op_count,
        CAST(sum(sum_ns) AS BIGINT) AS sum_ns,
        min(first_ns) AS first_ns,
        max(last_ns) AS last_ns,
        -- The kind of kernel that can hide this work.
        CASE
            WHEN engine = 'comm' THEN 'compute'
            WHEN engine NOT IN ('op', 'op_no_graph', 'kernel', 'compute', 'graph', 'kernel_or_graph', 'compute_or_graph') THEN 'kernel'
        END || if(bool_or(engine = 'graph') OVER (PARTITION BY trace_id, device), '_or_graph', '') AS behind
    FROM engines
    GROUP BY trace_id, device, engine
),
-- before_ns is the time that the hiding kind has run before each stretch, so that its part of any interval is a
-- difference of two values.
hideouts AS (
    SELECT *, coalesce(sum(end_ns - start_ns) OVER before, 0) AS before_ns
    FROM activity
    SEMI JOIN sums ON sums.trace_id = activity.trace_id AND sums.device = activity.device AND behind = activity.engine
    WINDOW before AS (
        PARTITION BY trace_id, device, engine ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
hiding AS (
    SELECT activity.*, behind
    FROM activity
    JOIN sums USING (trace_id, device, engine)
    WHERE behind IS NOT NULL
),
hidden AS (
    SELECT
        hiding.trace_id, hiding.device, hiding.engine,
        CAST(
            sum(coalesce(at_end.before_ns + least(hiding.end_ns, at_end.end_ns) - at_end.start_ns, 0))
            - sum(coalesce(at_start.before_ns + least(hiding.start_ns, at_start.end_ns) - at_start.start_ns, 0)) AS BIGINT
        ) AS hidden_ns
    FROM hiding
    ASOF LEFT JOIN hideouts AS at_start
        ON at_start.trace_id = hiding.trace_id
        AND at_start.device = hiding.device
        AND at_start.engine = hiding.behind
        AND at_start.start_ns <= hiding.start_ns
    ASOF LEFT JOIN hideouts AS at_end
        ON at_end.trace_id = hiding.trace_id
        AND at_end.device = hiding.device
        AND at_end.engine = hiding.behind
        AND at_end.start_ns <= hiding.end_ns
    GROUP BY hiding.trace_id, hiding.device, hiding.engine
)
SELECT
    trace, rank, device, engine, op_count, sum_ns,
    coalesce(busy_ns, 0) AS busy_ns,
    CASE WHEN behind IS NOT NULL THEN coalesce(hidden_ns, 0) END AS hidden_ns,
    sums.first_ns, sums.last_ns,
    sums.last_ns - sums.first_ns AS span_ns,
    sums.last_ns - sums.first_ns - coalesce(busy_ns, 0) AS idle_ns
FROM sums
JOIN canonical.traces USING (trace_id)
LEFT JOIN unions USING (trace_id, device, engine)
LEFT JOIN hidden USING (trace_id, device, engine)
ORDER BY trace_id, device, engine
