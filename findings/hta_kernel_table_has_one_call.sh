#!/usr/bin/env bash
# In HTA's kernel table, shortest, longest and mean call of a kernel are all the sum of its calls.
#
# One would guess: get_gpu_kernel_breakdown gives, for each kernel, the mean, shortest and longest of its calls and how they spread.
# What happens: as soon as a kind of work has more kernel names than num_kernels (10 by default, so in any real model), each name is
# summed first, and the statistics are taken over that one sum: 100 calls of 100 to 199 µs are one call of 14,950 µs, deviation 0.
# Versions: HolisticTraceAnalysis 0.5.0, pandas 2.3.3, Python 3.11.
# Why it matters: a kernel called a hundred times looks like one huge kernel, so one looks for a faster kernel where fewer or fused
# calls would help; that its calls differ twofold (other shapes, a throttled clock) cannot be seen.
# Output seen:
#     trace: 100 calls, mean 149.5 us, 100 to 199 us
#     HTA: mean 14950.0 us, 14950 to 14950 us, deviation 0.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet HolisticTraceAnalysis==0.5.0 pandas==2.3.3
cat > "$folder/try.py" <<'PY'
import json
import logging
import sys
from pathlib import Path

from hta.trace_analysis import TraceAnalysis

logging.disable(logging.WARNING)
lengths_us = [("gemm", 100 + call) for call in range(100)] + [(f"kernel_{number}", 50) for number in range(50)]
events, start_us = [], 1000
for number, (name, length_us) in enumerate(lengths_us, start=1):
    link = {"correlation": number}
    launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 10, "tid": 10, "dur": 1, "args": link}
    kernel = {"cat": "kernel", "name": name, "pid": 0, "tid": 7, "dur": length_us}
    events.append({"ph": "X", "ts": start_us - 50, **launch})
    events.append({"ph": "X", "ts": start_us, **kernel, "args": {"device": 0, "stream": 7, **link}})
    start_us += length_us + 1
path = Path(sys.argv[1]) / "rank0.json"
path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": events}))

gemm_us = [length_us for name, length_us in lengths_us if name == "gemm"]
print(f"trace: {len(gemm_us)} calls, mean {sum(gemm_us) / len(gemm_us)} us, {min(gemm_us)} to {max(gemm_us)} us")
_, kernels = TraceAnalysis(trace_files={0: str(path)}).get_gpu_kernel_breakdown(visualize=False)
(row,) = [row for _, row in kernels.iterrows() if row["name"] == "gemm"]
shortest, longest = row["min (us)"], row["max (us)"]
print(f"HTA: mean {row['mean (us)']} us, {shortest} to {longest} us, deviation {row['stddev']}")
if not shortest == longest == sum(gemm_us):
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" -W ignore::FutureWarning "$folder/try.py" "$folder"
