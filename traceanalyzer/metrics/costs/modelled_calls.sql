-- One row per call of an operator with a model that runs inside no other call of one.
--
-- Where operators with models call each other, only the outermost counts, as both describe the same work.
--
-- columns:
--   trace_id   INTEGER  traces.trace_id
--   slice_id   BIGINT   the call (host_slices.slice_id)
--   thread_id  INTEGER  its thread
--   start_ns   BIGINT   start
--   end_ns     BIGINT   end
--   operator   VARCHAR  operator
--   family     VARCHAR  as in operator_models
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
