-- PyTorch's list of events: all that its profiler wrote before Kineto (1.8.1), and what `EventList.export_chrome_trace`
-- still writes. Calls of the host are in one process, without categories.
--
-- What it has of a device is no work that can be counted. Before Kineto: the time between two events that an operator put
-- on its stream, nested as operators are, in which the device may wait as well as work. Since then: kernels without
-- device and stream, on a thread whose number is the largest that there is, as frames of idle threads of Python are.
INSERT INTO recast BY NAME
SELECT
    event_id,
    CASE
        WHEN pid = 'CUDA functions' OR (tid = '18446744073709551615' AND NOT is_frame) THEN 'unplaced'
        ELSE 'host'
    END AS class,
    CASE
        WHEN is_frame THEN 'python'
        WHEN regexp_matches(name, '^ProfilerStep[#*]|^Optimizer\.|^enumerate\(DataLoader\)') THEN 'annotation'
        ELSE 'cpu_op'
    END AS category
FROM (
    SELECT *, coalesce(regexp_matches(name, '^<built-in |^nn\.Module: |^\S.*\(\d+\): '), FALSE) AS is_frame
    FROM read_parquet($host)
    WHERE raw_category IS NULL AND pid IN ('CPU functions', 'CUDA functions')
);
