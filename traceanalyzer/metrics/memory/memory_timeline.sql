-- One row per event of an allocator: how much memory is in use after it.
--
-- Events are in order of their time, and of their position in the file where times are equal. The framework's allocator
-- records its totals since 2022; without them only the change since the first event is known. NCCL, cuBLAS workspaces,
-- the private pools of graphs and other libraries bypass the framework's allocator: no total contains their memory.
-- Nsight Systems records the driver's memory instead.
--
-- columns: trace, rank
--   place            VARCHAR  device, or cpu
--   device           INTEGER  device; -1: the CPU
--   trace_id         INTEGER  traces.trace_id
--   event_id         BIGINT   memory_events.event_id
--   position         BIGINT   number of the event on its device, from 1
--   start_ns         BIGINT   time of the event
--   kind             VARCHAR  alloc or free
--   address          BIGINT   address
--   size_bytes       BIGINT   allocated (positive) or freed (negative)
--   allocated_bytes  BIGINT   total in use after the event; NULL: not recorded
--   reserved_bytes   BIGINT   total that the allocator holds after the event; NULL: not recorded
--   change_bytes     BIGINT   what was allocated since before the first event, less what was freed
--   follows          BOOLEAN  the total is that of the event before plus this event's size; NULL: no totals
SELECT
    traces.trace, traces.rank,
    if(events.is_cpu, 'cpu', 'device') AS place,
    events.device, events.trace_id, events.event_id, events.position, events.start_ns, events.kind,
    events.address, events.size_bytes, events.allocated_bytes, events.reserved_bytes,
    TRY_CAST(events.change_bytes AS BIGINT) AS change_bytes,
    events.allocated_bytes - events.before_bytes = events.size_bytes AS follows
FROM (
    SELECT
        trace_id, device,
        device_type = 0 AS is_cpu,
        event_id, start_ns, kind, address, size_bytes, allocated_bytes, reserved_bytes,
        row_number() OVER events_of_device AS position,
        sum(size_bytes) OVER (events_of_device ROWS UNBOUNDED PRECEDING) AS change_bytes,
        lag(allocated_bytes) OVER events_of_device AS before_bytes
    FROM canonical.memory_events
    WHERE kind IN ('alloc', 'free') AND size_bytes IS NOT NULL
    WINDOW events_of_device AS (PARTITION BY trace_id, is_cpu, device ORDER BY start_ns, event_id)
) AS events
JOIN canonical.traces AS traces USING (trace_id)
