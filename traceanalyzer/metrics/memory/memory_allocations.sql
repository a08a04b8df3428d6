-- One row per allocation of the framework's allocator: who made it, and until when it lived.
--
-- The owner is the innermost operator that is open on the same thread when the event happens, and the module and the line
-- of Python around that operator. A free belongs to the last allocation before it at its address. Without addresses
-- (traces of 2021) nothing is matched, and what lives is unknown.
--
-- What an allocation is for is not recorded in a trace; `category` is estimated from where it is made and freed: optimizer
-- (made in an optimizer step and alive after it), gradient (made in the backward pass and alive after it), activation (made
-- before the backward pass and freed in it), temporary (freed by the operator that made it), other.
--
-- columns: trace, rank
--   place          VARCHAR  device, or cpu
--   device         INTEGER  device; -1: the CPU
--   trace_id       INTEGER  traces.trace_id
--   event_id       BIGINT   the allocation (memory_events.event_id)
--   position       BIGINT   number of the event on its device (memory_timeline)
--   start_ns       BIGINT   when it was made
--   size_bytes     BIGINT   bytes
--   free_position  BIGINT   number of the event that freed it; NULL: still alive at the end, or unknown
--   end_ns         BIGINT   when it was freed; NULL: still alive at the end, or unknown
--   is_matched     BOOLEAN  addresses were recorded
--   step           BIGINT   step of the host in which it was made; NULL: outside steps
--   operator_id    BIGINT   operator that made it (host_slices.slice_id); NULL: outside operators
--   operator       VARCHAR  operator that made it; NULL: outside operators
--   module_id      BIGINT   innermost module around that operator (host_slices.slice_id)
--   python_id      BIGINT   innermost Python frame around that operator (host_slices.slice_id)
--   category       VARCHAR  optimizer, gradient, activation, temporary or other; estimated
WITH RECURSIVE
events AS (
    SELECT
        trace_id, place, device, event_id, position, start_ns, kind, address, size_bytes,
        lead(kind) OVER at_address AS next_kind,
        lead(position) OVER at_address AS next_position,
        lead(start_ns) OVER at_address AS next_ns
    FROM memory_timeline
    WINDOW at_address AS (PARTITION BY trace_id, place, device, address ORDER BY position)
),
allocations AS MATERIALIZED (
    SELECT
        events.*,
        threads.thread_id,
        address IS NOT NULL AS is_matched,
        CASE WHEN is_matched AND next_kind = 'free' THEN next_position END AS free_position,
        CASE WHEN is_matched AND next_kind = 'free' THEN next_ns END AS end_ns
    FROM events
    JOIN (SELECT trace_id, event_id, thread_id FROM canonical.memory_events) AS threads USING (trace_id, event_id)
    WHERE kind = 'alloc'
),
operators AS MATERIALIZED (
    SELECT trace_id, thread_id, slice_id, op_id, depth, start_ns, start_ns + dur_ns AS end_ns
    FROM canonical.host_slices
    SEMI JOIN (SELECT DISTINCT trace_id, thread_id FROM allocations) AS allocating USING (trace_id, thread_id)
    WHERE category = 'cpu_op' AND dur_ns > 0
),
-- Of several operators that start at one instant, the innermost.
starting AS (
    SELECT
        trace_id, thread_id, start_ns,
        arg_max(slice_id, depth) AS slice_id,
        arg_max_null(op_id, depth) AS op_id,
        arg_max(end_ns, depth) AS end_ns
    FROM operators
    GROUP BY trace_id, thread_id, start_ns
),
-- From the operator that started last to that around it, until one is open.
climbing AS (
    SELECT
        allocations.trace_id, allocations.event_id, allocations.start_ns AS at_ns, starting.slice_id,
        starting.op_id, starting.end_ns
    FROM allocations
    ASOF JOIN starting
        ON starting.trace_id = allocations.trace_id
       AND starting.thread_id = allocations.thread_id
       AND starting.start_ns <= allocations.start_ns
    UNION ALL
    SELECT
        climbing.trace_id, climbing.event_id, climbing.at_ns, operators.slice_id, operators.op_id,
        operators.end_ns
    FROM climbing
    JOIN operators ON operators.trace_id = climbing.trace_id AND operators.slice_id = climbing.op_id
    WHERE climbing.end_ns <= climbing.at_ns
),
host_steps AS (
    SELECT trace_id, host_start_ns, any_value(step) AS step, max(host_end_ns) AS host_end_ns
    FROM attribution.steps
    GROUP BY trace_id, host_start_ns
),
phases AS MATERIALIZED (
    SELECT
        trace_id, start_ns,
        max(start_ns + dur_ns) AS end_ns,
        any_value(starts_with(name, 'Optimizer.step')) AS is_optimizer
    FROM canonical.host_slices
    WHERE starts_with(name, 'Optimizer.step#')
       -- Nodes that accumulate gradients have no forward operator.
       OR (forward_thread IS NOT NULL OR contains(name, 'AccumulateGrad')) AND category = 'cpu_op' AND op_id IS NULL
    GROUP BY trace_id, start_ns
),
-- Joined by time here, where rows are narrow: these joins sort them.
times AS (
    SELECT
        times.trace_id, times.event_id,
        CASE WHEN times.start_ns < steps.host_end_ns THEN steps.step END AS step,
        CASE WHEN times.start_ns < made.end_ns THEN made.end_ns END AS made_end_ns,
        made.is_optimizer,
        times.end_ns < freed.end_ns AND NOT freed.is_optimizer AS freed_in_backward
    FROM (SELECT trace_id, event_id, start_ns, end_ns FROM allocations) AS times
    ASOF LEFT JOIN host_steps AS steps ON steps.trace_id = times.trace_id AND steps.host_start_ns <= times.start_ns
    ASOF LEFT JOIN phases AS made ON made.trace_id = times.trace_id AND made.start_ns <= times.start_ns
    ASOF LEFT JOIN phases AS freed ON freed.trace_id = times.trace_id AND freed.start_ns <= times.end_ns
),
owned AS (
    SELECT times.*, owners.slice_id AS operator_id, owners.end_ns AS operator_end_ns
    FROM times
    LEFT JOIN (FROM climbing WHERE end_ns > at_ns) AS owners USING (trace_id, event_id)
)
SELECT
    traces.trace, traces.rank, allocations.place, allocations.device, allocations.trace_id,
    allocations.event_id, allocations.position, allocations.start_ns, allocations.size_bytes,
    allocations.free_position, allocations.end_ns, allocations.is_matched, owned.step, owned.operator_id,
    operators.name AS operator, operators.module_id, operators.python_id,
    CASE
        WHEN NOT allocations.is_matched THEN NULL
        WHEN allocations.end_ns <= owned.operator_end_ns THEN 'temporary'
        WHEN owned.made_end_ns IS NOT NULL
        THEN CASE
            WHEN coalesce(allocations.end_ns < owned.made_end_ns, FALSE) THEN 'other'
            WHEN owned.is_optimizer THEN 'optimizer'
            -- The gradient of an activation is freed by a later node.
            WHEN owned.freed_in_backward THEN 'other'
            ELSE 'gradient'
        END
        WHEN owned.freed_in_backward THEN 'activation'
        ELSE 'other'
    END AS category
FROM allocations
JOIN canonical.traces AS traces USING (trace_id)
JOIN owned USING (trace_id, event_id)
LEFT JOIN canonical.host_slices AS operators
       ON operators.trace_id = owned.trace_id
      AND operators.slice_id = owned.operator_id
      AND operators.category = 'cpu_op'
