-- One row per event of the lead scan, in the order the host issued them: a GPU op, a host call that waited for one, or a
-- batch taken from a loader's workers.
-- Lead is by how much earlier an event would happen; the columns say how it passes from the host and from earlier ops
-- to this event, so that the bound of any set of causes is one pass over these rows.
CREATE TABLE lead_events (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- devices.device
    position      BIGINT NOT NULL,   -- order of the scan, from 0
    op_id         BIGINT,            -- the GPU op; NULL: a wait of the host
    cause         VARCHAR,           -- of a wait: the cause it belongs to; NULL: an op, or a full launch queue
    in_window     BOOLEAN NOT NULL,  -- asked for after the window's first op: what is removed here counts
    end_ns        BIGINT NOT NULL,   -- end of the op or of the wait
    dur_ns        BIGINT NOT NULL,   -- duration of the op; 0 for a wait
    host_slack_ns BIGINT,            -- of an op: by how much the host was ahead of the binding constraint; NULL: no modelled thread issued it
    cap_ns        BIGINT,            -- the most lead that constraints outside the scan allow; NULL: none
    first_position BIGINT,           -- op it had to wait for; of a batch waited for: one that it leads by no more than
    first_slack_ns BIGINT,           -- by how much that one was done before the binding constraint; of a wait: how much later than that the call returned
    second_position BIGINT,          -- another op it had to wait for, further ones are in lead_needs; of a batch that was ready: another one
    second_slack_ns BIGINT,          -- by how much that one was done before the binding constraint
    own_ns        BIGINT NOT NULL,   -- of a wait: the part that the op waited for explains
    removable_ns  BIGINT NOT NULL,   -- of a wait: what removing its cause saves the host
    saving_cause  VARCHAR,           -- dev.* cause whose removal makes the op free
    match_id      BIGINT,            -- of a collective all of whose ranks are known: collective_members.match_id
    wait_ns       BIGINT NOT NULL,   -- of such a collective: time at its beginning in which it waited for the last rank
    dispatch_ns   BIGINT NOT NULL,   -- gap before the op that its dispatch alone explains
    dispatch_cause VARCHAR           -- dev.dispatch or dev.graph_gap
);
