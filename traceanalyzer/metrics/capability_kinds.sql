-- One row per thing a trace may or may not hold that rules can require.
--
-- columns:
--   capability   VARCHAR  name, as a rule's `requires` writes it
--   meaning      VARCHAR  when a trace has it
--   unlock       VARCHAR  what records it next time
--   unlock_nsys  VARCHAR  what records it next time with nsys
SELECT
    capability,
    meaning,
    unlock,
    unlock_nsys
FROM (
    VALUES
    ('gpu_ops', 'kernels, copies or memsets were recorded on the device', 'record GPU activity: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], or nsys -t cuda', 'nsys profile -t cuda,nvtx'),
    ('steps', 'at least two whole steps lie in the analysis window', 'call prof.step() in every iteration, with schedule(wait=1, warmup=2, active=5)', 'name a range after each step: torch.cuda.nvtx.range_push(f"step {i}"); or name them with --step-pattern'),
    ('launch_link', 'at least 90 % of compute time has its launching call in the trace', 'record CPU and GPU activity in one session, and start it after torch.cuda.synchronize()', 'start the recording on an idle device, or with the program'),
    ('bounds', 'the lead scan can tell what a fix would save', 'record CPU and GPU activity in one session; one thread at a time should launch work on a device', 'start the recording on an idle device, with --cuda-graph-trace=node where graphs run; one thread at a time should launch work on a device'),
    ('cpu_ops', 'framework operators were recorded', 'add ProfilerActivity.CPU to the activities', 'for PyTorch: nsys profile --pytorch=autograd-nvtx'),
    ('op_link', 'at least 70 % of kernels name the operator that launched them', 'add ProfilerActivity.CPU to the activities', 'for PyTorch: nsys profile --pytorch=autograd-nvtx'),
    ('shapes', 'operator input shapes were recorded', 'record_shapes=True', 'nsys exports hold none that are read: use a second, short run with the profiler of the framework'),
    ('python_stack', 'Python stacks were recorded', 'with_stack=True (slower: use a second, short run)', 'mark the collector in gc.callbacks with NVTX ranges named "Python GC"'),
    ('mem_events', 'events of the framework''s allocator were recorded, with what is in use after each', 'profile_memory=True', 'Nsight Systems sees only what the allocator takes from the driver: record a short run with the profiler of the framework'),
    ('failed_allocations', 'allocations that fail were recorded, by the allocator or as calls', 'profile_memory=True', 'nsys profile -t cuda,nvtx'),
    ('sync_edges', 'stream and event waits were recorded', 'experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)', 'nsys does not record which work they wait for'),
    ('api_calls', 'runtime or driver calls were recorded', 'add ProfilerActivity.CPU to the activities', 'nsys profile -t cuda,nvtx'),
    ('requests', 'a server had something to do: it waited for requests for less than a tenth of the time', 'record while requests keep coming; with_stack=True shows where it waits', 'record while requests keep coming; nsys -t osrt shows where it waits'),
    ('copy_kinds', 'host-to-device copies say whether host memory was pinned', 'ROCm does not record it; with NVIDIA update the profiler', 'update nsys'),
    ('kernel_names', 'at least 70 % of matrix-product time is in kernels known by name', 'add the names to traceanalyzer/metrics/kernel_class_patterns.sql', 'add the names to traceanalyzer/metrics/kernel_class_patterns.sql'),
    ('hw_peaks', 'the device model is known by name and SM count', 'use a profiler that writes deviceProperties, or add the device to traceanalyzer/metrics/hardware_peaks.sql', 'add the device to traceanalyzer/metrics/hardware_peaks.sql'),
    ('all_ranks', 'every rank of the job is in the run', 'write one trace per rank into one folder', 'record every rank, into one folder: nsys profile -o run/rank_%q{RANK}')
) AS kinds (capability, meaning, unlock, unlock_nsys)
