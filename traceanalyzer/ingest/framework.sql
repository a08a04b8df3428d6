-- What the program is written with, by the names in its trace: the first line that holds, from the most specific
-- framework to the least. An engine runs on PyTorch and PyTorch on CUDA, so each of them shows the names of the next.
WITH names AS (
    SELECT DISTINCT 'host' AS place, name
    FROM read_parquet($host)
    UNION ALL
    SELECT DISTINCT 'gpu' AS place, name
    FROM read_parquet($gpu)
    UNION ALL
    SELECT 'process' AS place, unnest(CAST($processes AS VARCHAR[])) AS name
)
SELECT
    CASE
        -- SGLang runs kernels of vLLM, and both of them kernels of TensorRT-LLM: what the host says comes first.
        WHEN bool_or(place = 'host' AND regexp_matches(name, '(^|/)sglang/|^step\[[A-Z]+\b|^sglang::|^sgl_kernel::')) THEN 'sglang'
        WHEN bool_or(place = 'host' AND regexp_matches(name, '(^|/)vllm/|^vllm(::|_)|^execute_(\d+_)?context_\d|^gpu_model_runner: ')) THEN 'vllm'
        WHEN bool_or(place = 'host' AND regexp_matches(name, '(^|/)tensorrt_llm/|^trtllm::|^(\[Executor\] )?_forward_step \d')) THEN 'tensorrt-llm'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '\bsglang::')) THEN 'sglang'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '\bvllm::')) THEN 'vllm'
        WHEN bool_or(place = 'host' AND regexp_matches(name, '^(nvinfer1::)?ExecutionContext::(enqueue|execute)|^myelinGraphExecute')) THEN 'tensorrt'
        WHEN bool_or(place = 'host' AND regexp_matches(name, '^PjitFunction\(|hlo_module=(jit|pjit|pmap)_|^jit_\w+(\(\d+\))?$|(^|/)jax/_src/')) THEN 'jax'
        WHEN bool_or(place = 'host' AND regexp_matches(name, '(^|/)tensorflow/python/|^Eager(Local)?Execute')
            OR place = 'gpu' AND regexp_matches(name, '\btensorflow::')
            OR place = 'process' AND regexp_matches(name, '^/\w+:.* (Compute|Tensors)$')) THEN 'tensorflow'
        WHEN bool_or(place = 'host' AND name = 'SequentialExecutor::Execute') THEN 'onnxruntime'
        WHEN $by_pytorch
            OR bool_or(place = 'host' AND regexp_matches(name, '^(aten|c10d|torch|autograd)::|(^|/)torch/|^ProfilerStep#')
            OR place = 'gpu' AND regexp_matches(name, '\bat::native\b|\bc10::|^triton_(poi|red|per|tem)_fused_')
            OR place = 'process' AND name = 'CPU functions') THEN 'pytorch'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '\btensorrt_llm::')) THEN 'tensorrt-llm'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '\bonnxruntime::')) THEN 'onnxruntime'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '^trt_|\bnvinfer1?::|^__myl_|\bgenericReformat::')) THEN 'tensorrt'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '^(loop|input)_\w*fusion(_\d+)?$')) THEN 'jax'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '^cupy_|\bcupyx') OR place = 'host' AND regexp_matches(name, '(^|/)cupyx?/')) THEN 'cupy'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '\bcudapy::|^_ZN6cudapy')) THEN 'numba'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '\b(cudf|cuml|cugraph)::|\bML::')) THEN 'rapids'
        -- CUDA.jl and AMDGPU.jl pass their arrays as structures of their own.
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '(Cu|ROC)DeviceArray|CompilerMetadata|partial_mapreduce_grid')) THEN 'julia'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '\bggml_(type|cuda)|^(void )?(k_bin_bcast|mul_mat_vec_q|mul_mat_q)<')) THEN 'llama.cpp'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '(?i)\bnbnx[mn]_?kernel|\bNbnxm::|\bpme(Spline|Gather|Solve)\w*kernel')) THEN 'gromacs'
        -- nvc++ and nvfortran name what a directive became after its function and line, as do Clang and GCC.
        WHEN bool_or(regexp_matches(name, '^__pgi_uacc_')
            OR place = 'gpu' AND regexp_matches(name, '_\d+_gpu(__red)?$')
            OR place = 'host' AND regexp_matches(name, '^(Compute Construct|Enqueue (Launch|Upload|Download))\b')) THEN 'openacc'
        WHEN bool_or(place = 'gpu' AND regexp_matches(name, '^nvkernel_|^__omp_offloading_|\$_omp_fn\$\d')) THEN 'openmp'
        WHEN bool_or(place = 'host' AND regexp_matches(name, '^hip[A-Z]')) THEN 'hip'
        WHEN bool_or(place = 'host' AND regexp_matches(name, '^ze(Command|Event|Fence|Module|Kernel)\w+|^(ur|pi)(ext)?(Enqueue|Queue|Events?Wait)\w*')) THEN 'sycl'
        -- Kernels alone show no language: that is the one of the device's vendor.
        WHEN $vendor = 'amd' AND bool_or(place = 'gpu') THEN 'hip'
        WHEN bool_or(regexp_matches(name, '^cu(da)?[A-Z]') AND place = 'host') THEN 'cuda'
        WHEN coalesce($vendor, 'nvidia') = 'nvidia' AND bool_or(place = 'gpu' OR regexp_matches(name, '^cu(da)?[A-Z]')) THEN 'cuda'
    END AS framework
FROM names;
