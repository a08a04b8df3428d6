-- The call behind each External id where nothing has a correlation id. Some versions of PyTorch for ROCm write the number
-- of a launch under this name, and operators have numbers of their own. Other tools write the operator's number on all
-- that it caused: then it shows the call of an operator that launches once.
CREATE OR REPLACE TABLE launch_numbers AS
WITH works AS (
    SELECT external_id, count(*) AS work_count
    FROM read_parquet($gpu)
    WHERE external_id > 0
    GROUP BY external_id
),
launching AS (
    SELECT external_id, any_value(event_id) AS call_id, any_value(start_ns) AS start_ns, any_value(name) AS name
    FROM read_parquet($host)
    WHERE category IN ('runtime', 'driver') AND correlation IS NULL AND external_id > 0
        AND regexp_matches(name, 'launch|invoke|enqueue|mem(cpy|set)', 'i')
    GROUP BY external_id
    HAVING count(*) = 1
),
operators AS (
    SELECT external_id, bool_or(launching.start_ns BETWEEN host.start_ns AND host.start_ns + dur_ns) AS is_around
    FROM read_parquet($host) AS host
    JOIN launching USING (external_id)
    WHERE category IN ('cpu_op', 'annotation')
    GROUP BY external_id
)
SELECT
    external_id, call_id,
    -- Whether these numbers are those of operators, too: most that have an operator lie in it.
    (SELECT coalesce(avg(CAST(is_around AS INTEGER)) > 0.5, FALSE) FROM operators) AS names_operators
FROM launching
JOIN works USING (external_id)
WHERE work_count = 1 OR NOT is_plain_launch(name);
CREATE OR REPLACE TABLE recast_host AS
SELECT host.* REPLACE (coalesce(correlation, numbers.external_id) AS correlation)
FROM read_parquet($host) AS host
LEFT JOIN launch_numbers AS numbers ON call_id = event_id;
CREATE OR REPLACE TABLE recast_gpu AS
SELECT
    gpu.* REPLACE (
        numbers.external_id AS correlation,
        CASE WHEN (SELECT coalesce(bool_or(names_operators), TRUE) FROM launch_numbers) THEN gpu.external_id END
            AS external_id
    )
FROM read_parquet($gpu) AS gpu
LEFT JOIN launch_numbers AS numbers USING (external_id);
