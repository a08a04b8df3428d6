-- One row per trace of the run's files that holds launches recorded into graphs, and no work: a capture. It is no rank.
CREATE TABLE capture_files (
    capture_id    INTEGER NOT NULL,  -- number of the capture, after those of the run's traces
    trace         VARCHAR NOT NULL,  -- name of the capture: its path below the run's folder
    path          VARCHAR NOT NULL,  -- where it lies
    rank          INTEGER            -- rank whose graphs it holds; NULL: unknown
);
