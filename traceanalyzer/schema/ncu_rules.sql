-- One row per result of a rule of Nsight Compute about a profiled launch.
CREATE TABLE ncu_rules (
    file          VARCHAR NOT NULL,  -- ncu_files.file
    launch        BIGINT NOT NULL,   -- ncu_launches.launch
    section       VARCHAR,           -- section of the report
    rule          VARCHAR NOT NULL,  -- rule
    type          VARCHAR,           -- OPT (could be faster), WRN, INF, ERR …
    description   VARCHAR,           -- what it says
    speedup_type  VARCHAR,           -- global: of the launch; local: of the part that it is about; NULL: no estimate
    speedup_percent DOUBLE           -- estimated speed-up of that; NULL: no estimate
);
