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
SELECT traces.trace, traces.rank, calls.trace_id, calls.slice_id, calls.name, calls.start_ns, calls.dur_ns
FROM host_slices AS calls
JOIN canonical.traces AS traces USING (trace_id)
WHERE calls.category = 'cpu_op'
  AND regexp_matches(calls.name, '^aten::((cudnn|miopen)_convolution|convolution_backward)')
  AND (calls.trace_id, calls.slice_id) IN (
      SELECT (calls.trace_id, calls.slice_id)
      FROM host_slices AS calls
      JOIN host_slices AS waits
        ON waits.trace_id = calls.trace_id
       AND waits.thread_id = calls.thread_id
       AND waits.start_ns >= calls.start_ns
       AND waits.start_ns < calls.start_ns + calls.dur_ns
      WHERE calls.category = 'cpu_op'
        AND regexp_matches(calls.name, '^aten::((cudnn|miopen)_convolution|convolution_backward)')
        AND waits.category = 'runtime'
        AND regexp_matches(waits.name, '^(cuda|hip|musa)Event(Synchronize|ElapsedTime)')
  )
ORDER BY calls.trace_id, calls.start_ns, calls.slice_id
