-- One row per device: between which bounds its clock is ahead of the host's, and how many records contradict equal clocks.
-- Work starts after its launch was called, and ends before the return of a call that waits for it. The strictest bounds
-- may be those of damaged records: the last of $outliers says whether clocks differ, and those ahead of it by how much.
-- Of clocks that run at one speed, work starts as soon after its launch in the first half of the recording as in the second.
SELECT
    work.device,
    max(coalesce(work.start_ns + overruns.dur_ns, work.end_ns) - work.returned_ns, $outliers) AS call_delays_ns,
    list_last(min(work.start_ns - work.call_start_ns, $outliers)) AS most_ns,
    count(*) AS work_count,
    count(*) FILTER (WHERE work.start_ns < work.call_start_ns - $clock_ns) AS early_count,
    count(*) FILTER (WHERE work.start_ns > work.returned_ns + $clock_ns) AS late_count,
    min(work.start_ns - work.call_start_ns) FILTER (WHERE work.call_start_ns >= middle_ns)
        - min(work.start_ns - work.call_start_ns) FILTER (WHERE work.call_start_ns < middle_ns) AS apart_ns
FROM bounded_work AS work
LEFT JOIN overruns USING (op_id)
CROSS JOIN (
    SELECT min(call_start_ns) + (max(call_start_ns) - min(call_start_ns)) // 2 AS middle_ns
    FROM bounded_work
)
GROUP BY work.device
ORDER BY work.device;
