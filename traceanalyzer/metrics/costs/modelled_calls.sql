-- One row per call of an operator with a model that runs inside no other call of one.
--
-- Where operators with models call each other, only the outermost counts, as both describe the same work. Calls that a
-- capture shows in a replayed graph (captured_calls) count in each replay that holds all of their work.
--
-- columns:
--   trace_id   INTEGER  traces.trace_id
--   slice_id   BIGINT   the call (host_slices.slice_id, or captured_calls.call_id)
--   thread_id  INTEGER  its thread; NULL: in a replayed graph
--   start_ns   BIGINT   start; in a replayed graph that of the graph's launch
--   end_ns     BIGINT   end; in a replayed graph the start
--   operator   VARCHAR  operator
--   family     VARCHAR  as in operator_models
WITH on_host AS (
    SELECT
        slices.trace_id,
        slices.slice_id,
        slices.thread_id,
        slices.start_ns,
        slices.start_ns + slices.dur_ns AS end_ns,
        slices.name AS operator,
        models.family
    FROM canonical.host_slices AS slices
    JOIN operator_models AS models ON models.operator = slices.name
    WHERE slices.category = 'cpu_op'
    WINDOW before AS (
        PARTITION BY slices.trace_id, slices.thread_id
        ORDER BY slices.start_ns, slices.dur_ns DESC, slices.slice_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
    QUALIFY NOT coalesce(
        max(slices.start_ns + slices.dur_ns) OVER before >= slices.start_ns + slices.dur_ns
        AND max(slices.start_ns + slices.dur_ns) OVER before > slices.start_ns,
        FALSE
    )
),
-- Their times are those of the capture.
in_graphs AS (
    SELECT
        calls.trace_id,
        calls.call_id AS slice_id,
        calls.launch_id,
        calls.name AS operator,
        models.family
    FROM attribution.captured_calls AS calls
    JOIN operator_models AS models ON models.operator = calls.name
    WHERE calls.is_whole
    WINDOW before AS (
        PARTITION BY calls.trace_id, calls.launch_id, calls.owner_id
        ORDER BY calls.start_ns, calls.dur_ns DESC, calls.slice_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
    QUALIFY NOT coalesce(
        max(calls.start_ns + calls.dur_ns) OVER before >= calls.start_ns + calls.dur_ns
        AND max(calls.start_ns + calls.dur_ns) OVER before > calls.start_ns,
        FALSE
    )
)
FROM on_host
UNION ALL
SELECT
    calls.trace_id,
    calls.slice_id,
    NULL,
    launches.start_ns,
    launches.start_ns,
    calls.operator,
    calls.family
FROM in_graphs AS calls
JOIN canonical.host_slices AS launches
  ON launches.trace_id = calls.trace_id AND launches.slice_id = calls.launch_id
