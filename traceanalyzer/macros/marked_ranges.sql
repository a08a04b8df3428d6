-- The ranges that the program marked, of parts of the recording; the metrics ranges and ranges_by_step say what a row holds.
-- The argument names a table or view of parts: trace_id, step, start_ns and end_ns on the host, no part of a trace twice.
-- A range is cut to each part, and holds the GPU operations that were launched in the part, whenever they run.
CREATE OR REPLACE MACRO marked_ranges(parts) AS TABLE
WITH RECURSIVE
marked AS MATERIALIZED (
    SELECT
        trace_id, slice_id, thread_id, annotation_id AS around_id, depth, start_ns,
        start_ns + dur_ns AS end_ns,
        CASE
            WHEN marks_step(category, raw_category, name) THEN regexp_replace(name, '[# ]-?\d+$', '')
            ELSE coalesce(name, '')
        END AS name
    FROM canonical.host_slices
    WHERE category = 'annotation'
),
-- Who runs a thread's backward passes waits for them.
forward_threads AS (
    SELECT nodes.trace_id, nodes.thread_id, forward.thread_id AS caller_id
    FROM (
        FROM canonical.host_slices WHERE category = 'cpu_op' AND forward_thread IS NOT NULL
    ) AS nodes
    JOIN (
        SELECT DISTINCT trace_id, sequence, thread_id
        FROM canonical.host_slices
        WHERE category = 'cpu_op' AND sequence IS NOT NULL AND forward_thread IS NULL
    ) AS forward USING (trace_id, sequence)
    WHERE nodes.trace_id IN (SELECT trace_id FROM marked)
    GROUP BY nodes.trace_id, nodes.thread_id, forward.thread_id
    QUALIFY row_number() OVER (PARTITION BY nodes.trace_id, nodes.thread_id ORDER BY count(*) DESC, caller_id) = 1
),
workers AS MATERIALIZED (
    SELECT *
    FROM forward_threads
    WHERE caller_id <> thread_id
      AND NOT EXISTS (
          FROM forward_threads AS own
          WHERE own.trace_id = forward_threads.trace_id
            AND own.thread_id = forward_threads.caller_id
            AND own.caller_id <> own.thread_id
      )
),
outlasted AS (
    SELECT DISTINCT outside.trace_id, outside.slice_id
    FROM marked AS inside
    JOIN marked AS outside ON outside.trace_id = inside.trace_id AND outside.slice_id = inside.around_id
    WHERE inside.end_ns > outside.end_ns
),
-- Which range is the innermost of a calling thread from a time on. A range that another one outlasts stays around that one.
edges AS MATERIALIZED (
    SELECT trace_id, thread_id, at_ns, arg_max_null(open_id, place) AS open_id
    FROM (
        SELECT trace_id, thread_id, start_ns AS at_ns, slice_id AS open_id, depth + 1 AS place
        FROM marked
        WHERE end_ns > start_ns
        UNION ALL
        SELECT trace_id, thread_id, end_ns, around_id, -depth
        FROM marked
        ANTI JOIN outlasted ON outlasted.trace_id = marked.trace_id AND outlasted.slice_id = marked.slice_id
        WHERE end_ns > start_ns
    ) AS changes
    SEMI JOIN workers ON workers.trace_id = changes.trace_id AND workers.caller_id = changes.thread_id
    GROUP BY trace_id, thread_id, at_ns
),
ranges AS MATERIALIZED (
    SELECT
        marked.trace_id, marked.slice_id, marked.name, marked.start_ns, marked.end_ns,
        coalesce(marked.around_id, edges.open_id) AS around_id
    FROM marked
    LEFT JOIN workers ON workers.trace_id = marked.trace_id AND workers.thread_id = marked.thread_id
    ASOF LEFT JOIN edges
        ON edges.trace_id = marked.trace_id
       AND edges.thread_id = workers.caller_id
       AND edges.at_ns <= marked.start_ns
),
-- To the innermost range around that does not end before.
climbing AS (
    SELECT trace_id, slice_id, end_ns, around_id, 0 AS level
    FROM ranges
    UNION ALL
    SELECT climbing.trace_id, climbing.slice_id, climbing.end_ns, outside.around_id, climbing.level + 1
    FROM climbing
    JOIN ranges AS outside ON outside.trace_id = climbing.trace_id AND outside.slice_id = climbing.around_id
    WHERE outside.end_ns < climbing.end_ns AND climbing.level < 100
),
-- Names stand here, for DuckDB would join ranges by trace alone in the query that grows paths.
parents AS MATERIALIZED (
    SELECT trace_id, slice_id, name, replace(replace(name, '\', '\\'), ';', '\;') AS path_name, parent_id
    FROM ranges
    JOIN (
        SELECT trace_id, slice_id, arg_max_null(around_id, level) AS parent_id
        FROM climbing
        GROUP BY trace_id, slice_id
    ) USING (trace_id, slice_id)
),
placed AS (
    SELECT trace_id, slice_id, name, path_name AS path, CAST(NULL AS VARCHAR) AS parent_path, 0 AS depth
    FROM parents
    WHERE parent_id IS NULL
    UNION ALL
    SELECT
        inside.trace_id, inside.slice_id, inside.name,
        placed.path || ';' || inside.path_name,
        placed.path,
        placed.depth + 1
    FROM placed
    JOIN parents AS inside ON inside.trace_id = placed.trace_id AND inside.parent_id = placed.slice_id
    WHERE placed.depth < 99
),
crossing AS (
    SELECT trace_id, -1 - event_id AS thread_id, event_id AS slice_id, name, start_ns, start_ns + dur_ns AS end_ns
    FROM canonical.async_slices
    WHERE raw_category = 'NVTX start/end' AND dur_ns IS NOT NULL
),
-- Each range counts in the row of its name, and in that of its path.
counted_ranges AS (
    SELECT trace_id, slice_id, name, NULL AS path, NULL AS parent_path, NULL AS depth
    FROM ranges
    UNION ALL
    FROM placed
    UNION ALL
    SELECT trace_id, slice_id, coalesce(name, ''), unnest([NULL, coalesce(name, '')]), NULL, unnest([NULL, 0])
    FROM crossing
),
-- Ranges that were open when the recording stopped.
cut AS MATERIALIZED (
    SELECT trace_id, event_id AS slice_id
    FROM canonical.event_args
    WHERE (trace_id, event_id) IN (SELECT (trace_id, slice_id) FROM counted_ranges) AND is_cut(args)
),
numbered_parts AS MATERIALIZED (
    SELECT
        trace_id, step, start_ns, end_ns,
        row_number() OVER in_order AS nth,
        max(end_ns) OVER in_order AS reached_ns,
        count(*) OVER (PARTITION BY trace_id ORDER BY start_ns) AS begun_count
    FROM query_table(parts)
    WHERE start_ns IS NOT NULL
    WINDOW in_order AS (PARTITION BY trace_id ORDER BY start_ns, end_ns, step ROWS UNBOUNDED PRECEDING)
),
-- What of a range lies in each part of the recording: parts from the first that none before it has passed.
pieces AS MATERIALIZED (
    SELECT
        trace_id, parts.step, ranges.thread_id, slice_id, ranges.around_id,
        greatest(ranges.start_ns, parts.start_ns) AS start_ns,
        least(ranges.end_ns, parts.end_ns) AS end_ns,
        ranges.end_ns <= parts.end_ns AND cut.slice_id IS NOT NULL AS is_cut
    FROM (
        SELECT whole.*, unnest(generate_series(coalesce(passed.nth, 0) + 1, begun.begun_count)) AS nth
        FROM (
            SELECT trace_id, thread_id, slice_id, around_id, start_ns, end_ns FROM marked
            UNION ALL
            SELECT trace_id, thread_id, slice_id, NULL, start_ns, end_ns FROM crossing
        ) AS whole
        ASOF JOIN numbered_parts AS begun ON begun.trace_id = whole.trace_id AND begun.start_ns <= whole.end_ns
        ASOF LEFT JOIN numbered_parts AS passed ON passed.trace_id = whole.trace_id AND passed.reached_ns <= whole.start_ns
    ) AS ranges
    JOIN numbered_parts AS parts USING (trace_id, nth)
    LEFT JOIN cut USING (trace_id, slice_id)
    WHERE ranges.start_ns < parts.end_ns AND (ranges.end_ns > parts.start_ns OR ranges.start_ns >= parts.start_ns)
),
own_time AS (
    SELECT pieces.*, inside_ns
    FROM pieces
    LEFT JOIN (
        SELECT trace_id, step, slice_id, sum(added_ns) AS inside_ns
        FROM (
            SELECT
                inside.trace_id, inside.step, inside.around_id AS slice_id,
                uncovered_ns(
                    inside.start_ns,
                    least(inside.end_ns, outside.end_ns),
                    max(least(inside.end_ns, outside.end_ns)) OVER (
                        PARTITION BY inside.trace_id, inside.step, inside.around_id
                        ORDER BY inside.start_ns, inside.slice_id
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                    )
                ) AS added_ns
            FROM pieces AS inside
            JOIN pieces AS outside
              ON outside.trace_id = inside.trace_id
             AND outside.step = inside.step
             AND outside.slice_id = inside.around_id
        )
        GROUP BY trace_id, step, slice_id
    ) AS nested USING (trace_id, step, slice_id)
),
named AS MATERIALIZED (
    SELECT own_time.*, counted.name, counted.path, counted.parent_path, counted.depth
    FROM counted_ranges AS counted
    JOIN own_time USING (trace_id, slice_id)
),
keys AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY trace_id, step, path NULLS FIRST, name) AS key
    FROM (
        SELECT DISTINCT trace_id, step, name, path, parent_path, depth
        FROM named
    )
),
members AS MATERIALIZED (
    SELECT
        keys.key,
        named.* EXCLUDE (name, path, parent_path, depth),
        uncovered_ns(
            named.start_ns, named.end_ns,
            max(named.end_ns) OVER (
                PARTITION BY keys.key, named.thread_id
                ORDER BY named.start_ns, named.slice_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS added_ns
    FROM named
    JOIN keys
      ON keys.trace_id = named.trace_id
     AND keys.step = named.step
     AND keys.name = named.name
     AND keys.path IS NOT DISTINCT FROM named.path
),
host AS (
    SELECT
        key,
        count(*) AS call_count,
        sum(end_ns - start_ns) AS dur_sum_ns,
        count(*) FILTER (WHERE is_cut) AS cut_count,
        coalesce(sum(end_ns - start_ns) FILTER (WHERE is_cut), 0) AS cut_sum_ns,
        sum(added_ns) AS host_sum_ns,
        sum(end_ns - start_ns - coalesce(inside_ns, 0)) AS host_self_ns,
        bool_and(thread_id < 0) AS is_crossing
    FROM members
    GROUP BY key
),
launched AS MATERIALIZED (
    SELECT
        ops.trace_id, ops.op_id, ops.device, ops.start_ns,
        ops.start_ns + ops.dur_ns AS end_ns,
        calls.start_ns AS at_ns,
        coalesce(calls.start_ns, innermost.start_ns) AS placed_ns,
        ops.annotation_id IS NULL AS is_by_time,
        coalesce(ops.annotation_id, edges.open_id) AS innermost_id
    FROM canonical.gpu_ops AS ops
    LEFT JOIN canonical.host_slices AS calls
           ON calls.trace_id = ops.trace_id AND calls.slice_id = coalesce(ops.launch_id, ops.cpu_op_id)
    LEFT JOIN workers ON workers.trace_id = calls.trace_id AND workers.thread_id = calls.thread_id
    ASOF LEFT JOIN edges
        ON edges.trace_id = ops.trace_id
       AND edges.thread_id = workers.caller_id
       AND edges.at_ns <= calls.start_ns
    LEFT JOIN ranges AS innermost ON innermost.trace_id = ops.trace_id AND innermost.slice_id = ops.annotation_id
    WHERE coalesce(ops.annotation_id, edges.open_id) IS NOT NULL
),
chains AS (
    SELECT trace_id, slice_id AS innermost_id, end_ns AS inner_end_ns, slice_id, end_ns, around_id, 0 AS level
    FROM ranges
    WHERE (trace_id, slice_id) IN (SELECT (trace_id, innermost_id) FROM launched)
    UNION ALL
    SELECT
        chains.trace_id, chains.innermost_id, chains.inner_end_ns, outside.slice_id, outside.end_ns,
        outside.around_id,
        chains.level + 1
    FROM chains
    JOIN ranges AS outside ON outside.trace_id = chains.trace_id AND outside.slice_id = chains.around_id
    WHERE chains.level < 99
),
-- The innermost range of a launch is known; one around it may have ended before the launch, where ranges overlap.
inside AS (
    SELECT DISTINCT members.key, launched.op_id, launched.device, launched.start_ns, launched.end_ns
    FROM (
        SELECT launches.*, unnest(generate_series(coalesce(passed.nth, 0) + 1, begun.begun_count)) AS nth
        FROM launched AS launches
        ASOF JOIN numbered_parts AS begun ON begun.trace_id = launches.trace_id AND begun.start_ns <= launches.placed_ns
        ASOF LEFT JOIN numbered_parts AS passed
            ON passed.trace_id = launches.trace_id AND passed.reached_ns <= launches.placed_ns
    ) AS launched
    JOIN chains ON chains.trace_id = launched.trace_id AND chains.innermost_id = launched.innermost_id
    JOIN numbered_parts AS parts
      ON parts.trace_id = launched.trace_id
     AND parts.nth = launched.nth
     AND launched.placed_ns < parts.end_ns
    JOIN members
      ON members.trace_id = chains.trace_id
     AND members.step = parts.step
     AND members.slice_id = chains.slice_id
    WHERE launched.at_ns < chains.end_ns
       OR (chains.end_ns >= chains.inner_end_ns AND NOT launched.is_by_time)
),
device AS (
    SELECT key, sum(added_ns) AS busy_ns, count(*) AS op_count
    FROM (
        SELECT
            key,
            uncovered_ns(
                start_ns, end_ns,
                max(end_ns) OVER (
                    PARTITION BY key, device
                    ORDER BY start_ns, op_id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                )
            ) AS added_ns
        FROM inside
    )
    GROUP BY key
),
work AS (
    SELECT trace_id AS key, start_ns, start_ns + dur_ns AS end_ns
    FROM canonical.gpu_ops
),
-- How long a device had worked before each stretch of work.
stretches AS MATERIALIZED (
    SELECT
        key AS trace_id, start_ns, end_ns,
        coalesce(
            sum(end_ns - start_ns) OVER (
                PARTITION BY key ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            0
        ) AS before_ns
    FROM interval_merge('work')
),
key_times AS (
    SELECT key, start_ns, end_ns
    FROM members
),
open_times AS (
    SELECT trace_id, key, times.start_ns, times.end_ns
    FROM interval_merge('key_times') AS times
    JOIN keys USING (key)
),
idle AS (
    SELECT
        times.key,
        sum(
            times.end_ns - times.start_ns
            - (coalesce(last.before_ns + least(times.end_ns, last.end_ns) - last.start_ns, 0)
                - coalesce(first.before_ns + least(times.start_ns, first.end_ns) - first.start_ns, 0))
        ) AS idle_ns
    FROM open_times AS times
    ASOF LEFT JOIN stretches AS first ON first.trace_id = times.trace_id AND first.start_ns <= times.start_ns
    ASOF LEFT JOIN stretches AS last ON last.trace_id = times.trace_id AND last.start_ns <= times.end_ns
    GROUP BY times.key
),
comparable AS (
    SELECT ops.trace_id, ops.has_links, mapped.trace_id IS NULL AS has_one_clock
    FROM (
        SELECT trace_id, bool_or(coalesce(launch_id, cpu_op_id, annotation_id) IS NOT NULL) AS has_links
        FROM canonical.gpu_ops
        GROUP BY trace_id
    ) AS ops
    LEFT JOIN (
        FROM canonical.defects
        WHERE defect = 'device-clock-mapped' AND TRY_CAST(split_part(example, ' ms', 1) AS DOUBLE) >= 10
    ) AS mapped USING (trace_id)
)
SELECT
    traces.trace, traces.rank, keys.trace_id, keys.step, keys.name, keys.path, keys.parent_path, keys.depth,
    host.call_count,
    CAST(host.dur_sum_ns AS BIGINT) AS dur_sum_ns,
    host.cut_count,
    CAST(host.cut_sum_ns AS BIGINT) AS cut_sum_ns,
    CAST(host.host_sum_ns AS BIGINT) AS host_sum_ns,
    CAST(host.host_self_ns AS BIGINT) AS host_self_ns,
    CASE WHEN comparable.has_links AND NOT host.is_crossing THEN CAST(coalesce(device.busy_ns, 0) AS BIGINT) END AS busy_ns,
    CASE WHEN comparable.has_one_clock THEN CAST(coalesce(idle.idle_ns, 0) AS BIGINT) END AS idle_ns,
    CASE WHEN comparable.has_links AND NOT host.is_crossing THEN coalesce(device.op_count, 0) END AS op_count
FROM keys
JOIN host USING (key)
JOIN canonical.traces AS traces ON traces.trace_id = keys.trace_id
LEFT JOIN device USING (key)
LEFT JOIN idle USING (key)
LEFT JOIN comparable ON comparable.trace_id = keys.trace_id
ORDER BY keys.trace_id, keys.step, keys.path NULLS FIRST, keys.name;
