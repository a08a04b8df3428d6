-- One row per ledger row of the analysis windows that a rule's causes select, charged to the device of the rank that it
-- waits for: trace_id and device are that device's, row_trace_id and row_device those of the row itself. A trace whose
-- rank is not known is a rank of its own, and so is each device of a process with several.
--
-- A collective beside compute waits while that runs, and blocks once it transfers; had its last rank come in time, it
-- would have been done. So a row of a transfer counts, too, where the collective waited at least as long.
WITH blamed AS (
    SELECT
        coalesce(traces.rank, -1 - traces.trace_id) AS rank,
        recordings.session,
        min(windows.trace_id) AS trace_id,
        arg_min(windows.device, (windows.trace_id, windows.device)) AS device
    FROM windows
    JOIN traces USING (trace_id)
    JOIN recordings USING (trace_id)
    GROUP BY coalesce(traces.rank, -1 - traces.trace_id), recordings.session
),
-- Of devices of one process, the one that waits for none arrived last.
last_devices AS (
    SELECT trace_id, match_id, arg_min(device, (wait_ns, device)) AS device
    FROM attribution.collective_members
    WHERE trace_id = last_trace_id
      AND trace_id IN (SELECT trace_id FROM windows GROUP BY trace_id HAVING count(*) > 1)
    GROUP BY trace_id, match_id
)
SELECT
    blamed.trace_id, coalesce(last_devices.device, blamed.device) AS device, ledger_rows.trace_id AS row_trace_id, ledger_rows.device AS row_device,
    row_id AS item_id, step, dur_ns, bucket, confidence
FROM ledger_rows
JOIN recordings USING (trace_id)
LEFT JOIN attribution.collective_members AS members
    ON members.trace_id = ledger_rows.trace_id
    AND members.op_id = ledger_rows.blame_id
    AND ledger_rows.blame_kind = 'op'
    AND (members.wait_ns >= ledger_rows.dur_ns OR ledger_rows.bucket = 'dev.straggler_wait')
JOIN blamed
    ON blamed.rank = coalesce(ledger_rows.blame_rank, members.last_rank, -1 - members.last_trace_id)
    AND blamed.session = recordings.session
LEFT JOIN last_devices
    ON last_devices.trace_id = blamed.trace_id
    AND last_devices.match_id = members.match_id
WHERE kept AND cause IN (SELECT unnest($causes::VARCHAR[])) AND TRUE /* where */
