-- One row per trace, style and name of ranges that launched GPU work: the ranges projected onto the GPU.
--
-- An operation belongs to a range if its launch call lies completely inside the range on the same thread. It then also
-- belongs to every range around that range, so rows do not add up. The projection of a range runs from the start of its
-- first operation to the end of its last, including idle time. Level and children count only ranges that launched GPU
-- work. Differences from NVIDIA's report: graph replays recorded as a whole count, and operators from PyTorch's
-- emit_nvtx lose their numbers (see nvtx_sum). For kernel time by range without double counting, use
-- gpu_ops.annotation_id.
--
-- columns: trace, rank
--   domain           VARCHAR  NVTX domain; empty: the default domain. Ranges with names of NCCL are in its domain, also
--                             where the recording lacks the name of the domain
--   name             VARCHAR  name of the range
--   style            VARCHAR  PushPop or StartEnd
--   projected_sum_ns BIGINT   sum of projections
--   range_sum_ns     BIGINT   sum of the ranges' own durations on the host
--   range_count      BIGINT   ranges
--   projected_mean_ns DOUBLE  mean projection
--   projected_median_ns DOUBLE median projection; for an even count the mean of the middle two
--   projected_min_ns BIGINT   shortest projection
--   projected_max_ns BIGINT   longest projection
--   projected_stddev_ns DOUBLE sample standard deviation; 0 for one range
--   op_count         BIGINT   GPU operations, counted in every range around their launch call
--   mean_op_count    DOUBLE   GPU operations per range
--   mean_level       DOUBLE   mean number of ranges with GPU work around the range
--   mean_child_count DOUBLE   mean number of ranges with GPU work directly inside the range
WITH RECURSIVE launched AS (
    SELECT
        trace_id, launch_id,
        min(start_ns) AS gpu_start_ns,
        max(start_ns + dur_ns) AS gpu_end_ns,
        count(*) AS op_count
    FROM gpu_ops
    WHERE launch_id IS NOT NULL
    GROUP BY trace_id, launch_id
),
calls AS (
    SELECT
        trace_id, slice_id, start_ns AS call_start_ns,
        start_ns + dur_ns AS call_end_ns,
        annotation_id, op_id
    FROM host_slices
    SEMI JOIN launched ON launched.trace_id = host_slices.trace_id AND launch_id = slice_id
),
-- Operators are ranges only where emit_nvtx recorded them.
spans AS MATERIALIZED (
    SELECT
        trace_id, slice_id, start_ns,
        start_ns + dur_ns AS end_ns,
        name, raw_category, depth, annotation_id, op_id
    FROM host_slices
    WHERE category = 'annotation'
       OR raw_category LIKE 'NVTX %'
),
-- From each call and range to the next range around it.
links AS MATERIALIZED (
    SELECT
        inside.trace_id, inside.slice_id,
        CASE WHEN operator.depth > coalesce(annotation.depth, -1) THEN operator.slice_id ELSE annotation.slice_id END AS outer_id
    FROM (
        SELECT trace_id, slice_id, annotation_id, op_id FROM calls
        UNION ALL
        SELECT trace_id, slice_id, annotation_id, op_id FROM spans
    ) AS inside
    LEFT JOIN spans AS annotation ON annotation.trace_id = inside.trace_id AND annotation.slice_id = inside.annotation_id
    LEFT JOIN spans AS operator ON operator.trace_id = inside.trace_id AND operator.slice_id = inside.op_id
),
around AS (
    SELECT trace_id, slice_id AS launch_id, outer_id AS slice_id, call_start_ns, call_end_ns
    FROM calls
    JOIN links USING (trace_id, slice_id)
    WHERE outer_id IS NOT NULL
    UNION ALL
    SELECT trace_id, launch_id, outer_id, call_start_ns, call_end_ns
    FROM around
    JOIN links USING (trace_id, slice_id)
    WHERE outer_id IS NOT NULL
),
covered AS (
    SELECT
        around.trace_id, around.slice_id,
        min(gpu_start_ns) AS gpu_start_ns,
        max(gpu_end_ns) AS gpu_end_ns,
        CAST(sum(op_count) AS BIGINT) AS op_count
    FROM around
    JOIN launched USING (trace_id, launch_id)
    JOIN spans ON spans.trace_id = around.trace_id AND spans.slice_id = around.slice_id
    WHERE call_start_ns >= spans.start_ns AND call_end_ns <= spans.end_ns
    GROUP BY around.trace_id, around.slice_id
),
above AS (
    SELECT trace_id, slice_id, outer_id AS above_id
    FROM covered
    JOIN links USING (trace_id, slice_id)
    WHERE outer_id IS NOT NULL
    UNION ALL
    SELECT above.trace_id, above.slice_id, links.outer_id
    FROM above
    JOIN links ON links.trace_id = above.trace_id AND links.slice_id = above.above_id
    WHERE links.outer_id IS NOT NULL
),
levels AS (
    SELECT above.trace_id, above.slice_id, count(*) AS level, arg_max(above_id, depth) AS inner_id
    FROM above
    JOIN covered ON covered.trace_id = above.trace_id AND covered.slice_id = above_id
    JOIN spans AS outside ON outside.trace_id = above.trace_id AND outside.slice_id = above_id
    GROUP BY above.trace_id, above.slice_id
),
children AS (
    SELECT trace_id, inner_id AS slice_id, count(*) AS child_count
    FROM levels
    GROUP BY trace_id, inner_id
),
domains AS (
    -- Only Nsight Systems records domains; the arguments of other traces are long, so they are not read.
    SELECT trace_id, event_id, args
    FROM event_args
    SEMI JOIN (FROM canonical.traces WHERE format = 'nsys') AS recorders USING (trace_id)
),
ranges AS (
    SELECT
        covered.trace_id,
        coalesce(json_extract_string(args, '$.domain'), '') AS domain,
        name,
        CASE WHEN raw_category = 'NVTX start/end' THEN 'StartEnd' ELSE 'PushPop' END AS style,
        gpu_end_ns - gpu_start_ns AS projected_ns,
        end_ns - start_ns AS dur_ns,
        op_count,
        coalesce(level, 0) AS level,
        coalesce(child_count, 0) AS child_count
    FROM covered
    JOIN spans USING (trace_id, slice_id)
    LEFT JOIN levels USING (trace_id, slice_id)
    LEFT JOIN children USING (trace_id, slice_id)
    LEFT JOIN domains ON domains.trace_id = covered.trace_id AND domains.event_id = covered.slice_id
)
SELECT
    trace, rank, domain, name, style,
    CAST(sum(projected_ns) AS BIGINT) AS projected_sum_ns,
    CAST(sum(dur_ns) AS BIGINT) AS range_sum_ns,
    count(*) AS range_count,
    round_half_up(avg(projected_ns), 1) AS projected_mean_ns,
    round_half_up(median(projected_ns), 1) AS projected_median_ns,
    min(projected_ns) AS projected_min_ns,
    max(projected_ns) AS projected_max_ns,
    round_half_up(coalesce(stddev_samp(projected_ns), 0), 1) AS projected_stddev_ns,
    CAST(sum(op_count) AS BIGINT) AS op_count,
    round_half_up(avg(op_count), 1) AS mean_op_count,
    round_half_up(avg(level), 1) AS mean_level,
    round_half_up(avg(child_count), 1) AS mean_child_count
FROM ranges
JOIN canonical.traces USING (trace_id)
GROUP BY trace_id, trace, rank, domain, name, style
ORDER BY trace_id, projected_sum_ns DESC, domain, name, style
