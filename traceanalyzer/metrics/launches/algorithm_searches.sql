-- One row per call of a convolution that times several algorithms before it runs one.
--
-- A library of convolutions that searches times each candidate with two events, and waits for the second: nothing else in
-- a convolution waits for an event.
--
-- empty without: host_slices WHERE regexp_matches(name, '^aten::((cudnn|miopen)_convolution|convolution_backward)')
-- columns: trace, rank, trace_id
--   slice_id  BIGINT   the call (host_slices.slice_id)
--   name      VARCHAR  its operator
--   start_ns  BIGINT   start
--   dur_ns    BIGINT   duration
WITH calls AS (
    SELECT trace_id, slice_id, thread_id, name, start_ns, dur_ns
    FROM host_slices
    WHERE category = 'cpu_op'
      -- No pattern: DuckDB would look at the name of each slice instead of once at each name of the file.
      AND (
          starts_with(name, 'aten::cudnn_convolution')
          OR starts_with(name, 'aten::miopen_convolution')
          OR starts_with(name, 'aten::convolution_backward')
      )
),
searches AS (
    SELECT DISTINCT calls.trace_id, calls.slice_id
    FROM calls
    JOIN host_slices AS waits
      ON waits.trace_id = calls.trace_id
     AND waits.thread_id = calls.thread_id
     AND waits.start_ns >= calls.start_ns
     AND waits.start_ns < calls.start_ns + calls.dur_ns
    WHERE waits.category = 'runtime'
      AND (calls_to(waits.name, 'wait for an event') OR contains(waits.name, 'EventElapsedTime'))
)
SELECT traces.trace, traces.rank, calls.trace_id, calls.slice_id, calls.name, calls.start_ns, calls.dur_ns
FROM calls
SEMI JOIN searches USING (trace_id, slice_id)
JOIN canonical.traces AS traces USING (trace_id)
ORDER BY calls.trace_id, calls.start_ns, calls.slice_id
