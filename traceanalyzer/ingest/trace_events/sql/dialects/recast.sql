-- What a dialect says about complete events, one row an event; columns that it does not fill are NULL. `class` is host,
-- gpu, async: on no thread, none: drawn and neither a call nor work, unplaced: the same, and counted, or unknown: shown
-- as of the host, and counted.
-- `category` is that of slices, or the kind of GPU work.
CREATE OR REPLACE TABLE recast (
    event_id BIGINT,
    class VARCHAR,
    category VARCHAR,
    raw_category VARCHAR,
    name VARCHAR,
    pid VARCHAR,
    tid VARCHAR,
    device BIGINT,
    stream BIGINT,
    start_ns BIGINT,
    dur_ns BIGINT,
    correlation BIGINT,
    external_id BIGINT,
    size_bytes BIGINT,
    copy_kind VARCHAR,
    grid BIGINT[],
    block BIGINT[],
    is_comm BOOLEAN,
    group_name VARCHAR,
    collective VARCHAR,
    self_ns BIGINT,
    run_id BIGINT
);
-- The names of processes.
CREATE OR REPLACE TABLE process_names AS
SELECT pid, any_value(args ->> '$.name') AS process
FROM read_parquet($other)
WHERE phase = 'M' AND name = 'process_name' AND pid IS NOT NULL
GROUP BY pid;
