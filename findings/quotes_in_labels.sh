#!/usr/bin/env bash
# A label of record_function with a double quote makes the exported trace invalid JSON.
#
# One would guess: PyTorch escapes what it writes between quotes, as it does for paths and shapes.
# What happens: the name of a user's annotation is written as it is. `load "train" shard` becomes
#     "name": "load "train" shard",
# and every JSON reader stops there: json.loads, Chrome, Perfetto, HTA. The recording is lost although all events are in it.
# Versions: torch 2.13.0 (CPU), Python 3.11.
# Why it matters: labels often hold a path, a repr() or a configuration. The job has ended when the trace is first opened, and the
# error names a byte and not the label. A reader that repairs quotes inside names gets all events back.
# Output seen:
#     "name": "load "train" shard",
#     json: Expecting ',' delimiter
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function

with profile(activities=[ProfilerActivity.CPU]) as profiler:
    with record_function('load "train" shard'):
        torch.ones(3).sum()
profiler.export_chrome_trace(sys.argv[1])
text = open(sys.argv[1]).read()
print(next(line.strip() for line in text.splitlines() if "train" in line))
try:
    json.loads(text)
except json.JSONDecodeError as error:
    print("json:", error.msg)
else:
    sys.exit("the trace is valid JSON: the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder/trace.json"
