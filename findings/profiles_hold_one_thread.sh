#!/usr/bin/env bash
# A profile holds the operators of the thread that started the profiler; those of other Python threads are missing without a word.
#
# One would guess: profile() records the process: its trace has a line for each thread, and the threads of the backward pass are there.
# What happens: an operator that runs on another Python thread leaves no event, whether the thread began before the profiler or after
# it, and neither do its record_function ranges. With experimental_config=_ExperimentalConfig(profile_all_threads=True), which is
# private, they are recorded.
# Versions: torch 2.13.0 (CPU), Python 3.11.
# Why it matters: servers and pipelines run their model on a worker thread. Their trace shows an idle process, and on a GPU kernels
# without operators, shapes or ranges, since the driver reports those for all threads.
# Output seen:
#     by default: ran 3 matrix products, the trace has 1 (thread of the profiler)
#     all threads: ran 3 matrix products, the trace has 3 (thread of the profiler, earlier thread, later thread)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import json
import sys
import threading
from pathlib import Path

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

NAMES = ["thread of the profiler", "earlier thread", "later thread"]
matrix = torch.ones(64, 64)


def multiply(name):
    with record_function(name):
        torch.mm(matrix, matrix)


def recorded(**options):
    """Return the ranges and the number of matrix products in the trace of three threads that compute one each."""
    file, start = Path(sys.argv[1], "trace.json"), threading.Event()
    earlier = threading.Thread(target=lambda: (start.wait(), multiply("earlier thread")))
    earlier.start()
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        multiply("thread of the profiler")
        start.set()
        earlier.join()
        later = threading.Thread(target=multiply, args=("later thread",))
        later.start()
        later.join()
    profiler.export_chrome_trace(str(file))
    names = [event["name"] for event in json.loads(file.read_text())["traceEvents"] if event.get("ph") == "X"]
    return [name for name in NAMES if name in names], names.count("aten::mm")


found = {
    "by default": recorded(),
    "all threads": recorded(experimental_config=_ExperimentalConfig(profile_all_threads=True)),
}
for how, (ranges, count) in found.items():
    print(f"{how}: ran {len(NAMES)} matrix products, the trace has {count} ({', '.join(ranges)})")
sys.exit(0 if list(found.values()) == [(NAMES[:1], 1), (NAMES, 3)] else "the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder" 2> /dev/null
