-- One row per thread and function in which CPU samples found it: how often the function ran itself.
--
-- A sample counts for its innermost function. Where the symbol is not known, the function is an address. The cycles
-- that Nsight Systems writes beside a sample are 1 in each row, so samples are what is counted. Only Nsight Systems
-- records them (`--sample=process-tree`); of other traces there are no rows.
--
-- columns: trace, rank, trace_id
--   pid           VARCHAR  process as written; NULL: nothing else of the thread was recorded
--   tid           VARCHAR  thread as written; NULL: nothing else of the thread was recorded
--   thread_name   VARCHAR  display name; NULL: not recorded
--   role          VARCHAR  launching, profiler (not the program's) or other
--   function      VARCHAR  innermost function, as written
--   module        VARCHAR  library or program that holds it
--   own_function  VARCHAR  most frequent of the innermost functions around it that are the program's; NULL: none
--   sample_count  BIGINT   samples
--   thread_share  DOUBLE   of the thread's samples, 0 to 1
--   stack_count   BIGINT   different call chains that end in the function
WITH functions AS (
    SELECT
        trace_id, thread_id, function, module,
        CAST(count(*) AS BIGINT) AS sample_count,
        count(DISTINCT stack) AS stack_count
    FROM canonical.cpu_samples
    GROUP BY trace_id, thread_id, function, module
),
own_counts AS (
    SELECT trace_id, thread_id, function, module, own_function, count(*) AS sample_count
    FROM canonical.cpu_samples
    WHERE own_function IS NOT NULL
    GROUP BY ALL
),
own AS (
    SELECT
        trace_id, thread_id, function, module,
        arg_min(own_function, (-sample_count, own_function)) AS own_function
    FROM own_counts
    GROUP BY ALL
)
SELECT
    traces.trace, traces.rank, functions.trace_id, roles.pid, roles.tid, roles.thread_name,
    coalesce(roles.role, 'other') AS role,
    functions.function, functions.module, own.own_function, functions.sample_count,
    functions.sample_count / sum(functions.sample_count) OVER (
        PARTITION BY functions.trace_id, functions.thread_id
    ) AS thread_share,
    functions.stack_count
FROM functions
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN thread_roles AS roles ON roles.trace_id = functions.trace_id AND roles.thread_id = functions.thread_id
LEFT JOIN own
       ON own.trace_id = functions.trace_id
      AND own.thread_id IS NOT DISTINCT FROM functions.thread_id
      AND own.function IS NOT DISTINCT FROM functions.function
      AND own.module IS NOT DISTINCT FROM functions.module
ORDER BY
    functions.trace_id,
    CASE coalesce(roles.role, 'other') WHEN 'launching' THEN 0 WHEN 'other' THEN 1 ELSE 2 END,
    functions.sample_count DESC,
    functions.thread_id, functions.function, functions.module
