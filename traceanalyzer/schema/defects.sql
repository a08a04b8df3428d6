-- One row per kind of defect in a trace: what was dropped, repaired or is doubtful, how often, and where first.
CREATE TABLE defects (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    defect        VARCHAR NOT NULL,  -- name, kebab-case
    severity      VARCHAR NOT NULL,  -- loss (something is missing), repair (data was corrected while it was read), note
    defect_count  BIGINT NOT NULL,   -- how often
    first_offset  BIGINT,            -- byte offset of the first one in the decompressed file; NULL: no single place
    example       VARCHAR,           -- the first one, shortened
    advice        VARCHAR NOT NULL   -- what it means and what to do
);
