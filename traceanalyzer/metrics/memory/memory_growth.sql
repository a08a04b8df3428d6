-- One row per device, operator and step of the host: how much of the memory that it allocated in the step outlived the step.
--
-- A leak is suspected where the same operator, module and line leave memory in each of three or more consecutive steps,
-- and this memory is alive at the end of the recording. Memory that the first step creates and keeps is no leak. A trace
-- without GPU work has no steps here, and no rows.
--
-- columns: trace, rank
--   place          VARCHAR  device, or cpu
--   device         INTEGER  device; -1: the CPU
--   trace_id       INTEGER  traces.trace_id
--   step           BIGINT   step of the host
--   operator       VARCHAR  operator that made it; NULL: outside operators
--   module         VARCHAR  innermost module around that operator; NULL: none
--   python         VARCHAR  innermost Python frame around that operator; NULL: none
--   left_count     BIGINT   allocations of the step that are alive at the end of the recording
--   left_bytes     BIGINT   their bytes
--   steps_in_row   BIGINT   consecutive steps, this one included, in which this owner left memory
--   is_suspected   BOOLEAN  this is one of three or more consecutive steps
WITH step_order AS (
    SELECT
        trace_id, step,
        dense_rank() OVER (PARTITION BY trace_id ORDER BY min(host_start_ns)) AS place_in_run
    FROM attribution.steps
    GROUP BY trace_id, step
),
left_over AS (
    SELECT
        allocations.trace, allocations.rank, allocations.place, allocations.device, allocations.trace_id,
        allocations.step, step_order.place_in_run, allocations.operator, modules.name AS module,
        frames.name AS python,
        count(*) AS left_count,
        TRY_CAST(sum(allocations.size_bytes) AS BIGINT) AS left_bytes
    FROM memory_allocations AS allocations
    JOIN step_order ON step_order.trace_id = allocations.trace_id AND step_order.step = allocations.step
    LEFT JOIN canonical.host_slices AS modules
           ON modules.trace_id = allocations.trace_id AND modules.slice_id = allocations.module_id
    LEFT JOIN canonical.host_slices AS frames
           ON frames.trace_id = allocations.trace_id AND frames.slice_id = allocations.python_id
    WHERE allocations.is_matched AND allocations.free_position IS NULL
    GROUP BY ALL
),
rows_in_a_row AS (
    SELECT
        *,
        place_in_run - row_number() OVER (
            PARTITION BY trace_id, place, device, operator, module, python
            ORDER BY place_in_run
        ) AS streak
    FROM left_over
)
SELECT
    trace, rank, place, device, trace_id, step, operator, module, python, left_count, left_bytes,
    count(*) OVER streaks AS steps_in_row,
    count(*) OVER streaks >= 3 AS is_suspected
FROM rows_in_a_row
WINDOW streaks AS (PARTITION BY trace_id, place, device, operator, module, python, streak)
ORDER BY trace_id, place DESC, device, left_bytes DESC, step, operator, module, python
