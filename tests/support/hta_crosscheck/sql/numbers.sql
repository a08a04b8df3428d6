-- The numbers that HTA's analyses report, from the events with deviations switched on; times in microseconds.
-- Unions are computed as in HTA: an interval to which rounding gives a negative length keeps it.
WITH sets AS (
    SELECT device, unnest(['ALL', kind, CASE WHEN kind IN ('COMPUTATION', 'COMMUNICATION') THEN 'EITHER' END]) AS kind, start_ns, end_ns
    FROM deviating
),
reached AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY device, kind ORDER BY start_ns, end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reached_ns
    FROM sets
    WHERE kind IS NOT NULL
),
islands AS (
    SELECT
        *,
        sum(CASE WHEN start_ns <= reached_ns THEN 0 ELSE 1 END) OVER (
            PARTITION BY device, kind ORDER BY start_ns, end_ns DESC ROWS UNBOUNDED PRECEDING
        ) AS island
    FROM reached
),
merged AS (
    SELECT device, kind, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM islands
    GROUP BY device, kind, island
),
lengths AS (
    SELECT kind, sum(end_ns - start_ns) AS union_ns
    FROM merged
    GROUP BY kind
),
unions AS (
    SELECT
        coalesce(max(union_ns) FILTER (WHERE kind = 'ALL'), 0) AS busy_ns,
        coalesce(max(union_ns) FILTER (WHERE kind = 'COMPUTATION'), 0) AS compute_ns,
        coalesce(max(union_ns) FILTER (WHERE kind = 'COMMUNICATION'), 0) AS comm_ns,
        coalesce(max(union_ns) FILTER (WHERE kind = 'EITHER'), 0) AS either_ns
    FROM lengths
),
spans AS (
    SELECT sum(span_ns) AS span_ns
    FROM (SELECT max(end_ns) - min(start_ns) AS span_ns FROM deviating GROUP BY device)
),
sums AS (
    SELECT
        sum(end_ns - start_ns) FILTER (WHERE kind = 'COMPUTATION') AS compute_sum_ns,
        sum(end_ns - start_ns) FILTER (WHERE kind = 'COMMUNICATION') AS comm_sum_ns,
        sum(end_ns - start_ns) FILTER (WHERE kind = 'MEMORY') AS memory_sum_ns
    FROM deviating
),
launches AS (
    SELECT
        count(*) AS launch_count,
        sum(greatest(0, start_ns - call_end_ns)) AS delay_sum_ns,
        sum(call_end_ns - call_start_ns) AS call_sum_ns
    FROM (
        SELECT call_start_ns, call_end_ns, min(start_ns) AS start_ns
        FROM deviating
        WHERE in_statistics
        GROUP BY device, call_id, call_start_ns, call_end_ns
    ) AS calls
),
changes AS (
    SELECT device, stream, unnest([call_start_ns, start_ns]) AS at_ns, unnest([1, -1]) AS change
    FROM (
        SELECT device, stream, call_start_ns, min(start_ns) AS start_ns
        FROM deviating
        WHERE in_queue
        GROUP BY device, stream, call_id, call_start_ns
    ) AS entries
    WHERE start_ns > call_start_ns
),
instants AS (
    SELECT device, stream, at_ns, sum(change) AS change, count(*) FILTER (WHERE change > 0) AS launch_count
    FROM changes
    GROUP BY device, stream, at_ns
),
depths AS (
    SELECT
        stream,
        sum(change) OVER timeline AS depth,
        sum(change) OVER timeline - change + launch_count AS depth_in_passing,
        lead(at_ns) OVER timeline - at_ns AS dur_ns
    FROM instants
    WINDOW timeline AS (PARTITION BY device, stream ORDER BY at_ns)
),
streams AS (
    SELECT
        stream,
        max(CASE WHEN $ties THEN depth_in_passing ELSE depth END) AS max_depth,
        coalesce(sum(dur_ns) FILTER (WHERE depth >= 1024), 0) AS full_ns
    FROM depths
    GROUP BY stream
),
queues AS (
    SELECT
        max(max_depth) AS max_depth,
        CASE
            WHEN $last_stream THEN coalesce(arg_max(full_ns, stream) FILTER (WHERE full_ns > 0), 0)
            ELSE coalesce(sum(full_ns), 0)
        END AS full_ns
    FROM streams
),
names AS (
    SELECT sum(end_ns - start_ns) AS sum_ns, max(end_ns - start_ns) AS max_ns
    FROM deviating
    WHERE kind = 'COMPUTATION'
    GROUP BY name
),
kernels AS (
    SELECT CASE WHEN $table AND count(*) > 10 THEN max(sum_ns) ELSE max(max_ns) END AS longest_ns
    FROM names
)
SELECT unnest(numbers).name, CAST(unnest(numbers).value AS DOUBLE)
FROM (
    SELECT
        [
            {'name': 'kernel time', 'value': span_ns / 1000},
            {'name': 'idle time', 'value': (span_ns - busy_ns) / 1000},
            {'name': 'compute time', 'value': compute_ns / 1000},
            {'name': 'non-compute time', 'value': (busy_ns - compute_ns) / 1000},
            {'name': 'overlap', 'value': 100 * (comm_ns + compute_ns - either_ns) / nullif(comm_ns, 0)},
            {'name': 'compute kernels', 'value': coalesce(compute_sum_ns, 0) / 1000},
            {'name': 'communication kernels', 'value': coalesce(comm_sum_ns, 0) / 1000},
            {'name': 'copies and memsets', 'value': coalesce(memory_sum_ns, 0) / 1000},
            {'name': 'longest compute kernel', 'value': longest_ns / 1000},
            {'name': 'launches', 'value': launch_count},
            {'name': 'time in launching calls', 'value': coalesce(call_sum_ns, 0) / 1000},
            {'name': 'launch delay', 'value': coalesce(delay_sum_ns, 0) / 1000},
            {'name': 'longest queue', 'value': max_depth},
            {'name': 'time at full queue', 'value': full_ns / 1000}
        ] AS numbers
    FROM unions, spans, sums, launches, queues, kernels
)
