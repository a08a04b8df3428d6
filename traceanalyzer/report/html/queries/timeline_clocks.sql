-- One row per trace: by how much its clock is ahead of that of the first trace, as ranks leave a collective together.
WITH ends AS (
    SELECT members.trace_id, members.match_id, max(ops.start_ns + ops.dur_ns) AS end_ns
    FROM attribution.collective_members AS members
    JOIN canonical.gpu_ops AS ops USING (trace_id, op_id)
    WHERE members.synchronises AND members.transfer_ns IS NOT NULL
    GROUP BY members.trace_id, members.match_id
)
SELECT ends.trace_id, CAST(median(ends.end_ns - first.end_ns) AS BIGINT) AS ahead_ns
FROM ends
JOIN ends AS first ON first.match_id = ends.match_id AND first.trace_id = (SELECT min(trace_id) FROM ends)
GROUP BY ends.trace_id
ORDER BY ends.trace_id
