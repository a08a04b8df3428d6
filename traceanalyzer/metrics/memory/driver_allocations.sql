-- One row per device with GPU work: how often its process asks the driver to allocate or to free memory in the analysis
-- window, and how far these calls spread over it.
--
-- Counted are the calls that allocate, map, unmap or free memory of a device (cudaMalloc, cudaFree, cuMemMap and their
-- counterparts of HIP and SYCL), and apart from them those that allocate, register or free pinned memory of the host
-- (cudaMallocHost, cudaHostRegister, cudaFreeHost), on any thread of the process. Start-up allocates once and early; a
-- loop that allocates has calls in most tenths of the window. Several devices of one process share its calls.
--
-- columns: trace, rank, device, trace_id
--   call_count          BIGINT   calls for the device's memory in the window
--   free_count          BIGINT   part of them that frees or unmaps
--   tenth_count         BIGINT   tenths of the window in which one of them begins, 0 to 10
--   api                 VARCHAR  the one of them that takes most time in the trace; NULL: none
--   pinned_call_count   BIGINT   calls for pinned memory in the window
--   pinned_tenth_count  BIGINT   tenths of the window in which one of them begins, 0 to 10
WITH calls AS (
    SELECT
        trace_id, slice_id, start_ns, name,
        sum(dur_ns) OVER (PARTITION BY trace_id, name) AS name_ns,
        count(*) OVER (PARTITION BY trace_id, name) AS name_count,
        calls_to(name, 'pin') AS pins
    FROM api_calls
    WHERE calls_to(name, 'allocate') OR calls_to(name, 'free') OR pins
)
SELECT
    traces.trace, traces.rank, windows.device, windows.trace_id,
    count(calls.slice_id) FILTER (WHERE NOT pins) AS call_count,
    count(calls.slice_id) FILTER (WHERE NOT pins AND calls_to(calls.name, 'free')) AS free_count,
    count(DISTINCT 10 * (calls.start_ns - windows.start_ns) // windows.window_ns) FILTER (WHERE NOT pins) AS tenth_count,
    arg_min(calls.name, (-calls.name_ns, -calls.name_count, calls.name)) FILTER (WHERE NOT pins) AS api,
    count(calls.slice_id) FILTER (WHERE pins) AS pinned_call_count,
    count(DISTINCT 10 * (calls.start_ns - windows.start_ns) // windows.window_ns) FILTER (WHERE pins) AS pinned_tenth_count
FROM attribution.windows AS windows
JOIN traces USING (trace_id)
LEFT JOIN calls
       ON calls.trace_id = windows.trace_id
      AND calls.start_ns >= windows.start_ns
      AND calls.start_ns < windows.end_ns
GROUP BY traces.trace, traces.rank, windows.device, windows.trace_id
ORDER BY windows.trace_id, windows.device
