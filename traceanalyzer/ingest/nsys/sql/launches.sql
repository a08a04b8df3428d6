-- One call per process and correlation id: the first, where several share it.
CREATE OR REPLACE TABLE launches AS
SELECT
    scope,
    correlation,
    arg_min_null(launch_id, (start_ns, launch_id)) AS launch_id,
    arg_min_null(cpu_op_id, (start_ns, launch_id)) AS cpu_op_id,
    arg_min_null(annotation_id, (start_ns, launch_id)) AS annotation_id
FROM calls
GROUP BY scope, correlation;
