-- One call per process and correlation id: the first, where several share it.
CREATE OR REPLACE TABLE repeated_calls AS
SELECT
    scope,
    correlation,
    count(*) AS call_count,
    min({'start_ns': start_ns, 'launch_id': launch_id}) AS first_call
FROM calls
GROUP BY scope, correlation
HAVING count(*) > 1;

CREATE OR REPLACE VIEW launches AS
SELECT calls.*
FROM calls
ANTI JOIN repeated_calls USING (scope, correlation)
UNION ALL
SELECT calls.*
FROM calls
JOIN repeated_calls USING (scope, correlation)
WHERE first_call.launch_id = calls.launch_id;
