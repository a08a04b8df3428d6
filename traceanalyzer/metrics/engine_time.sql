-- One row per trace, device and kind of GPU work: how long some work of the kind ran, and how much of it was hidden.
--
-- Times are lengths of unions over all streams. Hidden is the part of communication during which a compute kernel runs,
-- and the part of copies and memsets during which any kernel runs; the rest is exposed. Kinds: kernel (compute and comm,
-- without graph replays recorded as a whole, which are graph), compute, comm, graph, memset, copies by direction (HtoD,
-- DtoH, DtoD, PtoP, HtoH and others as recorded; with UVM before it where managed memory migrates), memcpy (all copies),
-- op (everything), op_no_graph (everything but whole replays: what tools see that do not read them); where whole replays
-- were recorded, kernel_or_graph and compute_or_graph, too.
--
-- columns:
--   trace     VARCHAR  name of the trace
--   rank      INTEGER  rank in the job
--   device    INTEGER  device
--   engine    VARCHAR  kind of work
--   op_count  BIGINT   operations
--   sum_ns    BIGINT   sum of durations
--   busy_ns   BIGINT   some operation of the kind runs
--   hidden_ns BIGINT   busy while a kernel that it can hide behind runs; NULL for kernels and everything
--   first_ns  BIGINT   start of the first
--   last_ns   BIGINT   end of the last
--   span_ns   BIGINT   last_ns - first_ns
--   idle_ns   BIGINT   span_ns - busy_ns
WITH activity AS MATERIALIZED (
    SELECT
        trace_id,
        device,
        engine,
        start_ns,
        start_ns + dur_ns AS end_ns
    FROM device_activity
),
unions AS (
    SELECT trace_id, device, engine, CAST(sum(end_ns - start_ns) AS BIGINT) AS busy_ns
    FROM activity
    GROUP BY trace_id, device, engine
),
sorts AS (
    SELECT
        trace_id,
        device,
        kind,
        is_comm,
        copy_kind,
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
        trace_id,
        device,
        engine,
        CAST(sum(op_count) AS BIGINT) AS op_count,
        CAST(sum(sum_ns) AS BIGINT) AS sum_ns,
        min(first_ns) AS first_ns,
        max(last_ns) AS last_ns,
        -- What work of the kind can hide behind.
        CASE
            WHEN engine = 'comm' THEN 'compute'
            WHEN engine NOT IN ('op', 'op_no_graph', 'kernel', 'compute', 'graph', 'kernel_or_graph', 'compute_or_graph') THEN 'kernel'
        END || if(bool_or(engine = 'graph') OVER (PARTITION BY trace_id, device), '_or_graph', '') AS behind
    FROM engines
    GROUP BY trace_id, device, engine
),
-- With the time that a hideout has run before each of its stretches, what it covers of any interval is a difference.
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
        hiding.trace_id,
        hiding.device,
        hiding.engine,
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
    trace,
    rank,
    device,
    engine,
    op_count,
    sum_ns,
    coalesce(busy_ns, 0) AS busy_ns,
    CASE WHEN behind IS NOT NULL THEN coalesce(hidden_ns, 0) END AS hidden_ns,
    sums.first_ns,
    sums.last_ns,
    sums.last_ns - sums.first_ns AS span_ns,
    sums.last_ns - sums.first_ns - coalesce(busy_ns, 0) AS idle_ns
FROM sums
JOIN canonical.traces USING (trace_id)
LEFT JOIN unions USING (trace_id, device, engine)
LEFT JOIN hidden USING (trace_id, device, engine)
ORDER BY trace_id, device, engine
