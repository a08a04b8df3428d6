-- One row per device with GPU work: how often its process asks the driver to allocate or to free memory in the analysis
-- window, and how far these calls spread over it.
--
-- Counted are the calls that allocate, map, unmap or free memory of a device (cudaMalloc, cudaFree, cuMemMap and their
-- HIP counterparts), on any thread of the process. Start-up allocates once and early; a loop that allocates has calls
-- in most tenths of the window. Several devices of one process share its calls.
--
-- columns:
--   trace        VARCHAR  name of the trace
--   rank         INTEGER  rank in the job
--   device       INTEGER  device
--   trace_id     INTEGER  traces.trace_id
--   call_count   BIGINT   calls in the window
--   free_count   BIGINT   part of them that frees or unmaps
--   tenth_count  BIGINT   tenths of the window in which a call begins, 0 to 10
--   api          VARCHAR  the most frequent call; NULL: none
SELECT
    traces.trace,
    traces.rank,
    windows.device,
    windows.trace_id,
    count(calls.slice_id) AS call_count,
    count(calls.slice_id) FILTER (WHERE regexp_matches(calls.name, 'Free|Unmap')) AS free_count,
    count(DISTINCT 10 * (calls.start_ns - windows.start_ns) // windows.window_ns) AS tenth_count,
    mode(calls.name ORDER BY calls.name) AS api
FROM attribution.windows AS windows
JOIN traces USING (trace_id)
LEFT JOIN host_slices AS calls
       ON calls.trace_id = windows.trace_id
      AND calls.start_ns >= windows.start_ns
      AND calls.start_ns < windows.end_ns
      AND calls.category IN ('runtime', 'driver')
      AND regexp_matches(calls.name, '^(cuda|hip)(Malloc|Free)(Async|Managed|Pitch|)(_v[0-9]+|)$|^cuMem(Create|Map|Unmap|SetAccess|Alloc|Free)')
GROUP BY traces.trace, traces.rank, windows.device, windows.trace_id
ORDER BY windows.trace_id, windows.device
