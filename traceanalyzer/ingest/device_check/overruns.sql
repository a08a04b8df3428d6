-- Records that run into what waits for them, as a table: operations of a stream that outlast a later one, or overlap with
-- it for longer than clocks err; and those that end after the return of a call that waits for them. Of lanes of which
-- many do, the order is unknown: there, none is damaged. Where nothing says that later work waits, an operation is damaged
-- that ends after ten later ones of its stream, and lasts $times as long as equal work does; or ten times as long again,
-- and ends after the fewer that are behind it.
CREATE OR REPLACE TEMP TABLE overruns AS
WITH beside_many AS (
    SELECT op_id, work.device, name, size_bytes, suspects.end_ns - suspects.start_ns AS dur_ns, is_near_end
    FROM suspects
    JOIN device_work AS work USING (op_id)
    WHERE ordered_end_ns IS NULL AND waited_end_ns IS NULL
),
too_long AS (
    SELECT beside_many.op_id
    FROM beside_many
    JOIN (
        SELECT device, name, size_bytes, median(end_ns - start_ns) AS usual_ns
        FROM device_work
        SEMI JOIN beside_many USING (device, name)
        GROUP BY device, name, size_bytes
        HAVING count(*) > $few
    ) AS equal
      ON equal.device = beside_many.device
     AND equal.name = beside_many.name
     AND equal.size_bytes IS NOT DISTINCT FROM beside_many.size_bytes
    WHERE beside_many.dur_ns > $times * usual_ns * if(is_near_end, 10, 1)
),
damaged AS (
    SELECT suspects.*, coalesce(least(ordered_end_ns, waited_end_ns), end_ns) - start_ns AS most_ns
    FROM suspects
    LEFT JOIN too_long USING (op_id)
    WHERE ordered_end_ns IS NOT NULL OR waited_end_ns IS NOT NULL OR too_long.op_id IS NOT NULL
),
lanes AS (
    SELECT lane, count(*) AS lane_count, count(damaged.op_id) AS damaged_count
    FROM bounded_work
    LEFT JOIN damaged USING (op_id, lane)
    GROUP BY lane
),
few AS (
    SELECT damaged.op_id, damaged.device, damaged.start_ns, damaged.end_ns, most_ns, name, size_bytes
    FROM damaged
    JOIN lanes USING (lane)
    JOIN device_work USING (op_id)
    WHERE damaged_count <= greatest($few, lane_count * $few_share)
),
sound AS (
    SELECT device, name, size_bytes, CAST(median(end_ns - start_ns) AS BIGINT) AS dur_ns
    FROM device_work
    ANTI JOIN few USING (op_id)
    SEMI JOIN few USING (device, name)
    GROUP BY GROUPING SETS ((device, name, size_bytes), (device, name))
    -- Rows of the second set have no size: they are for operations that have none of their size.
),
by_size AS (
    SELECT device, name, size_bytes, min(dur_ns) AS dur_ns
    FROM sound
    GROUP BY ALL
)
SELECT
    few.op_id, few.name,
    few.end_ns - few.start_ns AS recorded_ns,
    least(few.most_ns, coalesce(same.dur_ns, alike.dur_ns, 0)) AS dur_ns
FROM few
LEFT JOIN by_size AS same ON same.device = few.device AND same.name = few.name AND same.size_bytes = few.size_bytes
LEFT JOIN by_size AS alike ON alike.device = few.device AND alike.name = few.name AND alike.size_bytes IS NULL;
