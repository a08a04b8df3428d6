-- The longest ledger rows that a finding claims, with where to find each in a viewer.
--
-- Of host time that many short slices hold, a row blames the one that holds most: it is one of many where it is shorter
-- than half of the row. A wait that emptied the queue is its own, however long the row behind it is.
WITH longest AS (
    SELECT ledger_rows.*, traces.first_ns
    FROM ledger_rows
    JOIN traces USING (trace_id)
    WHERE ledger_rows.kept
      AND ledger_rows.trace_id = $trace_id
      AND ledger_rows.device = $device
      AND ledger_rows.cause IN (SELECT unnest($causes::VARCHAR[]))
      AND TRUE /* where */
    ORDER BY ledger_rows.dur_ns DESC, ledger_rows.start_ns, ledger_rows.row_id
    LIMIT 5
),
named AS (
    SELECT longest.*, coalesce(blamed.dur_ns < longest.dur_ns / 2, FALSE) AS is_one_of_many
    FROM longest
    LEFT JOIN host_slices AS blamed
        ON blamed.trace_id = longest.trace_id
        AND blamed.slice_id = longest.blame_id
        AND longest.blame_kind = 'slice'
        AND longest.bucket IN ('host.op', 'host.python', 'host.launch_api', 'host.preprocess', 'host.compile')
)
SELECT
    step,
    (start_ns - first_ns) / 1e6 AS at_ms,
    dur_ns / 1e6 AS ms,
    if(is_one_of_many, 'many, such as ', '') || blame_name AS during,
    if(is_one_of_many, nullif(blame_op, blame_name), blame_op) AS operator,
    blame_annotation AS annotation, blame_python AS python, start_ns, dur_ns
FROM named
ORDER BY dur_ns DESC, start_ns, row_id
