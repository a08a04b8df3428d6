-- One row per graph: for how much of it captures of the run tell the operators (graph_operators).
--
-- columns: trace, rank, trace_id
--   graph           VARCHAR  graph, as in graph_launches
--   op_count        BIGINT   operations of the graph
--   matched_count   BIGINT   of them, those found in a capture
--   operator_count  BIGINT   of them, those with an operator there
--   capture_count   BIGINT   captures that fit the graph equally well
--   op_sum_ns       BIGINT   sum of the durations of the operations in all replays that are recorded in full
--   matched_share   DOUBLE   part of op_sum_ns in operations found in a capture
SELECT
    trace, rank, trace_id, graph,
    count(*) AS op_count,
    count(*) FILTER (WHERE is_matched) AS matched_count,
    count(operator) AS operator_count,
    any_value(capture_count) AS capture_count,
    CAST(sum(sum_ns) AS BIGINT) AS op_sum_ns,
    coalesce(sum(sum_ns) FILTER (WHERE is_matched), 0) / nullif(sum(sum_ns), 0) AS matched_share
FROM graph_operators
GROUP BY trace, rank, trace_id, graph
ORDER BY trace_id, op_sum_ns DESC, graph
