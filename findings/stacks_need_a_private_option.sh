#!/usr/bin/env bash
# with_stack=True alone gives export_stacks() an empty file and key_averages(group_by_stack_n=…) empty stacks.
#
# One would guess: with_stack=True, which the documents name for both, is enough.
# What happens: export_stacks() writes a file of 0 bytes and raises nothing, and every row of the grouped table has the stack []. The
# frames are in the exported trace (events of category python_function). Both calls work with
# experimental_config=_ExperimentalConfig(verbose=True), which is private and which neither call asks for.
# Versions: torch 2.13.0 (CPU), Python 3.11.
# Why it matters: an empty flame graph reads as "nothing to see". Who has only that file has to record the job again; who has the
# trace can build the stacks from it.
# Output seen:
#     with_stack: file of 0 bytes, 0 rows with a stack, 33 frames in the trace
#     with_stack and verbose: file of 5802 bytes
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import json
import os
import sys

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile


def work():
    return torch.ones(64, 64) @ torch.ones(64, 64)


def recorded(folder, **options):
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, **options) as profiler:
        work()
    stacks, trace = os.path.join(folder, "stacks.txt"), os.path.join(folder, "trace.json")
    profiler.export_stacks(stacks, "self_cpu_time_total")
    profiler.export_chrome_trace(trace)
    frames = [e for e in json.load(open(trace))["traceEvents"] if e.get("cat") == "python_function"]
    rows = [row for row in profiler.key_averages(group_by_stack_n=3) if row.stack]
    return os.path.getsize(stacks), len(rows), len(frames)


size, rows, frames = recorded(sys.argv[1])
verbose_size, _, _ = recorded(sys.argv[1], experimental_config=_ExperimentalConfig(verbose=True))
print(f"with_stack: file of {size} bytes, {rows} rows with a stack, {frames} frames in the trace")
print(f"with_stack and verbose: file of {verbose_size} bytes")
if not (size == rows == 0 < frames and verbose_size > 0):
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder"
