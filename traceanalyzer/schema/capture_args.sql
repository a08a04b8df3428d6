-- One row per event of a capture with arguments that have no column, as in event_args.
CREATE TABLE capture_args (
    capture_id    INTEGER NOT NULL,  -- capture_files.capture_id
    event_id      BIGINT NOT NULL,   -- the event (capture_slices.slice_id)
    args          VARCHAR            -- its arguments, a JSON object
);
