-- One row per operation on a device that a capture holds beside its launches, such as a copy before it.
CREATE TABLE capture_ops (
    capture_id    INTEGER NOT NULL,  -- capture_files.capture_id
    op_id         BIGINT NOT NULL,   -- unique in the capture
    launch_id     BIGINT             -- call that launched it (capture_slices.slice_id); NULL: not in the capture
);
