-- One row per device and kernel that Inductor wrote in Triton: how often it ran, and which memory rate it needed.
--
-- The kind is the second word of the name: poi pointwise, red or per reduction, tem template (which may be a product). The
-- bytes are estimated: each tensor argument once, whether the kernel reads or writes it, at its recorded shape.
--
-- columns: trace, rank, device
--   name          VARCHAR  kernel
--   kind          VARCHAR  poi, red, per, tem, or another word
--   kernel_count  BIGINT   launches
--   sum_ns        BIGINT   sum of durations
--   size_bytes    HUGEINT  estimated bytes of the launches whose arguments were recorded; NULL: recorded for none
--   gb_per_s      DOUBLE   those bytes / the durations of these launches, in 10^9 per second
WITH kernels AS (
    SELECT trace_id, device, name, dur_ns, cpu_op_id
    FROM canonical.gpu_ops
    WHERE kind = 'kernel' AND starts_with(name, 'triton_')
),
arguments AS (
    SELECT
        slices.trace_id, slices.slice_id, slices.name,
        json_extract(slices.input_shapes, '$[*]') AS dims,
        type_names(args.args ->> '$."Input type"') AS types
    FROM canonical.host_slices AS slices
    JOIN canonical.event_args AS args ON args.trace_id = slices.trace_id AND args.event_id = slices.slice_id
    WHERE slices.category = 'cpu_op' AND starts_with(slices.name, 'triton_')
),
sizes AS (
    SELECT
        trace_id, slice_id, name,
        list_sum([
            CAST(element_count(tensor_shape(dims, place)) * element_bytes(types[place + 1]) AS HUGEINT)
            FOR place IN range(len(types))
            IF element_bytes(types[place + 1]) IS NOT NULL
        ]) AS size_bytes
    FROM arguments
),
sized AS (
    SELECT kernels.*, sizes.size_bytes
    FROM kernels
    LEFT JOIN sizes
           ON sizes.trace_id = kernels.trace_id AND sizes.slice_id = kernels.cpu_op_id AND sizes.name = kernels.name
)
SELECT
    traces.trace, traces.rank, sized.device, sized.name,
    string_split(sized.name, '_')[2] AS kind,
    count(*) AS kernel_count,
    CAST(sum(sized.dur_ns) AS BIGINT) AS sum_ns,
    CAST(sum(sized.size_bytes) AS HUGEINT) AS size_bytes,
    sum(sized.size_bytes)::DOUBLE / nullif(sum(sized.dur_ns) FILTER (WHERE sized.size_bytes IS NOT NULL), 0) AS gb_per_s
FROM sized
JOIN canonical.traces AS traces USING (trace_id)
GROUP BY sized.trace_id, traces.trace, traces.rank, sized.device, sized.name
ORDER BY sized.trace_id, sized.device, sum_ns DESC, sized.name
