#!/usr/bin/env bash
# Annotating the kernels of a CUDA graph puts all of them onto two streams, and the stream that each ran on is lost.
#
# One would guess: PyTorch's script that writes names into a trace (python -m torch.cuda._annotate_cuda_graph_trace) adds names, and
# leaves alone what has none.
# What happens: each kernel with a graph node id gets the stream of its annotation, or stream 7, in "tid" and in args["stream"]; one
# that overlaps the one before it there goes to stream 8. Kernels of three streams that ran at once are then on two of them, where
# two overlap on one stream. No key keeps the old numbers.
# Versions: torch 2.13.0 (CPU), Python 3.11. Later exporters keep it as args["original_stream"].
# Why it matters: a stream runs its work in order, so a tool that derives waits, or overlap of communication with computation,
# from the streams of such a file finds kernels that wait for each other where none did.
# Output seen:
#     before: gemm on stream 7, all_reduce on stream 21, all_gather on stream 22
#     after: gemm on stream 7, all_reduce on stream 8, all_gather on stream 8
#     the last two overlap for 35 us
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import json
import pickle
import subprocess
import sys
from pathlib import Path

folder = Path(sys.argv[1])


def kernel(name, stream, start_us, node):
    work = {"device": 0, "context": 1, "stream": stream, "correlation": 3, "graph id": 5, "graph node id": node}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start_us, "dur": 40.0, "args": work}


def streams(trace):
    kernels = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    return kernels, ", ".join(f"{event['name']} on stream {event['args']['stream']}" for event in kernels)


events = [kernel("gemm", 7, 100.0, 101), kernel("all_reduce", 21, 110.0, 102), kernel("all_gather", 22, 115.0, 103)]
trace = {"schemaVersion": 1, "traceEvents": events}
(folder / "trace.json").write_text(json.dumps(trace))
(folder / "names.pkl").write_bytes(pickle.dumps({101: [{"name": "layer 1"}]}))
command = [sys.executable, "-m", "torch.cuda._annotate_cuda_graph_trace", folder / "trace.json"]
subprocess.run([*command, "-a", folder / "names.pkl", "-o", folder / "named.json"], check=True, stdout=subprocess.DEVNULL)
print("before:", streams(trace)[1])
kernels, after = streams(json.loads((folder / "named.json").read_text()))
print("after:", after)
second, third = kernels[1:]
overlap_us = second["ts"] + second["dur"] - third["ts"]
print(f"the last two overlap for {overlap_us:.0f} us")
if [event["args"]["stream"] for event in kernels] != [7, 8, 8] or overlap_us <= 0:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder"
