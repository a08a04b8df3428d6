-- One row per profiled kernel and counter: what CUPTI's range profiler counted while the kernel ran.
--
-- PyTorch's profiler of 2023 could count (`experimental_config`); it then replays each kernel alone, and records how long
-- the replays took instead of the kernel, so that there are no times here. The ranges name no launch: the n-th belongs to
-- the n-th cudaLaunchKernel, which is only known if there are as many of both. Later versions record none.
-- Source: Holistic Trace Analysis, CUPTI counter data, whose operator is the innermost, too.
--
-- columns: trace, rank, trace_id
--   event_id   BIGINT   the range (async_slices.event_id)
--   position   BIGINT   number of the range in the trace, from 1
--   name       VARCHAR  kernel as written; NULL: the profiler missed its name
--   launch_id  BIGINT   launch call (host_slices.slice_id); NULL: as many launches as ranges were not recorded
--   operator   VARCHAR  innermost operator around the launch call; NULL: none, or the call is not known
--   counter    VARCHAR  counter as written
--   value      DOUBLE   what it counted
WITH ranges AS (
    SELECT
        trace_id, event_id,
        nullif(name, '__missing__') AS name,
        row_number() OVER (PARTITION BY trace_id ORDER BY start_ns, event_id) AS position,
        count(*) OVER (PARTITION BY trace_id) AS range_count
    FROM canonical.async_slices
    WHERE category = 'profiler_range'
),
launches AS (
    SELECT
        trace_id, slice_id, op_id,
        row_number() OVER (PARTITION BY trace_id ORDER BY start_ns, slice_id) AS position,
        count(*) OVER (PARTITION BY trace_id) AS launch_count
    FROM canonical.host_slices
    SEMI JOIN ranges USING (trace_id)
    WHERE category = 'runtime' AND name = 'cudaLaunchKernel'
),
range_args AS (
    SELECT ranges.*, json(event_args.args) AS args
    FROM ranges
    JOIN canonical.event_args AS event_args USING (trace_id, event_id)
),
counted AS (
    SELECT trace_id, event_id, name, position, range_count, args, unnest(json_keys(args)) AS counter
    FROM range_args
)
SELECT
    traces.trace, traces.rank, counted.trace_id, counted.event_id, counted.position, counted.name,
    launches.slice_id AS launch_id, operators.name AS operator, counted.counter,
    TRY_CAST(args ->> ('$."' || counter || '"') AS DOUBLE) AS value
FROM counted
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN launches
       ON launches.trace_id = counted.trace_id
      AND launches.position = counted.position
      AND launches.launch_count = counted.range_count
LEFT JOIN (FROM canonical.host_slices SEMI JOIN ranges USING (trace_id) WHERE category = 'cpu_op') AS operators
       ON operators.trace_id = launches.trace_id AND operators.slice_id = launches.op_id
ORDER BY counted.trace_id, counted.position, counted.counter
