#!/usr/bin/env bash
# HTA says that two GPUs which work in turn, each idle half of the time, have no idle time at all.
#
# One would guess: the temporal breakdown of a trace in which one process drives two GPUs (nn.DataParallel, model parallelism, naive
# pipelines) has a row for each GPU, or the mean of both.
# What happens: there is one row a file. The kernels of all devices are put on one timeline, and time is busy where any of them is:
# two devices that are 50 % busy, one after the other, are 100 % compute and 0 µs idle.
# Versions: HolisticTraceAnalysis 0.5.0, pandas 2.3.3, Python 3.11.
# Why it matters: a pipeline whose stages wait for each other is the very case for which one asks for idle time, and its answer is
# that there is none.
# Output seen:
#     each device: busy 200 us of 400 us
#     HTA: idle 0 us, compute 100.0 %
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
LENGTH_US, KERNELS, DEVICES = 100, 4, 2
folder = Path(sys.argv[1])
folder.mkdir()
events = []
for number in range(KERNELS):
    device, start_us = number % DEVICES, 1_000 + number * LENGTH_US
    ids = {"correlation": number + 1, "External id": number + 1}
    call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 100, "ts": start_us - 5, "dur": 2, "args": ids}
    work = {"cat": "kernel", "name": "gemm", "pid": device, "tid": 7, "ts": start_us, "dur": LENGTH_US}
    work["args"] = {**ids, "device": device, "stream": 7}
    events += [{"ph": "X", **call}, {"ph": "X", **work}]
document = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}
(folder / "rank0.json").write_text(json.dumps(document))
(row,) = TraceAnalysis(trace_dir=str(folder)).get_temporal_breakdown(visualize=False).to_dict("records")
print(f"each device: busy {LENGTH_US * KERNELS // DEVICES} us of {LENGTH_US * KERNELS} us")
print(f"HTA: idle {row['idle_time(us)']} us, compute {row['compute_time_pctg']} %")
if (row["idle_time(us)"], row["compute_time_pctg"]) != (0, 100.0):
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder/run"
