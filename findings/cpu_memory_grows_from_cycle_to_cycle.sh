#!/usr/bin/env bash
# On the CPU, the profiler's total of allocated memory grows by whatever is freed while the profiler pauses.
#
# One would guess: "Total Allocated" of a [memory] event is what the process holds then, as on a GPU, where the allocator keeps count.
# What happens: on the CPU the profiler itself adds up what it sees. It never sees what is freed between two cycles of a schedule, and
# keeps its total from one to the next. A loop that never holds more than one megabyte seems to gain a megabyte with each cycle.
# Versions: torch 2.13.0 (CPU), Python 3.11.
# Why it matters: several cycles are the usual way to record a long run. Who compares the peaks of their traces, or draws the total
# over all of them, sees a leak where there is none; the level of a single trace says nothing either, only its changes do.
# Output seen:
#     cycle 1: the loop holds at most 1 MB, the trace says 1 MB
#     cycle 2: the loop holds at most 1 MB, the trace says 2 MB
#     cycle 3: the loop holds at most 1 MB, the trace says 3 MB
#     cycle 4: the loop holds at most 1 MB, the trace says 4 MB
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
from torch.profiler import ProfilerActivity, profile, schedule

MEGABYTE = 2**20
traces: list[Path] = []


def keep_trace(recorded: profile) -> None:
    traces.append(Path(sys.argv[1], f"cycle{len(traces) + 1}.json"))
    recorded.export_chrome_trace(str(traces[-1]))


cycles = schedule(wait=2, warmup=1, active=1, repeat=4)
with profile(activities=[ProfilerActivity.CPU], profile_memory=True, schedule=cycles, on_trace_ready=keep_trace) as recorded:
    for number in range(16):
        # Made in a step that is recorded, freed in the next one, which is not.
        held = torch.empty(MEGABYTE, dtype=torch.uint8) if number % 4 == 3 else None
        recorded.step()

totals = []
for number, trace in enumerate(traces, 1):
    events = json.loads(trace.read_text())["traceEvents"]
    totals.append(max(event["args"]["Total Allocated"] for event in events if event.get("name") == "[memory]") / MEGABYTE)
    print(f"cycle {number}: the loop holds at most 1 MB, the trace says {totals[-1]:.0f} MB")
sys.exit(0 if [round(total) for total in totals] == [1, 2, 3, 4] else 1)
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder" 2> /dev/null
