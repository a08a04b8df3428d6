-- One row per collective of the run: which ranks are there, how long the transfer took, and who came last.
--
-- Kernels of different ranks are one collective where their group and recorded sequence number agree; without numbers,
-- the n-th kernels of a group are, once each rank is shifted to where kinds and sizes fit. The rank that came last is in
-- it for the shortest time: that is the transfer, and what the others take longer they waited. No clocks are compared.
-- Where ranks are missing nothing is split.
--
-- columns:
--   match_id         BIGINT   the collective (attribution.collective_members has its kernels)
--   collective_kind  VARCHAR  allreduce, allgather …; as in collectives
--   group_key        VARCHAR  group: ranks as a JSON list where recorded, else name and size
--   comm_seq         BIGINT   sequence number in the group; NULL: not recorded
--   size_bytes       BIGINT   bytes of its first rank, as in collectives
--   synchronises     BOOLEAN  all ranks leave it together
--   present_count    INTEGER  ranks of it in the run
--   expected_count   INTEGER  ranks of the group; NULL: not recorded
--   transfer_ns      BIGINT   least duration of a rank; NULL: ranks are missing
--   skew_ns          BIGINT   how much longer the rank took that came first; NULL: ranks are missing
--   wait_sum_ns      BIGINT   sum of the waits of all ranks; NULL: ranks are missing
--   last_rank        INTEGER  rank that came last; NULL: ranks are missing
--   last_trace       VARCHAR  its trace; NULL: ranks are missing
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
