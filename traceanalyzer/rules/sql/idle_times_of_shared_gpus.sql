-- One row per device whose GPU works for other processes by turns: for how long in its window the GPU is idle.
--
-- What the device's own trace shows as idle beyond that is work of another process, which a fix of this one only delays.
-- Processes whose work overlaps run at once (MPS): work of one may fill what another leaves free.
SELECT
    shared.trace_id,
    shared.device,
    CAST(windows.window_ns * (1 - shared.busy_ns / shared.span_ns) AS BIGINT) AS idle_ns
FROM shared_gpus AS shared
JOIN windows USING (trace_id, device)
WHERE shared.span_ns > 0
  AND shared.overlapped_ns < 0.05 * shared.own_busy_ns
ORDER BY shared.trace_id, shared.device
