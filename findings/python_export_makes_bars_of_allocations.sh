#!/usr/bin/env bash
# Exported by Python, each allocation of a PyTorch profile is a slice that lasts until the recording ends.
#
# One would guess: export_chrome_trace(path, use_python_export=True) writes the events that it writes without the option.
# What happens: the allocator's events ("[memory]") are instants, phase "i", by the default exporter. The one in Python writes them
# as complete events, phase "X", on the thread that allocated, and their duration reaches to the end of the profile.
# Versions: torch 2.13.0 (CPU), Python 3.11.
# Why it matters: a reader that looks for memory in instants finds none, one that sums slices of a thread finds it busy many times
# over, and slices that cross each other break the nesting of operators.
# Output seen:
#     default: phases of [memory] i, 0 with a duration
#     by Python: phases of [memory] X, 16 with a duration
#     they end within 0.0 us of each other
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import json
import sys
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

folder = Path(sys.argv[1])
layer = torch.nn.Linear(64, 64)
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
    for _ in range(4):
        layer(torch.ones(32, 64))
profiler.export_chrome_trace(str(folder / "default.json"))
profiler.export_chrome_trace(str(folder / "python.json"), use_python_export=True)


def memory(name):
    events = json.loads((folder / name).read_text())["traceEvents"]
    return [event for event in events if event["name"] == "[memory]"]


phases, lasting = {}, {}
for name, label in (("default.json", "default"), ("python.json", "by Python")):
    found = memory(name)
    phases[label] = sorted({event["ph"] for event in found})
    lasting[label] = [event for event in found if event.get("dur")]
    print(f"{label}: phases of [memory] {' '.join(phases[label])}, {len(lasting[label])} with a duration")
ends_us = [event["ts"] + event["dur"] for event in lasting["by Python"]]
print(f"they end within {max(ends_us, default=0) - min(ends_us, default=0):.1f} us of each other")
if phases != {"default": ["i"], "by Python": ["X"]} or not ends_us:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder" 2> "$folder/log"
