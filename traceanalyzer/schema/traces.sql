-- One row per trace: one profiled process, as one file (or one process or rank of a file) recorded it.
CREATE TABLE traces (
    trace_id      INTEGER NOT NULL,  -- position of the trace in its run, by rank and then by name; key of every other table
    trace         VARCHAR NOT NULL,  -- name that is unique in the run: the file's path below the run folder, '#pid' or '#rank' appended where a file holds several processes
    path          VARCHAR NOT NULL,  -- the file as found
    format        VARCHAR NOT NULL,  -- kineto, chrome, nsys, xplane, rocpd, rpd, or rocprof (its JSON and CSV)
    recorder      VARCHAR,           -- profiler that recorded it: kineto (PyTorch's own), nsys, rocprof (all of AMD's), torch_npu, unitrace, proton (of Triton), jax, tensorflow, torch_xla, paddle, or chrome: any other that writes trace-event JSON; NULL: unknown
    framework     VARCHAR,           -- what the program is written with, the most specific one that names in the trace show: sglang, vllm, tensorrt-llm, tensorrt, onnxruntime, jax, tensorflow, paddle, pytorch, cupy, numba, rapids, julia, llama.cpp, gromacs, openmp, openacc, sycl, hip or cuda; NULL: unknown
    producer      VARCHAR,           -- what wrote the file, as far as it says
    vendor        VARCHAR,           -- of the devices: nvidia, amd, intel, mtia, google, ascend, moore_threads, cambricon; NULL: unknown
    host          VARCHAR,           -- machine the trace was recorded on
    rank          INTEGER,           -- rank in the job; NULL: neither the metadata nor the file's name has it
    rank_source   VARCHAR,           -- metadata, device, name, or NULL
    world_size    INTEGER,           -- ranks of the job as the metadata says
    backend       VARCHAR,           -- of torch.distributed: nccl, gloo …
    base_ns       BIGINT,            -- clock base added to every time, ns since the Unix epoch; NULL: times were absolute or the base is unknown
    first_ns      BIGINT,            -- start of the first event of any kind, where viewers start to count; naming events have no time
    last_ns       BIGINT,            -- end of the last event
    size_bytes    BIGINT NOT NULL,   -- of the file
    event_count   BIGINT NOT NULL,   -- events read, metadata events included
    truncated     BOOLEAN NOT NULL,  -- the file ends before it should
    has_shapes    BOOLEAN NOT NULL,  -- operator input shapes were recorded
    has_stacks    BOOLEAN NOT NULL,  -- Python stacks were recorded
    has_memory    BOOLEAN NOT NULL,  -- events of memory were recorded
    has_sync_events BOOLEAN NOT NULL -- stream and event synchronisation records were recorded
);
