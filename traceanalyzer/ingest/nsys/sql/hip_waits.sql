-- Calls of HIP that return only after all work of the only device, as `device_check` wants them. Recorders of AMD do not
-- say for which stream a call waits.
CREATE OR REPLACE TEMP TABLE device_waits AS
SELECT
    (SELECT any_value(device) FROM device_work HAVING count(DISTINCT device) = 1) AS device,
    CAST(NULL AS BIGINT) AS stream,
    start_ns,
    start_ns + dur_ns AS end_ns
FROM read_parquet($slices)
WHERE category IN ('runtime', 'driver') AND name = 'hipDeviceSynchronize';
