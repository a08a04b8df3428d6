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
-- columns:
--   trace          VARCHAR  name of the trace
--   rank           INTEGER  rank in the job
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
WITH events AS MATERIALIZED (
    SELECT
        timeline.*,
        lead(kind) OVER at_address AS next_kind,
        lead(position) OVER at_address AS next_position,
        lead(start_ns) OVER at_address AS next_ns,
        thread_id
    FROM memory_timeline AS timeline
    JOIN (SELECT trace_id, event_id, thread_id FROM canonical.memory_events) AS threads USING (trace_id, event_id)
    WINDOW at_address AS (PARTITION BY trace_id, place, device, address ORDER BY position)
),
allocations AS MATERIALIZED (
    SELECT
        events.*,
        address IS NOT NULL AS is_matched,
        CASE WHEN is_matched AND next_kind = 'free' THEN next_position END AS free_position,
        CASE WHEN is_matched AND next_kind = 'free' THEN next_ns END AS end_ns
    FROM events
    WHERE kind = 'alloc'
),
operators AS (
    SELECT
        trace_id,
        thread_id,
        slice_id,
        op_id,
        depth,
        start_ns,
        start_ns + dur_ns AS end_ns
    FROM canonical.host_slices
    SEMI JOIN (SELECT DISTINCT trace_id, thread_id FROM allocations) AS allocating USING (trace_id, thread_id)
    WHERE category = 'cpu_op' AND dur_ns > 0
),
-- Where a slice starts, it is the innermost operator; where it ends, the operator around it is. Of several slices that
-- start at one instant, the deepest counts; where none starts, the shallowest that ends.
innermost AS (
    SELECT
        trace_id,
        thread_id,
        at_ns,
        arg_max(open_id, rank_at) AS open_id
    FROM (
        SELECT trace_id, thread_id, start_ns AS at_ns, slice_id AS open_id, 1 + depth AS rank_at FROM operators
        UNION ALL
        -- A missing operator needs a number: arg_max leaves NULL out.
        SELECT trace_id, thread_id, end_ns, coalesce(op_id, -1), -depth FROM operators
    )
    GROUP BY trace_id, thread_id, at_ns
),
owned AS MATERIALIZED (
    SELECT
        allocations.*,
        nullif(innermost.open_id, -1) AS operator_id
    FROM allocations
    ASOF LEFT JOIN innermost
        ON innermost.trace_id = allocations.trace_id
       AND innermost.thread_id = allocations.thread_id
       AND innermost.at_ns <= allocations.start_ns
),
host_steps AS (
    SELECT
        trace_id,
        host_start_ns,
        any_value(step) AS step,
        max(host_end_ns) AS host_end_ns
    FROM attribution.steps
    GROUP BY trace_id, host_start_ns
),
phases AS MATERIALIZED (
    SELECT
        trace_id,
        start_ns,
        max(start_ns + dur_ns) AS end_ns,
        any_value(starts_with(name, 'Optimizer.step')) AS is_optimizer
    FROM canonical.host_slices
    WHERE starts_with(name, 'Optimizer.step#')
       OR forward_thread IS NOT NULL AND category = 'cpu_op' AND op_id IS NULL
    GROUP BY trace_id, start_ns
)
SELECT
    owned.trace,
    owned.rank,
    owned.place,
    owned.device,
    owned.trace_id,
    owned.event_id,
    owned.position,
    owned.start_ns,
    owned.size_bytes,
    owned.free_position,
    owned.end_ns,
    owned.is_matched,
    CASE WHEN owned.start_ns < steps.host_end_ns THEN steps.step END AS step,
    owned.operator_id,
    operators.name AS operator,
    operators.module_id,
    operators.python_id,
    CASE
        WHEN NOT owned.is_matched THEN NULL
        WHEN owned.end_ns <= operators.start_ns + operators.dur_ns THEN 'temporary'
        WHEN made.is_optimizer AND owned.start_ns < made.end_ns
        THEN if(coalesce(owned.end_ns < made.end_ns, FALSE), 'other', 'optimizer')
        WHEN owned.start_ns < made.end_ns THEN if(coalesce(owned.end_ns < made.end_ns, FALSE), 'other', 'gradient')
        WHEN owned.end_ns < freed.end_ns AND NOT freed.is_optimizer THEN 'activation'
        ELSE 'other'
    END AS category
FROM owned
LEFT JOIN canonical.host_slices AS operators
       ON operators.trace_id = owned.trace_id AND operators.slice_id = owned.operator_id
ASOF LEFT JOIN host_steps AS steps
    ON steps.trace_id = owned.trace_id AND steps.host_start_ns <= owned.start_ns
ASOF LEFT JOIN phases AS made
    ON made.trace_id = owned.trace_id AND made.start_ns <= owned.start_ns
ASOF LEFT JOIN phases AS freed
    ON freed.trace_id = owned.trace_id AND freed.start_ns <= owned.end_ns
