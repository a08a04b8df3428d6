-- One row per device and owner: which memory was alive when most memory was in use.
--
-- The peak is that of memory_peaks over all events. Owners are those of memory_allocations; `older` is memory from
-- before the recording, which has no owner in the trace and is never divided among the others. Allocations without
-- addresses are left out, so the rows then add up to less than the peak.
--
-- columns: trace, rank
--   place        VARCHAR  device, or cpu
--   device       INTEGER  device; -1: the CPU
--   trace_id     INTEGER  traces.trace_id
--   category     VARCHAR  older, or the estimate of memory_allocations
--   operator     VARCHAR  operator that made it; NULL: outside operators, or older
--   module       VARCHAR  innermost module around that operator; NULL: none
--   python       VARCHAR  innermost Python frame around that operator, as file(line): function; NULL: none
--   alloc_count  BIGINT   allocations; NULL: older
--   live_bytes   BIGINT   bytes alive at the peak
--   live_share   DOUBLE   live_bytes / the peak's bytes in use; NULL: no totals
WITH peaks AS (
    SELECT *
    FROM memory_peaks
    WHERE step IS NULL
),
live AS (
    SELECT
        peaks.trace_id, peaks.place, peaks.device, allocations.category, allocations.operator,
        modules.name AS module, frames.name AS python,
        count(*) AS alloc_count,
        TRY_CAST(sum(allocations.size_bytes) AS BIGINT) AS live_bytes
    FROM peaks
    JOIN memory_allocations AS allocations
      ON allocations.trace_id = peaks.trace_id
     AND allocations.place = peaks.place
     AND allocations.device = peaks.device
     AND allocations.position <= peaks.peak_position
     AND coalesce(allocations.free_position > peaks.peak_position, TRUE)
    LEFT JOIN canonical.host_slices AS modules
           ON modules.trace_id = allocations.trace_id AND modules.slice_id = allocations.module_id
    LEFT JOIN canonical.host_slices AS frames
           ON frames.trace_id = allocations.trace_id AND frames.slice_id = allocations.python_id
    WHERE allocations.is_matched
    GROUP BY ALL
),
-- Memory from before the recording may be freed before the peak, so `older` is the part of the peak that no allocation
-- of the recording holds.
held AS (
    SELECT trace_id, place, device, sum(live_bytes) AS live_bytes
    FROM live
    GROUP BY trace_id, place, device
),
owners AS (
    SELECT * FROM live
    UNION ALL
    SELECT
        peaks.trace_id, peaks.place, peaks.device,
        'older',
        NULL, NULL, NULL, NULL,
        CAST(peaks.peak_bytes - coalesce(held.live_bytes, 0) AS BIGINT)
    FROM peaks
    LEFT JOIN held USING (trace_id, place, device)
    WHERE peaks.peak_bytes > coalesce(held.live_bytes, 0)
)
SELECT
    peaks.trace, peaks.rank, owners.place, owners.device, owners.trace_id, owners.category, owners.operator,
    owners.module, owners.python, owners.alloc_count, owners.live_bytes,
    owners.live_bytes / nullif(peaks.peak_bytes, 0) AS live_share
FROM owners
JOIN peaks USING (trace_id, place, device)
ORDER BY
    owners.trace_id,
    owners.place DESC,
    owners.device,
    owners.live_bytes DESC,
    owners.category, owners.operator, owners.module, owners.python
