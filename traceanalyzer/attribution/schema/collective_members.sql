-- One row per communication kernel: the collective or message that it belongs to together with kernels of other ranks,
-- and how long it waited there for the last rank. Collectives are matched by group and recorded sequence number, else
-- by order within the group where kinds and sizes agree; messages by their peers and by order. Clocks of ranks are
-- never compared.
CREATE TABLE collective_members (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- devices.device
    op_id         BIGINT NOT NULL,   -- gpu_ops.op_id
    match_id      BIGINT NOT NULL,   -- the collective: equal on all its members
    group_key     VARCHAR NOT NULL,  -- its group: ranks as a JSON list where recorded, else name and size
    present_count INTEGER NOT NULL,  -- its members in the run
    expected_count INTEGER,          -- ranks of the group, 2 for a message; NULL: not recorded
    synchronises  BOOLEAN NOT NULL,  -- all members leave it together: all-reduce, all-gather, reduce-scatter, all-to-all, barrier, message
    transfer_ns   BIGINT,            -- shortest duration of its members: what remains if no rank waits; NULL: ranks are missing
    wait_ns       BIGINT,            -- how much longer this member took, because it waited for the last one; NULL: ranks are missing
    last_trace_id INTEGER,           -- trace of the member that arrived last; NULL: ranks are missing
    last_rank     INTEGER            -- its rank
);
