-- One row per trace (or device) and capability: what the trace holds that rules can require, and how to record the rest.
--
-- What a capability means is in capability_kinds, how to record it in recording_hints. A rule whose requirement is not
-- available abstains and says `detail` and `unlock`; it never reads as 'nothing found'.
--
-- columns: trace, rank
--   device       INTEGER  device; NULL: of the whole trace
--   capability   VARCHAR  name, as a rule's `requires` writes it
--   available    BOOLEAN  the trace has it
--   detail       VARCHAR  what was seen
--   unlock       VARCHAR  what records it next time
WITH host AS (
    SELECT
        trace_id,
        count(*) FILTER (WHERE category = 'cpu_op') AS cpu_ops,
        count(*) FILTER (WHERE category IN ('runtime', 'driver')) AS api_calls,
        count(*) FILTER (WHERE category = 'python' OR starts_with(name, 'Python GC')) AS python_frames
    FROM host_slices
    GROUP BY trace_id
),
copies_in AS (
    SELECT
        trace_id,
        count(*) AS copies,
        count(*) FILTER (WHERE src_kind IS NULL OR src_kind = 'host') AS unknown_copies
    FROM gpu_ops
    WHERE copy_kind = 'HtoD'
      AND NOT starts_with(name, 'Memcpy UVM')  -- managed memory moves by itself: no copy from a buffer
    GROUP BY trace_id
),
kernels AS (
    SELECT
        trace_id, device,
        count(operator_id) / count(*) AS linked_share,
        coalesce(
            sum(dur_ns) FILTER (WHERE tensor_core = 'unknown')
            / nullif(sum(dur_ns) FILTER (WHERE tensor_core IS NOT NULL), 0),
            0
        ) AS unknown_share
    FROM kernel_class
    WHERE class <> 'comm'
    GROUP BY trace_id, device
),
run AS (
    SELECT count(DISTINCT rank) AS found_ranks, max(world_size) AS world_size
    FROM canonical.traces
),
-- A server may have no requests: between iterations its issuing thread polls, or nothing of it is recorded.
serving AS (
    SELECT trace_id, device, min(host_start_ns) AS start_ns, max(host_end_ns) AS end_ns
    FROM attribution.steps
    WHERE kept AND regexp_matches(name, '^(execute_context_|step\[)')
    GROUP BY trace_id, device
),
server_threads AS (
    SELECT serving.trace_id, serving.device, serving.start_ns, serving.end_ns, mode(calls.thread_id) AS thread_id
    FROM serving
    JOIN gpu_ops AS ops USING (trace_id, device)
    JOIN launching_slices AS calls ON calls.trace_id = ops.trace_id AND calls.slice_id = ops.launch_id
    GROUP BY serving.trace_id, serving.device, serving.start_ns, serving.end_ns
),
slices_of_servers AS (
    FROM host_slices
    SEMI JOIN server_threads USING (trace_id, thread_id)
),
server_slices AS (
    SELECT
        threads.trace_id, threads.device,
        threads.end_ns - threads.start_ns AS served_ns,
        slices.dur_ns,
        slices.depth = 0 AS is_outermost,
        slices.start_ns - max(slices.start_ns + slices.dur_ns) OVER (
            PARTITION BY threads.trace_id, threads.device
            ORDER BY slices.start_ns, slices.depth, slices.slice_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS silent_ns,
        regexp_matches(slices.name, '\b(poll|epoll|epoll_wait|select|recv|recv_multipart|recv_pyobj|get_nowait)\b') AND NOT coalesce(regexp_matches(parents.name, '\b(poll|epoll|epoll_wait|select|recv|recv_multipart|recv_pyobj|get_nowait)\b'), FALSE) AS is_waiting
    FROM server_threads AS threads
    JOIN slices_of_servers AS slices
      ON slices.trace_id = threads.trace_id
     AND slices.thread_id = threads.thread_id
     AND slices.start_ns BETWEEN threads.start_ns AND threads.end_ns
    LEFT JOIN slices_of_servers AS parents ON parents.trace_id = slices.trace_id AND parents.slice_id = slices.parent_id
),
unasked AS (
    SELECT
        trace_id, device,
        (
            coalesce(sum(silent_ns) FILTER (WHERE is_outermost AND silent_ns >= 1e6), 0)
            + coalesce(sum(dur_ns) FILTER (WHERE is_waiting), 0)
        ) / nullif(any_value(served_ns), 0) AS share
    FROM server_slices
    GROUP BY trace_id, device
),
facts AS (
    SELECT
        traces.trace_id, NULL::INTEGER AS device,
        unnest([
            {capability: 'gpu_ops', available: gpu.op_count > 0, detail: 'no GPU work is in the trace'},
            {capability: 'cpu_ops', available: host.cpu_ops > 0, detail: 'no operators are in the trace'},
            {capability: 'shapes', available: traces.has_shapes, detail: 'no input shapes were recorded'},
            {capability: 'python_stack', available: traces.has_stacks OR host.python_frames > 0, detail: 'no Python stacks were recorded'},
            {capability: 'mem_events', available: traces.has_memory AND traces.recorder IS DISTINCT FROM 'nsys', detail: 'no allocator events were recorded'},
            {capability: 'failed_allocations', available: if(traces.recorder = 'nsys', host.api_calls > 0, traces.has_memory), detail: 'neither allocator events nor what calls return was recorded'},
            {capability: 'sync_edges', available: traces.has_sync_events, detail: 'stream and event waits were not recorded'},
            {capability: 'api_calls', available: host.api_calls > 0, detail: 'no runtime or driver calls are in the trace'},
            {capability: 'copy_kinds', available: coalesce(copies_in.unknown_copies, 0) = 0, detail: printf('%d of %d copies to the device %s not say from which memory', copies_in.unknown_copies, copies_in.copies, if(copies_in.unknown_copies = 1, 'does', 'do'))},
            {capability: 'all_ranks', available: run.found_ranks >= coalesce(run.world_size, 1), detail: printf('%d of %d ranks %s in the run', run.found_ranks, run.world_size, if(run.found_ranks = 1, 'is', 'are'))}
        ], recursive := true)
    FROM canonical.traces AS traces
    CROSS JOIN run
    LEFT JOIN host USING (trace_id)
    LEFT JOIN copies_in USING (trace_id)
    LEFT JOIN (SELECT trace_id, count(*) AS op_count FROM gpu_ops GROUP BY trace_id) AS gpu USING (trace_id)
    UNION ALL
    SELECT
        windows.trace_id, windows.device,
        unnest([
            {capability: 'steps', available: windows.step_count >= 2, detail: CASE windows.step_count
                WHEN 0 THEN 'no whole step was recorded'
                WHEN 1 THEN 'only one whole step was recorded'
                ELSE printf('%d whole steps', windows.step_count)
            END},
            {capability: 'launch_link', available: windows.launch_link_share >= 0.9, detail: printf('%.0f %% of compute time has its launch in the trace', 100 * windows.launch_link_share)},
            {capability: 'bounds', available: windows.bound_abstains IS NULL, detail: windows.bound_abstains},
            {capability: 'requests', available: coalesce(unasked.share, 0) < 0.1, detail: printf('%.0f %% of the time the server polls or does nothing that was recorded: it may have had no requests', 100 * unasked.share)},
            {capability: 'op_link', available: kernels.linked_share >= 0.7, detail: printf('%.0f %% of kernels name their operator', 100 * kernels.linked_share)},
            {capability: 'kernel_names', available: kernels.unknown_share <= 0.3, detail: printf('%.0f %% of matrix-product time is in kernels that are not known by name', 100 * kernels.unknown_share)},
            {capability: 'hw_peaks', available: peaks.source IS NOT NULL, detail: coalesce('unknown model: ' || nullif(peaks.name, ''), 'the trace does not name the device')}
        ], recursive := true)
    FROM attribution.windows AS windows
    LEFT JOIN kernels USING (trace_id, device)
    LEFT JOIN unasked USING (trace_id, device)
    LEFT JOIN device_peaks AS peaks USING (trace_id, device)
)
SELECT
    traces.trace, traces.rank, facts.device, facts.capability,
    coalesce(facts.available, FALSE) AS available,
    CASE WHEN NOT coalesce(facts.available, FALSE) THEN facts.detail END AS detail,
    hints.hint AS unlock
FROM facts
JOIN canonical.traces AS traces USING (trace_id)
JOIN trace_hints AS hints ON hints.trace_id = facts.trace_id AND hints.what = facts.capability
