-- One row per device and step of the host, and one per device over all events: how much memory it took at most.
--
-- The peak is the most memory in use at once. reserved_at_peak_bytes is what the allocator holds at that event;
-- peak_reserved_bytes is the most that it holds at any event. Memory in use before the first event (parameters,
-- optimizer states, caches) has no owner in the trace. Not all memory that is reserved but free is wasted: the
-- allocator can give unused segments back (memory_snapshot_totals shows how much).
--
-- columns: trace, rank
--   place                  VARCHAR  device, or cpu
--   device                 INTEGER  device; -1: the CPU
--   trace_id               INTEGER  traces.trace_id
--   step                   BIGINT   step of the host; NULL: all events
--   event_count            BIGINT   events
--   alloc_count            BIGINT   allocations
--   alloc_bytes            BIGINT   bytes of all allocations
--   free_bytes             BIGINT   bytes of all frees
--   before_bytes           BIGINT   in use before the first event; NULL: no totals
--   after_bytes            BIGINT   in use after the last event; NULL: no totals
--   peak_bytes             BIGINT   largest total in use; NULL: no totals
--   peak_position          BIGINT   number of the first event with this total, or with the largest change (memory_timeline)
--   peak_ns                BIGINT   time of this event
--   reserved_at_peak_bytes BIGINT   reserved at this event; NULL: no totals
--   peak_reserved_bytes    BIGINT   largest reserved total; NULL: no totals
--   peak_change_bytes      BIGINT   largest total in use above what was in use before the first event of all
--   most_free_bytes        BIGINT   largest reserved but free memory; NULL: no totals
--   least_free_bytes       BIGINT   smallest reserved but free memory; NULL: no totals
--   broken_count           BIGINT   events whose total does not follow from the event before; NULL: no totals
WITH host_steps AS (
    SELECT trace_id, host_start_ns, any_value(step) AS step, max(host_end_ns) AS host_end_ns
    FROM attribution.steps
    GROUP BY trace_id, host_start_ns
),
events AS MATERIALIZED (
    SELECT
        timeline.*,
        CASE WHEN timeline.start_ns < steps.host_end_ns THEN steps.step END AS step,
        coalesce(allocated_bytes, change_bytes) AS level_bytes
    FROM memory_timeline AS timeline
    ASOF LEFT JOIN host_steps AS steps
        ON steps.trace_id = timeline.trace_id AND steps.host_start_ns <= timeline.start_ns
)
SELECT
    trace, rank, place, device, trace_id, step,
    count(*) AS event_count,
    count(*) FILTER (WHERE kind = 'alloc') AS alloc_count,
    TRY_CAST(coalesce(sum(size_bytes) FILTER (WHERE kind = 'alloc'), 0) AS BIGINT) AS alloc_bytes,
    TRY_CAST(coalesce(-sum(size_bytes) FILTER (WHERE kind = 'free'), 0) AS BIGINT) AS free_bytes,
    arg_min(allocated_bytes - size_bytes, position) AS before_bytes,
    arg_max(allocated_bytes, position) AS after_bytes,
    max(allocated_bytes) AS peak_bytes,
    arg_max(position, (level_bytes, -position)) AS peak_position,
    arg_max(start_ns, (level_bytes, -position)) AS peak_ns,
    arg_max(reserved_bytes, (level_bytes, -position)) AS reserved_at_peak_bytes,
    max(reserved_bytes) AS peak_reserved_bytes,
    max(change_bytes) AS peak_change_bytes,
    max(reserved_bytes - allocated_bytes) AS most_free_bytes,
    min(reserved_bytes - allocated_bytes) AS least_free_bytes,
    CASE WHEN count(allocated_bytes) > 0 THEN count(*) FILTER (WHERE NOT follows) END AS broken_count
FROM events
GROUP BY GROUPING SETS ((trace_id, trace, rank, place, device), (trace_id, trace, rank, place, device, step))
HAVING GROUPING(step) = 1 OR step IS NOT NULL
ORDER BY trace_id, place DESC, device, step NULLS FIRST
