-- One row per trace, device, step and bucket that holds time: where the time of the device went.
--
-- Every nanosecond between the device's first and last GPU operation lies in exactly one bucket: compute; host.* (the
-- host launched the next compute kernel too late; the bucket says what the launching thread did); dev.* (the host
-- launched it in time, and it waited on the device); or edge.* (the trace does not contain its launch or the work
-- before it, or no compute kernel follows). Rows with step NULL cover the whole span and sum to device_time.span_ns;
-- the rows of a step sum to its own length.
--
-- (every bucket)
--
-- host.lock and host.offcpu are known only where calls of the operating system, or its scheduling, were recorded.
-- dev.dispatch lies between kernels that are ready and lasts up to 10 us. In edge.not_recorded, operations of a replayed
-- graph ran that the profiler lost, as other replays of it show, or can have run, for none of the replay's was recorded.
--
-- columns: trace, rank, device
--   step         BIGINT   number of the step; NULL: the device's whole span
--   kept         BOOLEAN  the step is in the analysis window; NULL: the whole span
--   bucket       VARCHAR  where the time went
--   dur_ns       BIGINT   time in the bucket
--   share        DOUBLE   dur_ns as a share of the step, or of the whole span
WITH rows_of_steps AS (
    SELECT trace_id, device, step, bucket, dur_ns, kept
    FROM attribution.ledger_rows
    WHERE step IS NOT NULL
    UNION ALL
    SELECT trace_id, device, NULL, bucket, dur_ns, NULL
    FROM attribution.ledger_rows
),
buckets AS (
    SELECT trace_id, device, step, any_value(kept) AS kept, bucket, CAST(sum(dur_ns) AS BIGINT) AS dur_ns
    FROM rows_of_steps
    GROUP BY trace_id, device, step, bucket
)
SELECT
    trace, rank, device, step, kept, bucket, dur_ns,
    dur_ns / sum(dur_ns) OVER (PARTITION BY trace_id, device, step) AS share
FROM buckets
JOIN canonical.traces USING (trace_id)
ORDER BY trace_id, device, step NULLS FIRST, dur_ns DESC, bucket
