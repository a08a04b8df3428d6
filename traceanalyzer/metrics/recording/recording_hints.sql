-- One row per thing worth recording, profiler and program: how that profiler records it next time.
--
-- Where a trace's recorder or framework has no row of its own, the row without one applies; PyTorch's rows also apply
-- to engines that run on it. trace_hints has the hints for each trace.
--
-- columns:
--   what         VARCHAR  a capability (capability_kinds), or host_activity: what the host does between recorded calls
--   recorder     VARCHAR  traces.recorder; NULL: any without a row of its own
--   framework    VARCHAR  traces.framework; NULL: any without a row of its own
--   hint         VARCHAR  what to do
SELECT what, recorder, framework, hint
FROM (
    VALUES
    ('gpu_ops', NULL, NULL, 'record GPU activity: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], or nsys -t cuda'),
    ('gpu_ops', 'nsys', NULL, 'nsys profile -t cuda,nvtx'),
    ('gpu_ops', NULL, 'onnxruntime', 'nsys profile -t cuda,nvtx'),
    ('gpu_ops', 'rocprof', NULL, 'rocprofv3 --runtime-trace'),
    ('steps', NULL, NULL, 'name them with --step-pattern'),
    ('steps', 'kineto', NULL, 'call prof.step() in every iteration, with schedule(wait=1, warmup=2, active=5)'),
    ('steps', 'nsys', NULL, 'name a range after each step: nvtxRangePushA("step 7"); or name them with --step-pattern'),
    ('steps', 'nsys', 'cupy', 'name a range after each step: cupy.cuda.nvtx.RangePush(f"step {i}"); or name them with --step-pattern'),
    ('steps', 'nsys', 'pytorch', 'name a range after each step: torch.cuda.nvtx.range_push(f"step {i}"); or name them with --step-pattern'),
    ('steps', 'rocprof', NULL, 'name a range after each step: roctxRangePushA("step 7"); or name them with --step-pattern'),
    ('launch_link', NULL, NULL, 'record the calls of the host and the work of the device in one session, and start it on an idle device'),
    ('launch_link', 'kineto', NULL, 'record CPU and GPU activity in one session, and start it after torch.cuda.synchronize()'),
    ('launch_link', 'nsys', NULL, 'start the recording on an idle device, or with the program'),
    ('launch_link', 'rocprof', NULL, 'rocprofv3 --runtime-trace records the calls of HIP, too'),
    ('bounds', NULL, NULL, 'record CPU and GPU activity in one session; one thread at a time should launch work on a device'),
    ('bounds', 'nsys', NULL, 'start the recording on an idle device, with --cuda-graph-trace=node where graphs run; one thread at a time should launch work on a device'),
    ('bounds', 'rocprof', NULL, 'rocprofv3 --runtime-trace; one thread at a time should launch work on a device'),
    ('cpu_ops', NULL, NULL, 'for PyTorch: record with torch.profiler, or with nsys profile --pytorch=autograd-nvtx'),
    ('cpu_ops', 'kineto', NULL, 'add ProfilerActivity.CPU to the activities'),
    ('cpu_ops', 'nsys', NULL, 'for PyTorch: nsys profile --pytorch=autograd-nvtx'),
    ('cpu_ops', 'rocprof', NULL, 'for PyTorch: record with torch.profiler, which works on ROCm'),
    ('op_link', NULL, NULL, 'for PyTorch: record with torch.profiler, or with nsys profile --pytorch=autograd-nvtx'),
    ('op_link', 'kineto', NULL, 'add ProfilerActivity.CPU to the activities'),
    ('op_link', 'nsys', NULL, 'for PyTorch: nsys profile --pytorch=autograd-nvtx'),
    ('op_link', 'rocprof', NULL, 'for PyTorch: record with torch.profiler, which works on ROCm'),
    ('shapes', NULL, NULL, 'for PyTorch: record with torch.profiler and record_shapes=True'),
    ('shapes', 'kineto', NULL, 'record_shapes=True'),
    ('shapes', 'nsys', NULL, 'for PyTorch: nsys profile --pytorch=autograd-shapes-nvtx'),
    ('python_stack', NULL, NULL, 'for PyTorch: record with torch.profiler and with_stack=True'),
    ('python_stack', 'kineto', NULL, 'with_stack=True (slower: use a second, short run)'),
    ('python_stack', 'nsys', NULL, 'mark the collector in gc.callbacks with NVTX ranges named "Python GC"'),
    ('mem_events', NULL, NULL, 'for PyTorch: record with torch.profiler and profile_memory=True'),
    ('mem_events', 'kineto', NULL, 'profile_memory=True'),
    ('mem_events', 'nsys', NULL, 'Nsight Systems sees only what the allocator takes from the driver: record a short run with the profiler of the framework'),
    ('failed_allocations', NULL, NULL, 'record with nsys profile -t cuda,nvtx; for PyTorch: with torch.profiler and profile_memory=True'),
    ('failed_allocations', 'kineto', NULL, 'profile_memory=True'),
    ('failed_allocations', 'nsys', NULL, 'nsys profile -t cuda,nvtx'),
    ('failed_allocations', 'rocprof', NULL, 'for PyTorch: record with torch.profiler and profile_memory=True'),
    ('sync_edges', NULL, NULL, 'for PyTorch: record with torch.profiler and experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)'),
    ('sync_edges', 'kineto', NULL, 'experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)'),
    ('sync_edges', 'nsys', NULL, 'nsys does not record which work they wait for'),
    ('api_calls', NULL, NULL, 'record with nsys profile -t cuda,nvtx; for PyTorch: with torch.profiler'),
    ('api_calls', 'kineto', NULL, 'add ProfilerActivity.CPU to the activities'),
    ('api_calls', 'nsys', NULL, 'nsys profile -t cuda,nvtx'),
    ('api_calls', 'rocprof', NULL, 'rocprofv3 --runtime-trace'),
    ('requests', NULL, NULL, 'record while requests keep coming'),
    ('requests', 'kineto', NULL, 'record while requests keep coming; with_stack=True shows where it waits'),
    ('requests', 'nsys', NULL, 'record while requests keep coming; nsys -t osrt shows where it waits'),
    ('copy_kinds', NULL, NULL, 'ROCm does not record it; with NVIDIA update the profiler'),
    ('copy_kinds', 'nsys', NULL, 'update nsys'),
    ('copy_kinds', 'rocprof', NULL, 'rocprofv3 --memory-copy-trace'),
    ('kernel_names', NULL, NULL, 'add the names to traceanalyzer/metrics/kernels/kernel_class_patterns.sql'),
    ('hw_peaks', NULL, NULL, 'use a profiler that writes deviceProperties, or add the device to traceanalyzer/metrics/hardware/hardware_peaks.sql'),
    ('hw_peaks', 'nsys', NULL, 'add the device to traceanalyzer/metrics/hardware/hardware_peaks.sql'),
    ('hw_peaks', 'rocprof', NULL, 'add the device to traceanalyzer/metrics/hardware/hardware_peaks.sql'),
    ('all_ranks', NULL, NULL, 'write one trace per rank into one folder'),
    ('all_ranks', 'nsys', NULL, 'record every rank, into one folder: nsys profile -o run/rank_%q{RANK}'),
    ('all_ranks', 'rocprof', NULL, 'record every rank, into one folder: mpirun rocprofv3 --runtime-trace --output-directory run'),
    ('host_activity', NULL, NULL, 'record the calls of the host, too'),
    ('host_activity', 'kineto', NULL, 'add ProfilerActivity.CPU to the activities'),
    ('host_activity', 'nsys', NULL, 'draw NVTX ranges around its parts, and record them with nsys profile --trace=cuda,nvtx,osrt'),
    ('host_activity', 'rocprof', NULL, 'draw ROCTX ranges around its parts, and record them with rocprofv3 --runtime-trace')
) AS hints (what, recorder, framework, hint)
