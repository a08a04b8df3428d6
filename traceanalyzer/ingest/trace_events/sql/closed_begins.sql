-- Begin events and their ends as the whole events that they stand for, for the queries that read those of a chunk. Work
-- of a device that never ends has no length, which says that it is not known: what comes after it may have run.
CREATE OR REPLACE TEMP TABLE chunk AS
WITH begins AS (
    SELECT *, category IN ('kernel', 'memcpy', 'memset') AS is_work
    FROM read_parquet($other)
    WHERE phase = 'B'
)
SELECT
    begins.event_id AS position,
    CASE WHEN is_work THEN 'gpu' ELSE 'host' END AS class,
    CASE
        WHEN is_work OR begins.category IN ('annotation', 'cpu_op', 'python', 'runtime', 'driver') THEN begins.category
        ELSE 'other'
    END AS category,
    begins.raw_category, begins.name, begins.pid, begins.tid, begins.start_ns,
    CASE WHEN is_work AND end_id IS NULL THEN 0 ELSE closed_begins.dur_ns END AS dur_ns,
    coalesce(begins.args, ends.args) AS args,
    NULL AS loss
FROM begins
JOIN closed_begins ON closed_begins.event_id = begins.event_id
LEFT JOIN read_parquet($other) AS ends ON ends.event_id = end_id;
