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
    SELECT {'trace_id': trace_id, 'device': device, 'behind': behind} AS key, start_ns, end_ns
    FROM kinds
    JOIN (
        VALUES ('kernel', 'kernel'), ('graph', 'kernel'), ('compute', 'compute'), ('graph', 'compute')
    ) AS sets (engine, behind) USING (engine)
),
-- With the time that a hideout has run before each of its islands, what it covers of any interval is a difference.
islands AS (
    SELECT
        key,
        start_ns,
        end_ns,
        coalesce(sum(end_ns - start_ns) OVER before, 0) AS before_ns
    FROM interval_merge('hideouts')
    WINDOW before AS (PARTITION BY key ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
busy AS (
    SELECT
        key,
        {'trace_id': key.trace_id, 'device': key.device, 'behind': if(key.engine = 'comm', 'compute', 'kernel')} AS hideout,
        start_ns,
        end_ns
    FROM interval_merge('ops')
),
hidden AS (
    SELECT
        busy.key AS key,
        CAST(
            sum(coalesce(at_end.before_ns + least(busy.end_ns, at_end.end_ns) - at_end.start_ns, 0))
            - sum(coalesce(at_start.before_ns + least(busy.start_ns, at_start.end_ns) - at_start.start_ns, 0)) AS BIGINT
        ) AS hidden_ns
    FROM busy
    ASOF LEFT JOIN islands AS at_start ON at_start.key = busy.hideout AND at_start.start_ns <= busy.start_ns
    ASOF LEFT JOIN islands AS at_end ON at_end.key = busy.hideout AND at_end.start_ns <= busy.end_ns
    WHERE busy.key.engine NOT IN ('op', 'op_no_graph', 'kernel', 'compute', 'graph')
    GROUP BY busy.key
),
unions AS (
    SELECT key, CAST(sum(end_ns - start_ns) AS BIGINT) AS busy_ns
    FROM busy
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
