-- One row per rank and group: how long it waited in collectives for others, and how often others waited for it.
--
-- Only collectives of which every rank is in the run count (collective_matches). The rank that arrives last has the shortest
-- kernel; no clocks are compared.
--
-- columns: trace, rank
--   group_key      VARCHAR  group, as in collective_matches
--   matched_count  BIGINT   collectives of the group that it took part in
--   wait_sum_ns    BIGINT   sum of its waits
--   last_count     BIGINT   collectives to which it came last
--   caused_sum_ns  BIGINT   sum of the other ranks' waits in those
WITH members AS (
    SELECT *, sum(wait_ns) OVER (PARTITION BY match_id) AS all_waits_ns
    FROM attribution.collective_members
    WHERE transfer_ns IS NOT NULL
)
SELECT
    traces.trace, traces.rank, members.group_key,
    count(*) AS matched_count,
    CAST(coalesce(sum(members.wait_ns), 0) AS BIGINT) AS wait_sum_ns,
    count(*) FILTER (WHERE members.last_trace_id = members.trace_id) AS last_count,
    CAST(coalesce(sum(members.all_waits_ns) FILTER (WHERE members.last_trace_id = members.trace_id), 0) AS BIGINT) AS caused_sum_ns
FROM members
JOIN canonical.traces AS traces USING (trace_id)
GROUP BY members.trace_id, traces.trace, traces.rank, members.group_key
ORDER BY members.trace_id, wait_sum_ns DESC, members.group_key
