-- Whether a Python frame is the profiler's own: what starts and stops a recording, and marks steps and ranges, in
-- PyTorch, and in JAX, TensorFlow and PyTorch/XLA, whose profiles name files without their folders.
CREATE OR REPLACE MACRO is_profiler_frame(name) AS
    regexp_matches(
        name,
        '(^|/)torch/(autograd/profiler|profiler/\w+)\.py\(\d+\): '
        '|(^\$|/)profiler(_v2)?\.py(:\d+|\(\d+\):) ((start|stop)(_(trace|server|and_\w+))?|trace(_detached)?|warmup|__(init|enter|exit)__)$'
    );
