-- One row per collective of the run: which ranks take part, how long the transfer takes, and which rank arrives last.
--
-- Kernels of different ranks belong to one collective if their group and recorded sequence number agree. Without
-- numbers, the n-th kernels of a group belong together, after each rank is shifted to the position where kinds and
-- sizes fit. The rank that arrives last has the shortest kernel: this duration is the transfer, and the time by which
-- the other ranks take longer is their wait. No clocks are compared. If ranks are missing, the duration is not split.
--
-- columns:
--   match_id         BIGINT   the collective (attribution.collective_members has its kernels)
--   collective_kind  VARCHAR  allreduce, allgather …; as in collectives
--   group_key        VARCHAR  group: ranks as a JSON list where recorded, else name and size
--   comm_seq         BIGINT   sequence number in the group; NULL: not recorded
--   size_bytes       BIGINT   bytes on its first rank, as in collectives
--   synchronises     BOOLEAN  all ranks leave the collective together
--   present_count    INTEGER  ranks of the collective that the run contains
--   expected_count   INTEGER  ranks of the group; NULL: not recorded
--   transfer_ns      BIGINT   shortest duration on any rank; NULL: ranks are missing
--   skew_ns          BIGINT   longest wait: how much longer the kernel of the first rank to arrive took; NULL: ranks
--                             are missing
--   wait_sum_ns      BIGINT   sum of the waits of all ranks; NULL: ranks are missing
--   last_rank        INTEGER  rank that arrived last; NULL: ranks are missing
--   last_trace       VARCHAR  trace of that rank; NULL: ranks are missing
SELECT
    members.match_id,
    arg_min(kinds.collective_kind, members.trace_id) AS collective_kind,
    any_value(members.group_key) AS group_key,
    min(kinds.comm_seq) AS comm_seq,
    arg_min(kinds.size_bytes, members.trace_id) AS size_bytes,
    bool_or(members.synchronises) AS synchronises,
    any_value(members.present_count) AS present_count,
    any_value(members.expected_count) AS expected_count,
    any_value(members.transfer_ns) AS transfer_ns,
    max(members.wait_ns) AS skew_ns,
    sum(members.wait_ns)::BIGINT AS wait_sum_ns,
    any_value(members.last_rank) AS last_rank,
    any_value(traces.trace) AS last_trace
FROM attribution.collective_members AS members
JOIN collectives AS kinds USING (trace_id, op_id)
LEFT JOIN canonical.traces AS traces ON traces.trace_id = members.last_trace_id
GROUP BY members.match_id
ORDER BY members.match_id
