#!/usr/bin/env bash
# PyTorch's execution trace gives the ids of freed tensors to others, so that operators that need nothing of each other form a chain.
#
# One would guess: in an execution trace (ExecutionTraceObserver, Chakra's host schema) each tensor has an id of its own, so that an
# operator depends on the last one that wrote a tensor with the id of one of its inputs.
# What happens: ids stand for places in memory. A Python number becomes a tensor that no operator writes; it takes the place, and with
# it the id, of the result that was freed just before. Five sums of one tensor and a number each then seem to wait for each other. The
# second number of a tensor, the id of its storage, tells these apart.
# Versions: torch 2.13.0 (CPU), Python 3.11.
# Why it matters: replays, simulators and searches for the critical path build their graphs of these ids. They find a serial program
# where all could run at once, and nothing in the file says that an edge is none.
# Output seen:
#     5 operators, none of which reads what another one wrote
#     edges by the ids of tensors: 4
#     edges by the ids of tensors and storages: 0
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
from torch.profiler import ExecutionTraceObserver

file = Path(sys.argv[1], "trace.json")
values = torch.ones(1024)
observer = ExecutionTraceObserver().register_callback(str(file))
observer.start()
for number in range(5):
    result = values + number
    del result
observer.stop()
observer.unregister_callback()

sums = [node for node in json.loads(file.read_text())["nodes"] if node["name"] == "aten::add"]


def tensors(node, side):
    return [tensor for tensor in node[side]["values"] if isinstance(tensor, list)]


def edges(numbers):
    """Count the reads of what another sum wrote last, tensors being told apart by so many of their numbers."""
    writers, count = {}, 0
    for node in sums:
        count += sum(tuple(tensor[:numbers]) in writers for tensor in tensors(node, "inputs"))
        writers |= {tuple(tensor[:numbers]): node["id"] for tensor in tensors(node, "outputs")}
    return count


print(f"{len(sums)} operators, none of which reads what another one wrote")
print(f"edges by the ids of tensors: {edges(1)}")
print(f"edges by the ids of tensors and storages: {edges(2)}")
sys.exit(0 if len(sums) == 5 and edges(1) == 4 and edges(2) == 0 else "the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder" 2> /dev/null
