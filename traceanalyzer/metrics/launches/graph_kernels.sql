-- One row per graph and position in it: which operation runs there in each replay, and how its duration varies.
--
-- Only replays whose nodes were recorded, with as many operations as most replays of their graph, count (graph_launches).
--
-- columns: trace, rank, trace_id
--   graph         VARCHAR  graph, as in graph_launches
--   position      BIGINT   number of the operation in the replay, by start, from 1
--   name          VARCHAR  operation, as written
--   replay_count  BIGINT   replays
--   sum_ns        BIGINT   sum of the durations
--   median_ns     DOUBLE   median duration
--   min_ns        BIGINT   shortest
--   max_ns        BIGINT   longest
WITH placed AS (
    SELECT
        launches.trace, launches.rank, launches.trace_id, launches.graph, ops.name, ops.dur_ns,
        row_number() OVER (PARTITION BY launches.trace_id, launches.launch_id ORDER BY ops.start_ns, ops.op_id) AS position
    FROM graph_launches AS launches
    JOIN canonical.gpu_ops AS ops ON ops.trace_id = launches.trace_id AND ops.launch_id = launches.launch_id
    WHERE launches.has_nodes AND NOT launches.is_under_recorded
)
SELECT
    trace, rank, trace_id, graph, position, name,
    count(*) AS replay_count,
    CAST(sum(dur_ns) AS BIGINT) AS sum_ns,
    median(dur_ns) AS median_ns,
    min(dur_ns) AS min_ns,
    max(dur_ns) AS max_ns
FROM placed
GROUP BY trace, rank, trace_id, graph, position, name
ORDER BY trace_id, graph, position, name
