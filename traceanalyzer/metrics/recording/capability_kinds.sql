-- One row per thing a trace may or may not hold that rules can require; recording_hints says how to record it.
--
-- columns:
--   capability   VARCHAR  name, as a rule's `requires` writes it
--   meaning      VARCHAR  when a trace has it
SELECT capability, meaning
FROM (
    VALUES
    ('gpu_ops', 'kernels, copies or memsets were recorded on the device'),
    ('steps', 'at least two whole steps lie in the analysis window'),
    ('launch_link', 'at least 90 % of compute time has its launching call in the trace'),
    ('bounds', 'the replay can tell what a fix would save'),
    ('cpu_ops', 'framework operators were recorded'),
    ('op_link', 'at least 70 % of kernels name the operator that launched them'),
    ('shapes', 'operator input shapes were recorded'),
    ('python_stack', 'Python stacks were recorded'),
    ('mem_events', 'events of the framework''s allocator were recorded, with what is in use after each'),
    ('failed_allocations', 'allocations that fail were recorded, by the allocator or as calls'),
    ('sync_edges', 'stream and event waits were recorded'),
    ('api_calls', 'runtime or driver calls were recorded'),
    ('requests', 'a server had something to do: it waited for requests for less than a tenth of the time'),
    ('copy_kinds', 'host-to-device copies say whether host memory was pinned'),
    ('kernel_names', 'at least 70 % of matrix-product time is in kernels known by name'),
    ('hw_peaks', 'the device model is known by name and SM count'),
    ('all_ranks', 'every rank of the job is in the run')
) AS kinds (capability, meaning)
