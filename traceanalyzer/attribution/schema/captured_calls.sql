-- One row per replay of a graph and operator around its work: a call as the capture of the graph shows it.
-- The host calls no operator in a replay; the graph does again what the operator launched when it was captured.
CREATE TABLE captured_calls (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    call_id       BIGINT NOT NULL,   -- number of the call in its trace, below 0: no host slice has it
    launch_id     BIGINT NOT NULL,   -- the launch of the graph (host_slices.slice_id)
    owner_id      INTEGER NOT NULL,  -- where it was captured: traces.trace_id or capture_files.capture_id
    slice_id      BIGINT NOT NULL,   -- the operator there (capture_slices.slice_id, or host_slices.slice_id)
    parent_id     BIGINT,            -- the call around it, else the operator around the launch of the graph; NULL: none
    name          VARCHAR,           -- operator
    input_shapes  VARCHAR,           -- shapes of its inputs as written, a JSON list; NULL: not recorded, or captures differ
    is_whole      BOOLEAN NOT NULL,  -- the replay has an operation for each of its launches, and captures do not differ
    start_ns      BIGINT NOT NULL,   -- start in the capture
    dur_ns        BIGINT NOT NULL    -- duration in the capture
);
