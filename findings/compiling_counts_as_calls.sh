#!/usr/bin/env bash
# While torch.compile traces a function, the profiler records operators that compute nothing as calls.
#
# One would guess: a function with one matmul that is called once shows aten::mm once.
# What happens: nine times when the call compiles the function, once when it is compiled already. The others run on fake tensors,
# which have shapes and no data; in table and trace nothing marks them, and they have durations like real ones.
# Versions: torch 2.13.0 (CPU), backend aot_eager, Python 3.11.
# Why it matters: counts, FLOP and "top operators" of a recording that holds a compilation (the first step, a new shape, a graph
# break that compiles again) are sums over work that never ran. The operators lie inside slices whose name ends in (dynamo_timed).
# Output seen:
#     aten::mm while compiling: 9
#     aten::mm when compiled: 1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import sys

import torch
from torch.profiler import ProfilerActivity, profile


def calls_of_mm(function, matrix):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        function(matrix)
    return sum(event.key == "aten::mm" for event in profiler.events())


matrix = torch.ones(64, 64)
compiled = torch.compile(lambda a: torch.relu(a @ a), backend="aot_eager")
first, second = calls_of_mm(compiled, matrix), calls_of_mm(compiled, matrix)
print("aten::mm while compiling:", first)
print("aten::mm when compiled:", second)
if not first > second == 1:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py"
