#!/usr/bin/env bash
# with_stack=True draws the Python frames of all waiting threads on one thread, number 0, where they overlap.
#
# One would guess: each thread of Python has a track of its own, as its thread number tells them apart.
# What happens: a thread whose frames all stay open while the profiler records (it waits on a lock, a queue or a socket) gets no
# number, and PyTorch writes 0 for it. Two such threads share thread 0: their frames cross each other there, and a reader that nests
# slices by time takes one thread's frames for callees of the other's. `prof.events().export_chrome_trace()` writes the same frames
# with thread 18446744073709551615, which no reader that holds numbers as doubles can tell from its neighbours.
# Versions: torch 2.13.0 (CPU), Python 3.11.
# Why it matters: programs with a prefetcher, a logger and a heartbeat show one thread that is busy from start to end, with a call
# stack that never existed; time per line of code counts those waits.
# Output seen:
#     frames of heartbeat are on thread 0, frames of prefetcher are on thread 0
#     in the list of events: thread 18446744073709551615
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import json
import os
import sys
import threading

import torch
from torch.profiler import ProfilerActivity, profile

stop = threading.Event()


def heartbeat():
    stop.wait()


def prefetcher():
    stop.wait()


threads = [threading.Thread(target=waits) for waits in (heartbeat, prefetcher)]
for thread in threads:
    thread.start()
with profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
    torch.ones(64, 64) @ torch.ones(64, 64)
trace, listed = (os.path.join(sys.argv[1], name) for name in ("trace.json", "listed.json"))
profiler.export_chrome_trace(trace)
profiler.events().export_chrome_trace(listed)
stop.set()
for thread in threads:
    thread.join()


def number_of(events, name):
    return {event["tid"] for event in events if event["ph"] == "X" and event["name"].endswith(f": {name}")}


events = json.load(open(trace))["traceEvents"]
found = {name: number_of(events, name) for name in ("heartbeat", "prefetcher")}
print(", ".join(f"frames of {name} are on thread {min(numbers)}" for name, numbers in found.items()))
numbers = number_of(json.load(open(listed)), "heartbeat")
print(f"in the list of events: thread {min(numbers)}")
if found != {"heartbeat": {0}, "prefetcher": {0}} or numbers != {2**64 - 1}:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder"
