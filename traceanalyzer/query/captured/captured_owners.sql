-- Operations of all replays, by the launch of the first whole replay's operation that stands in the same place: the node
-- of the graph where it was recorded, else the nth operation of a name.
CREATE OR REPLACE TEMP TABLE captured_places AS
WITH replayed AS (
    SELECT
        launches.trace_id, launches.graph, launches.launch_id, launches.is_under_recorded, ops.op_id,
        ops.kind, ops.name, ops.graph_node_id,
        row_number() OVER (
            PARTITION BY ops.trace_id, ops.launch_id, ops.kind, ops.name, ops.graph_node_id
            ORDER BY ops.start_ns, ops.op_id
        ) AS nth
    FROM graph_launches AS launches
    JOIN canonical.gpu_ops AS ops ON ops.trace_id = launches.trace_id AND ops.launch_id = launches.launch_id
    WHERE launches.has_nodes
),
matched AS (
    SELECT nodes.*, replayed.graph_node_id, replayed.nth
    FROM graph_operators AS nodes
    JOIN replayed USING (trace_id, op_id)
    WHERE nodes.is_matched
)
SELECT
    replayed.trace_id, replayed.launch_id, replayed.op_id, matched.owner_id, matched.captured_id,
    matched.operator, matched.input_shapes, matched.module, matched.python
FROM replayed
JOIN matched
  ON matched.trace_id = replayed.trace_id
 AND matched.graph = replayed.graph
 AND matched.kind = replayed.kind
 AND matched.name IS NOT DISTINCT FROM replayed.name
 AND matched.graph_node_id IS NOT DISTINCT FROM replayed.graph_node_id
 AND matched.nth = replayed.nth
-- Without nodes, an operation that is missing moves all of its name after it.
WHERE NOT replayed.is_under_recorded OR replayed.graph_node_id IS NOT NULL;

-- The operators around each captured launch, from the innermost outwards.
CREATE OR REPLACE TEMP TABLE captured_chains AS
WITH RECURSIVE launches AS (
    SELECT DISTINCT captured.trace_id AS owner_id, captured.launch_id AS captured_id, calls.op_id
    FROM captured_launches AS captured
    JOIN recorded_slices() AS calls ON calls.owner_id = captured.trace_id AND calls.slice_id = captured.launch_id
    SEMI JOIN captured_places AS places ON places.owner_id = captured.trace_id
),
climbing AS (
    SELECT owner_id, captured_id, op_id AS slice_id, 0 AS height
    FROM launches
    WHERE op_id IS NOT NULL
    UNION ALL
    SELECT climbing.owner_id, climbing.captured_id, around.op_id, climbing.height + 1
    FROM climbing
    JOIN recorded_slices() AS around ON around.owner_id = climbing.owner_id AND around.slice_id = climbing.slice_id
    WHERE around.op_id IS NOT NULL
)
FROM climbing;

CREATE OR REPLACE TEMP TABLE captured_numbers AS
WITH sizes AS (
    SELECT owner_id, slice_id, count(*) AS launch_count
    FROM captured_chains
    GROUP BY owner_id, slice_id
),
-- Where captures that fit equally differ in shapes anywhere in the graph, or only parts match, arguments of none are known.
differing AS (
    SELECT DISTINCT trace_id, launch_id
    FROM captured_places AS places
    JOIN recorded_slices() AS calls ON calls.owner_id = places.owner_id AND calls.slice_id = places.captured_id
    JOIN recorded_slices() AS operators ON operators.owner_id = places.owner_id AND operators.slice_id = calls.op_id
    WHERE places.operator IS NULL
       OR operators.input_shapes IS DISTINCT FROM places.input_shapes
),
counted AS (
    SELECT places.trace_id, places.launch_id, places.owner_id, chains.slice_id, count(*) AS op_count
    FROM captured_places AS places
    JOIN captured_chains AS chains ON chains.owner_id = places.owner_id AND chains.captured_id = places.captured_id
    WHERE places.operator IS NOT NULL
    GROUP BY ALL
)
SELECT
    -row_number() OVER (
        PARTITION BY counted.trace_id
        ORDER BY counted.launch_id, counted.owner_id, counted.slice_id
    ) AS call_id,
    counted.* EXCLUDE (op_count),
    differing.trace_id IS NOT NULL AS differs,
    counted.op_count = sizes.launch_count AND differing.trace_id IS NULL AS is_whole
FROM counted
JOIN sizes USING (owner_id, slice_id)
LEFT JOIN differing ON differing.trace_id = counted.trace_id AND differing.launch_id = counted.launch_id;

SELECT
    places.trace_id, places.op_id, numbers.call_id, places.owner_id, places.captured_id AS at_id,
    CASE WHEN places.python IS NOT NULL THEN calls.python_id END AS python_id,
    CASE WHEN places.module IS NOT NULL THEN calls.module_id END AS module_id,
    places.python
FROM captured_places AS places
JOIN recorded_slices() AS calls ON calls.owner_id = places.owner_id AND calls.slice_id = places.captured_id
LEFT JOIN captured_numbers AS numbers
       ON numbers.trace_id = places.trace_id
      AND numbers.launch_id = places.launch_id
      AND numbers.owner_id = places.owner_id
      AND numbers.slice_id = calls.op_id
      AND places.operator IS NOT NULL
ORDER BY places.trace_id, places.op_id
