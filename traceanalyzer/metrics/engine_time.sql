-- One row per trace, device and kind of GPU work: how long some work of the kind ran, and how much of it was hidden.
--
-- Times are lengths of unions over all streams. Hidden is the part of communication during which a compute kernel runs,
-- and the part of copies and memsets during which any kernel runs; the rest is exposed. Kinds: kernel (compute and comm,
-- without graph replays recorded as a whole, which are graph), compute, comm, graph, memset, copies by direction (HtoD,
-- DtoH, DtoD, PtoP, HtoH and others as recorded; with UVM before it where managed memory migrates), memcpy (all copies),
-- op (everything), op_no_graph (everything but whole replays: what tools see that do not read them).
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
WITH kinds AS (
    SELECT
        trace_id,
        device,
        start_ns,
        start_ns + dur_ns AS end_ns,
        unnest(
            CASE kind
                WHEN 'kernel' THEN ['op', 'op_no_graph', 'kernel', if(is_comm, 'comm', 'compute')]
                WHEN 'memcpy' THEN ['op', 'op_no_graph', 'memcpy', if(name LIKE 'Memcpy UVM %', 'UVM ', '') || coalesce(copy_kind, 'unknown copy')]
                WHEN 'memset' THEN ['op', 'op_no_graph', 'memset']
                ELSE ['op', 'graph']
            END
        ) AS engine
    FROM gpu_ops
),
ops AS (
    SELECT {'trace_id': trace_id, 'device': device, 'engine': engine} AS key, start_ns, end_ns
    FROM kinds
),
hideouts AS (
    -- What each kind can hide behind, under the kind's own key.
    SELECT {'trace_id': trace_id, 'device': device, 'engine': hidden.engine} AS key, start_ns, end_ns
    FROM kinds
    JOIN (
        SELECT DISTINCT engine
        FROM kinds
        WHERE engine NOT IN ('op', 'op_no_graph', 'kernel', 'compute', 'graph')
    ) AS hidden ON kinds.engine IN (if(hidden.engine = 'comm', 'compute', 'kernel'), 'graph')
),
unions AS (
    SELECT key, CAST(sum(end_ns - start_ns) AS BIGINT) AS busy_ns
    FROM interval_merge('ops')
    GROUP BY key
),
hidden AS (
    SELECT key, CAST(sum(end_ns - start_ns) AS BIGINT) AS hidden_ns
    FROM interval_intersect('ops', 'hideouts')
    GROUP BY key
),
sums AS (
    SELECT
        key,
        count(*) AS op_count,
        CAST(sum(end_ns - start_ns) AS BIGINT) AS sum_ns,
        min(start_ns) AS first_ns,
        max(end_ns) AS last_ns
    FROM ops
    GROUP BY key
)
SELECT
    trace,
    rank,
    sums.key.device AS device,
    sums.key.engine AS engine,
    op_count,
    sum_ns,
    coalesce(busy_ns, 0) AS busy_ns,
    CASE
        WHEN sums.key.engine NOT IN ('op', 'op_no_graph', 'kernel', 'compute', 'graph') THEN coalesce(hidden_ns, 0)
    END AS hidden_ns,
    sums.first_ns,
    sums.last_ns,
    sums.last_ns - sums.first_ns AS span_ns,
    sums.last_ns - sums.first_ns - coalesce(busy_ns, 0) AS idle_ns
FROM sums
JOIN canonical.traces ON traces.trace_id = sums.key.trace_id
LEFT JOIN unions ON unions.key = sums.key
LEFT JOIN hidden ON hidden.key = sums.key
ORDER BY traces.trace_id, device, engine
