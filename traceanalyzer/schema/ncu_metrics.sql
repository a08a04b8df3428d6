-- One row per value that Nsight Compute wrote about a profiled launch.
CREATE TABLE ncu_metrics (
    file          VARCHAR NOT NULL,  -- ncu_files.file
    launch        BIGINT NOT NULL,   -- ncu_launches.launch
    section       VARCHAR,           -- section of the report; NULL: raw page. Sections have metrics of equal names
    metric        VARCHAR NOT NULL,  -- metric, as written: 'DRAM Throughput' or dram__throughput.avg.pct_of_peak_sustained_elapsed
    unit          VARCHAR,           -- unit, as written; NULL: none
    text          VARCHAR NOT NULL,  -- value, as written
    value         DOUBLE,            -- value in base_unit; NULL: text, not measured (n/a), or no possible number
    whole         BIGINT,            -- the same as a whole number, times and bytes rounded; NULL: it is none
    base_unit     VARCHAR            -- unit without a prefix: ns, byte, hz, byte/s, cycle, %, inst …; NULL: none
);
