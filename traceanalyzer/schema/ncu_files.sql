-- One row per table of Nsight Compute that was read with the run, and what of it could not be read.
CREATE TABLE ncu_files (
    file          VARCHAR NOT NULL,  -- the table: its path below the run's folder, or as given with --ncu
    layout        VARCHAR NOT NULL,  -- details (one line per value), raw (one line per launch), details and raw, or report (.ncu-rep)
    launch_count  BIGINT NOT NULL,   -- profiled launches
    value_count   BIGINT NOT NULL,   -- values, with those that are text and those that Nsight Compute did not get
    rule_count    BIGINT NOT NULL,   -- results of Nsight Compute's own rules
    lost_line_count BIGINT NOT NULL, -- lines that begin like a row and are none
    lost_value_count BIGINT NOT NULL, -- values that are no possible numbers: too large, negative times, unknown separators
    truncated     BOOLEAN NOT NULL,  -- the file ends early, or holds more than is read
    example       VARCHAR            -- the first line or value that was lost, shortened
);
