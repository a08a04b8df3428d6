-- One row per trace, device, step and bucket that holds time: where the time of the device went.
--
-- Every nanosecond between the device's first and last GPU operation lies in exactly one bucket: compute (a kernel
-- that is no communication runs), host.* (the next compute kernel was asked for too late, by what its launching thread
-- spent the time on), dev.* (it was asked for in time and waited on the device: for a collective, a copy, its dispatch,
-- or for something the trace does not tell: dev.unresolved) or edge.* (the trace does not hold its launch or
-- what ran before it, or no compute kernel follows). Rows of step NULL cover the whole span and sum to device_time.span_ns; a step's rows sum to
-- its own length.
--
-- compute              a compute kernel (or an opaque graph replay) runs
-- host.dataloader      the launching thread is in the data loader
-- host.tokenize        … in a tokenizer
-- host.preprocess      … runs CPU operators that reach no device, outside the loader
-- host.memcpy_block    … is in a copy call that returns only when the copy is done
-- host.sync            … lost its lead in a call that waits for the device
-- host.launch_api      … is in launch calls, and the launch latency that shows on a dry queue
-- host.op              … is in operators and autograd
-- host.python          … runs Python: recorded frames, or no operator is open and no Python was recorded
-- host.gc, host.io, host.compile, host.module_load, host.alloc, host.host_alloc, host.comm_cpu, host.profiler
--                      … collects garbage, reads or writes files, compiles, loads modules, allocates device or pinned
--                      memory, communicates on the CPU, or works for the profiler
-- host.lock            … waits for another thread, and nothing around says why (only where calls of the operating system
--                      were recorded)
-- host.offcpu          … sleeps, waits for another process, or does not run (the same, or its scheduling)
-- host.other           … shows nothing
-- dev.comm_transfer    the kernel waited for a collective; dev.comm_p2p for a recorded send or receive
-- dev.h2d, dev.d2h, dev.d2d, dev.memset
--                      it waited for a copy or a memset
-- dev.dispatch         the gap between ready kernels, up to 10 us; dev.graph_gap inside one graph launch
-- dev.unresolved       it was asked for in time and waited for something that the trace does not tell
-- edge.no_launch       its launch is not in the trace; edge.head where that is the first kernel of the span
-- edge.carried_in      it is the first of its stream and waited for work from before the trace
-- edge.tail            no compute kernel follows
--
-- columns:
--   trace        VARCHAR  name of the trace
--   rank         INTEGER  rank in the job
--   device       INTEGER  device
--   step         BIGINT   number of the step; NULL: the device's whole span
--   kept         BOOLEAN  the step is in the analysis window; NULL: the whole span
--   bucket       VARCHAR  where the time went
--   dur_ns       BIGINT   time
--   share        DOUBLE   dur_ns as a share of the step, or of the whole span
WITH rows_of_steps AS (
    SELECT
        trace_id,
        device,
        step,
        bucket,
        dur_ns,
        kept
    FROM attribution.ledger_rows
    WHERE step IS NOT NULL
    UNION ALL
    SELECT
        trace_id,
        device,
        NULL,
        bucket,
        dur_ns,
        NULL
    FROM attribution.ledger_rows
),
buckets AS (
    SELECT
        trace_id,
        device,
        step,
        any_value(kept) AS kept,
        bucket,
        CAST(sum(dur_ns) AS BIGINT) AS dur_ns
    FROM rows_of_steps
    GROUP BY trace_id, device, step, bucket
)
SELECT
    trace,
    rank,
    device,
    step,
    kept,
    bucket,
    dur_ns,
    dur_ns / sum(dur_ns) OVER (PARTITION BY trace_id, device, step) AS share
FROM buckets
JOIN canonical.traces USING (trace_id)
ORDER BY trace_id, device, step NULLS FIRST, dur_ns DESC, bucket
