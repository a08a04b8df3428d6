-- The calls that the query of captured_owners numbered.
SELECT
    numbers.trace_id, numbers.call_id, numbers.launch_id, numbers.owner_id, numbers.slice_id,
    coalesce(around.call_id, replays.op_id) AS parent_id,
    operators.name,
    CASE WHEN NOT numbers.differs THEN operators.input_shapes END AS input_shapes,
    numbers.is_whole, operators.start_ns, operators.dur_ns
FROM captured_numbers AS numbers
JOIN recorded_slices() AS operators ON operators.owner_id = numbers.owner_id AND operators.slice_id = numbers.slice_id
JOIN canonical.host_slices AS replays ON replays.trace_id = numbers.trace_id AND replays.slice_id = numbers.launch_id
LEFT JOIN captured_numbers AS around
       ON around.trace_id = numbers.trace_id
      AND around.launch_id = numbers.launch_id
      AND around.owner_id = numbers.owner_id
      AND around.slice_id = operators.op_id
ORDER BY numbers.trace_id, numbers.call_id DESC
