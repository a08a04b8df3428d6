-- What the modelled operators of a device ($2) of a trace ($1) cost against its data sheet, by their time: the peak that
-- applies (NULL: none) and the memory bandwidth are those of operator_floors and device_peaks.
SELECT
    efficiency.operator, efficiency.input_shapes, efficiency.precision, efficiency.call_count,
    efficiency.dur_ns, efficiency.flops_per_byte, efficiency.tflops,
    efficiency.gb_per_s * 1e9 AS bytes_per_s,
    efficiency.roof, efficiency.floor_share,
    CAST(round(efficiency.headroom_ns) AS BIGINT) AS headroom_ns,
    efficiency.status, efficiency.limited_by
FROM operator_efficiency AS efficiency
JOIN canonical.traces USING (trace)
WHERE traces.trace_id = $1 AND efficiency.device = $2 AND efficiency.dur_ns > 0
ORDER BY efficiency.dur_ns DESC, efficiency.operator, efficiency.input_shapes, efficiency.input_types
