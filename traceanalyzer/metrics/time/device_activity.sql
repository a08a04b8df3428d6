-- One row per stretch of time in which GPU work of one kind runs on a device, on any stream.
--
-- The kinds are those of engine_time. Stretches of one kind neither overlap nor touch each other; work of zero length
-- is in no stretch.
--
-- columns: trace, rank, device, trace_id
--   engine    VARCHAR  kind of work
--   start_ns  BIGINT   start of the stretch
--   dur_ns    BIGINT   length of the stretch
WITH work AS (
    SELECT
        trace_id, device, kind, is_comm,
        CASE WHEN self_ns IS NOT NULL THEN 'loop' ELSE coalesce(copy_kind, '') END AS copy_kind,
        coalesce(name LIKE 'Memcpy UVM %', FALSE) AS is_managed,
        start_ns,
        start_ns + dur_ns AS end_ns
    FROM gpu_ops
),
-- Each kind of operation once; the kinds of work on a device are numbers, because numbers sort faster.
sorts AS MATERIALIZED (
    SELECT
        *,
        engines_of(kind, is_comm, nullif(copy_kind, ''), is_managed, bool_or(kind = 'graph') OVER (PARTITION BY trace_id, device)) AS engines
    FROM (SELECT DISTINCT trace_id, device, kind, is_comm, copy_kind, is_managed FROM work)
),
lanes AS MATERIALIZED (
    SELECT *, row_number() OVER () AS key
    FROM (SELECT DISTINCT trace_id, device, unnest(engines) AS engine FROM sorts)
),
keyed AS (
    SELECT sorts.trace_id, sorts.device, kind, is_comm, copy_kind, is_managed, list(key) AS keys
    FROM sorts
    JOIN lanes ON lanes.trace_id = sorts.trace_id AND lanes.device = sorts.device AND list_contains(engines, engine)
    GROUP BY ALL
),
ops AS (
    SELECT unnest(keys) AS key, start_ns, end_ns
    FROM work
    JOIN keyed USING (trace_id, device, kind, is_comm, copy_kind, is_managed)
)
SELECT trace, rank, device, trace_id, engine, start_ns, end_ns - start_ns AS dur_ns
FROM interval_merge('ops')
JOIN lanes USING (key)
JOIN canonical.traces USING (trace_id)
