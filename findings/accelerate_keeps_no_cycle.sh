#!/usr/bin/env bash
# Accelerate's profiler writes one cycle of a schedule, and an empty trace when the loop ends between two cycles.
#
# One would guess: with schedule_option and output_trace_dir, each recorded cycle is a trace in that folder, as it is with PyTorch's
# tensorboard_trace_handler.
# What happens: Accelerator.profile() exports once, when its block ends, and PyTorch drops a cycle's events when the next one begins.
# A loop of 12 steps that records each third one leaves the last of four. One step more, and the next cycle has begun its waiting: the
# file is written, without a word, and holds no operator at all. Only with on_trace_ready each cycle is kept.
# Versions: accelerate 1.15.0, torch 2.13.0 (CPU), Python 3.11.
# Why it matters: repeat is 0 by default, "until the end", and an epoch seldom has a multiple of the cycle's steps, so that the usual
# file of a long job has nothing in it; it is found empty after the job has ended.
# Output seen:
#     12 steps, recorded 2, 5, 8, 11; in the folder: profile_0.json with steps 11
#     13 steps, recorded 2, 5, 8, 11; in the folder: profile_0.json with steps none
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet accelerate==1.15.0 torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import json
import re
import sys
from pathlib import Path

import torch
from accelerate import Accelerator, ProfileKwargs

CYCLE = {"wait": 1, "warmup": 1, "active": 1}
for steps, expected in ((12, [11]), (13, [])):
    folder = Path(sys.argv[1]) / str(steps)
    options = ProfileKwargs(activities=["cpu"], schedule_option=CYCLE, output_trace_dir=str(folder))
    with Accelerator(cpu=True, kwargs_handlers=[options]).profile() as profiler:
        for step in range(steps):
            with torch.profiler.record_function(f"step {step}"):
                torch.ones(3).sum()
            profiler.step()
    (trace,) = folder.iterdir()
    events = json.loads(trace.read_text())["traceEvents"]
    found = [int(event["name"][5:]) for event in events if re.fullmatch(r"step \d+", event.get("name", ""))]
    recorded = range(2, steps, sum(CYCLE.values()))
    print(f"{steps} steps, recorded {', '.join(map(str, recorded))}; in the folder: {trace.name} with steps", *found or ["none"])
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    if found != expected or bool(operators) != bool(expected):
        sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder/traces" 2> /dev/null
