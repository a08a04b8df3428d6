#!/usr/bin/env bash
# HTA's statistics of kernel launches hold no kernel that Triton launched.
#
# One would guess: get_cuda_kernel_launch_stats has a row for each launch whose kernel is in the trace, as its plots of launch delays
# and of kernels shorter than their launch are about the program.
# What happens: calls are chosen by name, cudaLaunchKernel and cudaLaunchKernelExC. Triton, and so torch.compile, launches through the
# driver, which Kineto records as cuLaunchKernel or cuLaunchKernelEx (category cuda_driver), linked by the same correlation. Of 200
# launches, 150 of them Triton's, 50 have a row, and nothing says that others were left out.
# Versions: HolisticTraceAnalysis 0.5.0, pandas 2.3.3, Python 3.11.
# Why it matters: in a compiled model the statistics are about the few kernels that were not compiled, and before and after compiling
# cannot be compared: launches that moved to the driver look like launches saved.
# Output seen:
#     trace: 50 cudaLaunchKernel, 75 cuLaunchKernel, 75 cuLaunchKernelEx, each with a kernel
#     HTA: 50 launches
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet HolisticTraceAnalysis==0.5.0 pandas==2.3.3
cat > "$folder/try.py" <<'PY'
import json
import logging
import sys
from collections import Counter
from pathlib import Path

from hta.trace_analysis import TraceAnalysis

logging.disable(logging.WARNING)
CALLS = [("cuda_runtime", "cudaLaunchKernel", "gemm")] * 50
CALLS += [("cuda_driver", "cuLaunchKernel", "triton_poi_fused_add_0")] * 75
CALLS += [("cuda_driver", "cuLaunchKernelEx", "triton_red_fused_sum_1")] * 75


def recording():
    for number, (category, call, kernel) in enumerate(CALLS, start=1):
        start_us, link = 1000 + 20 * number, {"correlation": number}
        yield {"cat": category, "name": call, "ts": start_us, "dur": 5, "pid": 10, "tid": 10, "args": link}
        where = {"device": 0, "stream": 7, **link}
        yield {"cat": "kernel", "name": kernel, "ts": start_us + 8, "dur": 10, "pid": 0, "tid": 7, "args": where}


path = Path(sys.argv[1]) / "rank0.json"
events = [{"ph": "X", **event} for event in recording()]
path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": events}))
counts = Counter(event["name"] for event in events if event["cat"] != "kernel")
print("trace: " + ", ".join(f"{count} {name}" for name, count in counts.items()) + ", each with a kernel")
rows = TraceAnalysis(trace_files={0: str(path)}).get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
print(f"HTA: {len(rows)} launches")
if len(rows) != counts["cudaLaunchKernel"]:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder"
