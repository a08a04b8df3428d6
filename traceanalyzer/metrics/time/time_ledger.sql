-- One row per trace, device, step and bucket that holds time: where the time of the device went.
--
-- Every nanosecond from the device's first GPU operation to the end of its last lies in exactly one bucket: compute;
-- host.* (the host launched the next compute kernel too late; the bucket says what the launching thread did); dev.*
-- (the host launched it in time, and it waited on the device); or edge.* (the trace does not contain its launch or the
-- work before it, or no compute kernel follows). Rows with step NULL cover the whole span. Where the first step begins
-- ahead of the first GPU operation (steps), they cover that time too; else they sum to device_time.span_ns. The rows of
-- a step sum to its own length.
--
-- compute              a compute kernel (or a graph replay recorded as a whole) runs
-- host.dataloader      the launching thread is in the data loader
-- host.tokenize        … in a tokenizer
-- host.preprocess      … in CPU operators that put no work on a device, outside the data loader
-- host.memcpy_block    … in a synchronous memcpy: the call returns only when the copy is done
-- host.sync            … no longer ahead, because it waited for the device in a synchronisation
-- host.launch_api      … in launch calls; also the launch latency that an empty queue exposes
-- host.op              … in framework operators and autograd
-- host.python          … in Python: recorded frames, or no operator is open and no Python was recorded
-- host.gc              … collects garbage
-- host.io              … reads or writes files
-- host.compile         … compiles
-- host.module_load     … loads modules
-- host.alloc           … allocates or frees device memory
-- host.host_alloc      … allocates, registers or frees pinned memory
-- host.comm_cpu        … communicates on the CPU
-- host.profiler        … works for the profiler
-- host.lock            … waits for another thread, and nothing around the wait says why
--                      (only where calls of the operating system were recorded)
-- host.offcpu          … sleeps, waits for another process, or is not scheduled
--                      (only where these calls of the operating system, or its scheduling, were recorded)
-- host.other           … has nothing recorded
-- dev.comm_transfer    the kernel waited for a collective
-- dev.straggler_wait   … for a rank that arrived later at a collective
-- dev.comm_p2p         … for a recorded send or receive
-- dev.h2d, dev.d2h, dev.d2d, dev.memset
--                      … for a copy or a memset
-- dev.dispatch         launch latency between kernels that are ready, up to 10 us
-- dev.graph_gap        … inside one graph launch
-- dev.unresolved       the kernel waited for something that the trace does not contain
-- edge.no_launch       the launch of the kernel is not in the trace
-- edge.head            … and the kernel is the first of the span
-- edge.queued_before_trace  the kernel is the first of its stream and waited for work from before the trace
-- edge.tail            no compute kernel follows, and no copy runs
-- edge.not_recorded    operations of a replayed graph ran there that the profiler lost, as other replays of it show, or
--                      can have run there, for none of the replay's was recorded
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
