-- One row per trace: the file that contains it; a file contains several traces if several processes used a GPU.
--
-- The metrics named after NVIDIA's reports count by file, as `nsys stats` does; their rank is known only if the file
-- contains one process.
--
-- columns: trace, rank, trace_id
--   file          VARCHAR  name of the file: the trace's name without its process
--   file_rank     INTEGER  rank in the job; NULL: the file holds several traces
--   process_count BIGINT   traces in the file
SELECT
    trace, rank, trace_id,
    CASE WHEN siblings > 1 THEN regexp_replace(trace, '#[^#]*$', '') ELSE trace END AS file,
    CASE WHEN siblings = 1 THEN rank END AS file_rank,
    siblings AS process_count
FROM (
    SELECT *, count(*) OVER (PARTITION BY path) AS siblings
    FROM canonical.traces
)
ORDER BY trace_id
