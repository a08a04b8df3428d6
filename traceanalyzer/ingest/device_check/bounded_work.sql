-- Work of devices that starts in a part of the recording, with what bounds its end: the start of the next operation of its
-- stream that waits for it, and the return of the first call that was made after its launch and waits for it. NULL: nothing
-- does. Kernels that a graph or a dependent launch starts may run beside what is ahead of them on their stream, but beside
-- few of many.
-- `later_work` has a row a lane with work in later parts: its first start and end, and its first call. `later_ends` has the
-- first ten operations of each such lane, which nothing but their number is asked of.
WITH in_order AS (
    SELECT
        op_id, device, stream, call_end_ns, is_read_back,
        min(CASE WHEN is_ordered THEN start_ns END) OVER after_it AS next_ns,
        min(CASE WHEN is_ordered THEN end_ns END) OVER after_it AS next_end_ns,
        min(call_start_ns) OVER after_it AS later_call_ns,
        lag(own_end_ns, 10) OVER after_it AS tenth_end_ns,
        max(own_end_ns) OVER after_it AS rest_end_ns
    FROM (
        SELECT
            op_id, device, stream, lane, start_ns, end_ns, call_start_ns, call_end_ns, is_ordered, is_read_back,
            start_ns AS place_ns,
            end_ns AS own_end_ns
        FROM device_work
        WHERE start_ns >= $first_ns AND start_ns < $last_ns
        UNION ALL BY NAME
        SELECT lane, start_ns AS place_ns, end_ns AS own_end_ns
        FROM later_ends
        UNION ALL BY NAME
        SELECT lane, start_ns, end_ns, call_start_ns, TRUE AS is_ordered, CAST(9223372036854775807 AS BIGINT) AS place_ns
        FROM later_work
    )
    -- Backwards, a minimum runs on; forwards, each row's would be looked for anew.
    WINDOW after_it AS (
        PARTITION BY lane
        ORDER BY place_ns DESC, own_end_ns DESC, op_id DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
waits AS (
    SELECT
        device, stream, start_ns,
        -- A call that begins later and returns sooner bounds what was launched before both.
        min(end_ns) OVER (
            PARTITION BY device, stream
            ORDER BY start_ns DESC, end_ns
            ROWS UNBOUNDED PRECEDING
        ) AS end_ns
    FROM device_waits
    WHERE device IS NOT NULL
),
of_devices AS (
    SELECT device, start_ns, end_ns
    FROM waits
    WHERE stream IS NULL
),
of_streams AS (
    SELECT device, stream, start_ns, end_ns
    FROM waits
    WHERE stream IS NOT NULL
),
returns AS (
    SELECT
        op_id, next_ns, next_end_ns, later_call_ns, tenth_end_ns, rest_end_ns,
        least(of_devices.end_ns, of_streams.end_ns, CASE WHEN is_read_back THEN call_end_ns END) AS returned_ns
    FROM in_order AS work
    ASOF LEFT JOIN of_devices ON of_devices.device = work.device AND of_devices.start_ns >= work.call_end_ns
    ASOF LEFT JOIN of_streams
        ON of_streams.device = work.device AND of_streams.stream = work.stream AND of_streams.start_ns >= work.call_end_ns
)
-- Few columns are sorted, for whole rows take three times as long; and names are longer than all the rest.
SELECT
    work.op_id, work.device, lane, start_ns, end_ns, call_start_ns, call_end_ns, next_ns, next_end_ns, returned_ns,
    coalesce(tenth_end_ns, rest_end_ns) AS tenth_end_ns,
    tenth_end_ns IS NULL AS is_near_end,
    coalesce(later_call_ns < call_start_ns, FALSE) AS is_out_of_order
FROM device_work AS work
JOIN returns USING (op_id)
WHERE work.start_ns >= $first_ns AND work.start_ns < $last_ns;
