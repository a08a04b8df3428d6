-- One row per event of the replay, in the order in which the host issued them: a GPU op, a host call that waited for
-- one, or a batch taken from a loader's workers.
-- The time shift of an event is how much earlier it would happen. The columns say how it passes from the host and from
-- earlier ops to this event, so one pass over these rows gives the bound of any set of causes.
CREATE TABLE replay_events (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- devices.device
    position      BIGINT NOT NULL,   -- order of the scan, from 0
    op_id         BIGINT,            -- the GPU op; NULL: a wait of the host
    cause         VARCHAR,           -- cause of a wait; NULL: an op, or a full launch queue
    in_window     BOOLEAN NOT NULL,  -- issued after the window's first op: time removed here counts
    end_ns        BIGINT NOT NULL,   -- end of the op or of the wait
    dur_ns        BIGINT NOT NULL,   -- duration of the op; 0 for a wait
    host_slack_ns BIGINT,            -- of an op: how far the host was ahead of the binding constraint; NULL: no modelled thread issued it
    shift_limit_ns BIGINT,            -- largest shift that constraints outside the scan allow; NULL: no limit
    pred1_position BIGINT,           -- op that it had to wait for; of a late batch: the batch whose shift is its limit
    pred1_slack_ns BIGINT,           -- how long that op was done before the binding constraint; of a wait: how long after that op the call returned
    pred2_position BIGINT,          -- second op that it had to wait for (replay_needs has more); of a ready batch: an earlier ready batch
    pred2_slack_ns BIGINT,          -- how long that op was done before the binding constraint
    explained_wait_ns BIGINT NOT NULL,   -- of a wait: the part that the op it waited for explains
    removable_ns  BIGINT NOT NULL,   -- of a wait: host time that removing its cause saves
    saving_cause  VARCHAR,           -- dev.* cause whose removal makes the op cost nothing
    match_id      BIGINT,            -- of a collective whose ranks are all known: collective_members.match_id
    wait_ns       BIGINT NOT NULL,   -- of a collective with match_id: time at its beginning in which it waited for the last rank
    dispatch_ns   BIGINT NOT NULL,   -- gap before the op that its dispatch alone explains
    dispatch_cause VARCHAR           -- dev.dispatch or dev.graph_gap
);
