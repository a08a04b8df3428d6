#!/usr/bin/env bash
# HTA's overlay of the critical path, by default, is a trace from which most GPU work was removed, and looks like a recording.
#
# One would guess: the file that shows the critical path in a viewer is the trace with marks on it.
# What happens: overlay_critical_path_analysis keeps by default only operators, calls and GPU work that lie on the path. The arrows
# from calls to GPU work stay, also those to work that is gone, and nothing in the header says what the file is. Here the kernels of
# a second stream, which run beside those of the first, are no part of it.
# Versions: HolisticTraceAnalysis 0.5.0, pandas 2.3.3, Python 3.11.
# Why it matters: the file is shared as "the trace with the critical path", and any tool that reads it counts the removed work as time
# in which the GPU is idle. Arrows that end on a stream where nothing is are what gives it away.
# Output seen:
#     trace: 8 kernels, 8 arrows
#     overlay: 4 kernels, 8 arrows
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet HolisticTraceAnalysis==0.5.0 pandas==2.3.3
cat > "$folder/try.py" <<'PY'
import gzip
import json
import logging
import sys
from pathlib import Path

from hta.trace_analysis import TraceAnalysis

logging.disable(logging.WARNING)
CALLS, CALL_US, LONG_US, SHORT_US = 8, 20, 100, 10
folder = Path(sys.argv[1])
folder.mkdir()
host, step_us = {"pid": 100, "tid": 100}, 1_000
events = []
for number in range(CALLS):
    is_short = number % 2
    at_us = 1_000 + number * CALL_US
    start_us = 1_050 + (number // 2) * LONG_US + is_short
    stream, length_us = (9, SHORT_US) if is_short else (7, LONG_US)
    ids = {"correlation": number + 1, "External id": number + 1}
    events += [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", **host, "ts": at_us, "dur": CALL_US - 2, "args": {"External id": number + 1}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **host, "ts": at_us + 2, "dur": 5, "args": ids},
        {"ph": "s", "id": number + 1, "cat": "ac2g", "name": "ac2g", **host, "ts": at_us + 2},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": stream, "ts": start_us, "dur": length_us,
         "args": {**ids, "device": 0, "stream": stream}},
        {"ph": "f", "id": number + 1, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": stream, "ts": start_us, "bp": "e"},
    ]
wait_us = 1_000 + CALLS * CALL_US
ids = {"correlation": CALLS + 1, "External id": CALLS + 1}
events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", **host, "ts": wait_us, "dur": 1_050 + 400 - wait_us,
               "args": ids})
events.append({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", **host, "ts": 999, "dur": step_us, "args": {}})
document = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": events}
(folder / "rank0.json").write_text(json.dumps(document))
analysis = TraceAnalysis(trace_dir=str(folder))
graph, _ = analysis.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=0)
overlay = analysis.overlay_critical_path_analysis(0, graph, output_dir=str(folder / "overlay"))
shown = json.loads(gzip.decompress(Path(overlay).read_bytes()))["traceEvents"]


def counts(rows):
    return (
        sum(row.get("cat") == "kernel" for row in rows),
        sum(row.get("cat") == "ac2g" and row["ph"] == "f" for row in rows),
    )


for name, rows in (("trace", events), ("overlay", shown)):
    print("{}: {} kernels, {} arrows".format(name, *counts(rows)))
if counts(shown) != (CALLS // 2, CALLS):
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder/run"
