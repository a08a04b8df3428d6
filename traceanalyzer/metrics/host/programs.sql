-- One row per trace: what recorded it and what the program is written with, as advice differs by both.
--
-- At most one of is_pytorch, is_cuda and is_offload is true; none is where the program leaves copies and launches to a
-- framework of its own, as JAX does, or where nothing is known.
--
-- columns: trace, rank, trace_id
--   recorder     VARCHAR  profiler that recorded it: traces.recorder
--   framework    VARCHAR  what the program is written with: traces.framework, or unknown
--   is_pytorch   BOOLEAN  PyTorch runs in the process, by itself or below an engine, and XLA does not compile it
--   is_engine    BOOLEAN  an engine that serves requests of language models
--   is_cuda      BOOLEAN  the program's own code or a library of it calls CUDA or HIP, from C++, Python or Julia
--   is_cupy      BOOLEAN  it does so from Python, with CuPy or Numba; is_cuda holds, too
--   is_offload   BOOLEAN  directives of OpenMP or OpenACC bring its loops to the device
SELECT
    trace, rank, trace_id, recorder,
    coalesce(framework, 'unknown') AS framework,
    coalesce(recorder = 'kineto', FALSE)
        OR coalesce(framework IN ('pytorch', 'sglang', 'vllm', 'tensorrt-llm') AND recorder IS DISTINCT FROM 'torch_xla', FALSE) AS is_pytorch,
    coalesce(framework IN ('sglang', 'vllm', 'tensorrt-llm'), FALSE) AS is_engine,
    NOT is_pytorch AND coalesce(framework IN ('cuda', 'hip', 'cupy', 'numba', 'tensorrt', 'rapids', 'julia', 'llama.cpp', 'gromacs'), FALSE) AS is_cuda,
    is_cuda AND framework IN ('cupy', 'numba') AS is_cupy,
    NOT is_pytorch AND coalesce(framework IN ('openmp', 'openacc'), FALSE) AS is_offload
FROM canonical.traces
