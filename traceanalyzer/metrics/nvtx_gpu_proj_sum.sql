-- One row per trace, style and name of ranges that launched GPU work: the ranges projected onto the GPU.
--
-- An operation belongs to a range if its launching call lies wholly inside the range on the same thread, and so to every
-- range around that one: rows do not add up. A range's projection runs from the start of its first operation to the end
-- of its last, idle time inside included. Level and children count ranges that launched GPU work. Other than NVIDIA's:
-- graph replays recorded as a whole count, and operators of PyTorch's emit_nvtx are named without their numbers (see
-- nvtx_sum). For kernel time by range without counting twice, use gpu_ops.annotation_id.
--
-- columns:
--   trace            VARCHAR  name of the trace
--   rank             INTEGER  rank in the job
--   domain           VARCHAR  NVTX domain; empty: the default one
--   name             VARCHAR  range
--   style            VARCHAR  PushPop or StartEnd
--   projected_sum_ns BIGINT   sum of projections
--   range_sum_ns     BIGINT   sum of the ranges' own durations on the host
--   range_count      BIGINT   ranges
--   projected_mean_ns DOUBLE  mean projection
--   projected_median_ns DOUBLE median projection; of an even count the mean of the middle two
--   projected_min_ns BIGINT   shortest projection
--   projected_max_ns BIGINT   longest projection
--   projected_stddev_ns DOUBLE sample standard deviation; 0 for one range
--   op_count         BIGINT   GPU operations, counted in every range around their launch
--   mean_op_count    DOUBLE   GPU operations a range
--   mean_level       DOUBLE   ranges with GPU work around it, mean
--   mean_child_count DOUBLE   ranges with GPU work directly in it, mean
WITH RECURSIVE launched AS (
    SELECT
        trace_id,
        launch_id,
        min(start_ns) AS gpu_start_ns,
        max(start_ns + dur_ns) AS gpu_end_ns,
        count(*) AS op_count
    FROM gpu_ops
    WHERE launch_id IS NOT NULL
    GROUP BY trace_id, launch_id
),
around AS (
    -- From each launching call up through its parents.
    SELECT
        call.trace_id,
        call.slice_id AS launch_id,
        call.parent_id AS slice_id,
        call.start_ns AS call_start_ns,
        call.start_ns + call.dur_ns AS call_end_ns
    FROM launched
    JOIN host_slices AS call ON call.trace_id = launched.trace_id AND call.slice_id = launched.launch_id
    WHERE call.parent_id IS NOT NULL
    UNION ALL
    SELECT around.trace_id, launch_id, slice.parent_id, call_start_ns, call_end_ns
    FROM around
    JOIN host_slices AS slice ON slice.trace_id = around.trace_id AND slice.slice_id = around.slice_id
    WHERE slice.parent_id IS NOT NULL
),
covered AS (
    SELECT
        around.trace_id,
        around.slice_id,
        min(gpu_start_ns) AS gpu_start_ns,
        max(gpu_end_ns) AS gpu_end_ns,
        CAST(sum(op_count) AS BIGINT) AS op_count
    FROM around
    JOIN launched USING (trace_id, launch_id)
    JOIN host_slices AS slice ON slice.trace_id = around.trace_id AND slice.slice_id = around.slice_id
    WHERE (slice.category = 'annotation' OR slice.raw_category LIKE 'NVTX %')
        AND call_start_ns >= slice.start_ns
        AND call_end_ns <= slice.start_ns + slice.dur_ns
    GROUP BY around.trace_id, around.slice_id
),
above AS (
    -- From each range with GPU work up to the next one around it.
    SELECT trace_id, slice_id, parent_id AS above_id
    FROM covered
    JOIN host_slices USING (trace_id, slice_id)
    WHERE parent_id IS NOT NULL
    UNION ALL
    SELECT above.trace_id, above.slice_id, slice.parent_id
    FROM above
    JOIN host_slices AS slice ON slice.trace_id = above.trace_id AND slice.slice_id = above.above_id
    WHERE slice.parent_id IS NOT NULL
),
levels AS (
    SELECT
        above.trace_id,
        above.slice_id,
        count(*) AS level,
        arg_max(above_id, depth) AS inner_id
    FROM above
    JOIN covered ON covered.trace_id = above.trace_id AND covered.slice_id = above_id
    JOIN host_slices AS outside ON outside.trace_id = above.trace_id AND outside.slice_id = above_id
    GROUP BY above.trace_id, above.slice_id
),
children AS (
    SELECT trace_id, inner_id AS slice_id, count(*) AS child_count
    FROM levels
    GROUP BY trace_id, inner_id
),
ranges AS (
    SELECT
        covered.trace_id,
        coalesce(json_extract_string(args, '$.domain'), '') AS domain,
        regexp_replace(name, '(, (seq|op_id|sizes|input_op_ids) = .*)+$', '') AS name,
        CASE WHEN raw_category = 'NVTX start/end' THEN 'StartEnd' ELSE 'PushPop' END AS style,
        gpu_end_ns - gpu_start_ns AS projected_ns,
        dur_ns,
        op_count,
        coalesce(level, 0) AS level,
        coalesce(child_count, 0) AS child_count
    FROM covered
    JOIN host_slices USING (trace_id, slice_id)
    LEFT JOIN levels USING (trace_id, slice_id)
    LEFT JOIN children USING (trace_id, slice_id)
    LEFT JOIN event_args ON event_args.trace_id = covered.trace_id AND event_args.event_id = covered.slice_id
)
SELECT
    trace,
    rank,
    domain,
    name,
    style,
    CAST(sum(projected_ns) AS BIGINT) AS projected_sum_ns,
    CAST(sum(dur_ns) AS BIGINT) AS range_sum_ns,
    count(*) AS range_count,
    round(avg(projected_ns), 1) AS projected_mean_ns,
    round(median(projected_ns), 1) AS projected_median_ns,
    min(projected_ns) AS projected_min_ns,
    max(projected_ns) AS projected_max_ns,
    round(coalesce(stddev_samp(projected_ns), 0), 1) AS projected_stddev_ns,
    CAST(sum(op_count) AS BIGINT) AS op_count,
    round(avg(op_count), 1) AS mean_op_count,
    round(avg(level), 1) AS mean_level,
    round(avg(child_count), 1) AS mean_child_count
FROM ranges
JOIN canonical.traces USING (trace_id)
GROUP BY trace_id, trace, rank, domain, name, style
ORDER BY trace_id, projected_sum_ns DESC, domain, name, style
