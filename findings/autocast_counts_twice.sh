#!/usr/bin/env bash
# Under autocast each matmul is recorded twice, one inside the other, and its operations are counted twice.
#
# One would guess: three calls of torch.mm under autocast are three calls of aten::mm, in bfloat16.
# What happens: six. The outer call has the float arguments and holds the casts, the inner one has the bfloat16 arguments and does
# the work. key_averages() gives 6 calls and 3,145,728 FLOP where three products of 64 × 64 × 64 have 1,572,864. In the exported
# trace both are events of category cpu_op named aten::mm; only their nesting and "Input type" tell them apart.
# Versions: torch 2.13.0 (CPU; kernels on a GPU are launched by the inner call), Python 3.11.
# Why it matters: a model FLOP utilisation from such a table is twice the truth, counts of calls too; the precision read from the
# outer call says FP32 for work that runs in BF16, so that a tool advises to switch on what is on.
# Output seen:
#     calls of aten::mm: 6 for 3 products
#     FLOP: 3145728 for 1572864
#     inputs: float float, c10::BFloat16 c10::BFloat16
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile

SIZE, PRODUCTS = 64, 3
matrix = torch.ones(SIZE, SIZE)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True) as profiler:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(PRODUCTS):
            torch.mm(matrix, matrix)
(row,) = [row for row in profiler.key_averages() if row.key == "aten::mm"]
profiler.export_chrome_trace(sys.argv[1])
calls = [event for event in json.load(open(sys.argv[1]))["traceEvents"] if event.get("name") == "aten::mm"]
types = list(dict.fromkeys(" ".join(call["args"]["Input type"]) for call in calls))
print(f"calls of aten::mm: {row.count} for {PRODUCTS} products")
print(f"FLOP: {row.flops} for {PRODUCTS * 2 * SIZE**3}")
print("inputs:", ", ".join(types))
if (row.count, row.flops) != (2 * PRODUCTS, 2 * PRODUCTS * 2 * SIZE**3):
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder/trace.json"
