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
    'X' AS phase,
    CASE WHEN is_work THEN 'gpu' WHEN begins.category = 'gpu_annotation' THEN 'async' ELSE 'host' END AS class,
    CASE
        WHEN is_work OR begins.category IN ('gpu_annotation', 'annotation', 'cpu_op', 'python', 'runtime', 'driver') THEN begins.category
        ELSE 'other'
    END AS category,
    begins.raw_category, begins.name, begins.pid, begins.tid, begins.start_ns,
    CASE WHEN is_work AND end_id IS NULL THEN 0 ELSE closed_begins.dur_ns END AS dur_ns,
    coalesce(begins.args, ends.args) AS args,
    begins.id, begins.id2, begins.bp, begins.scope,
    FALSE AS binds, FALSE AS flow_in, FALSE AS flow_out,
    0 AS lost_flows,
    NULL AS loss
FROM begins
JOIN closed_begins ON closed_begins.event_id = begins.event_id
LEFT JOIN read_parquet($other) AS ends ON ends.event_id = end_id;
