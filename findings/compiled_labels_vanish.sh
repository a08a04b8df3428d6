#!/usr/bin/env bash
# A record_function label inside a function that torch.compile compiles is not in the trace.
#
# One would guess: labels that show the phases of a step in eager mode show them in compiled mode, too.
# What happens: the label is left out when the function is traced, and no event of that name is recorded, neither in the call that
# compiles nor later. A line on stderr says so once, while compiling; the trace says nothing.
# Versions: torch 2.13.0 (CPU), backend aot_eager, Python 3.11.
# Why it matters: time by annotation (forward, loss, data) loses exactly the phases that were made faster, and a comparison of eager
# and compiled runs by label finds the phase gone and not faster. Labels around the call of the compiled function stay.
# Output seen:
#     eager: inside 1, around 1
#     compiled: inside 0, around 1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function


def forward(matrix):
    with record_function("inside"):
        return torch.relu(matrix @ matrix)


def labels(function):
    with profile(activities=[ProfilerActivity.CPU]) as profiler, record_function("around"):
        function(torch.ones(64, 64))
    names = [event.key for event in profiler.events()]
    return names.count("inside"), names.count("around")


compiled = torch.compile(forward, backend="aot_eager")
eager, first, second = labels(forward), labels(compiled), labels(compiled)
print("eager: inside {}, around {}".format(*eager))
print("compiled: inside {}, around {}".format(*second))
if not (eager == (1, 1) and first == second == (0, 1)):
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" 2> /dev/null
