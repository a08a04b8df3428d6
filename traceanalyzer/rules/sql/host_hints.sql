-- One row per trace of the run, in its order: how to record what the host does between recorded calls.
SELECT
    CASE
        WHEN hints.recorder = 'nsys' AND has_os
            THEN 'draw NVTX ranges around its parts, or let nsys profile --sample=process-tree show the functions that run'
        ELSE hints.hint
    END AS hint
FROM (
    SELECT
        trace_hints.trace_id, trace_hints.hint, traces.recorder,
        EXISTS (FROM host_slices WHERE host_slices.trace_id = traces.trace_id AND host_slices.category = 'os') AS has_os
    FROM trace_hints
    JOIN traces USING (trace_id)
    WHERE trace_hints.what = 'host_activity'
) AS hints
ORDER BY hints.trace_id
