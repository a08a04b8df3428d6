#!/usr/bin/env bash
# HTA takes traces for rank 0 when their JSON has no space after the colons, and keeps one of them.
#
# One would guess: {"rank":3} and {"rank": 3} are the same to a program that reads JSON; or that traces of one rank are refused.
# What happens: HTA looks for the rank by a regular expression, line by line, that wants white space after the colon. A trace without it
# is of rank 0, with a warning in the log, and so is the next one, which takes its place. Of four ranks one row is left, named
# rank 0, and which trace it comes from depends on the order of the files.
# Versions: HolisticTraceAnalysis 0.5.0, pandas 2.3.3, Python 3.11.
# Why it matters: jq -c, orjson, JSON.stringify and json.dumps with separators=(",", ":") write such files; a trace that was cut, cleaned
# of names or merged has passed through one of them. The imbalance between ranks is gone, and the row that is left says rank 0.
# Output seen:
#     with spaces: compute of rank 0 100 us, rank 1 200 us, rank 2 300 us, rank 3 400 us
#     compact: compute of rank 0 400 us
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet HolisticTraceAnalysis==0.5.0 pandas==2.3.3
cat > "$folder/try.py" <<'PY'
import json
import logging
import sys
from pathlib import Path

from hta.trace_analysis import TraceAnalysis

logging.disable(logging.WARNING)
RANKS, KERNELS, EVERY_US = 4, 5, 100


def trace_of(rank):
    events = []
    for number in range(KERNELS):
        start_us, ids = 1_000 + number * EVERY_US, {"correlation": number + 1, "External id": number + 1}
        call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 100, "ts": start_us - 5, "dur": 2, "args": ids}
        work = {"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": start_us, "dur": 20 * (rank + 1)}
        work["args"] = {**ids, "device": 0, "stream": 7}
        events += [{"ph": "X", **call}, {"ph": "X", **work}]
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": RANKS}, "traceEvents": events}


ranks_found = []
for name, separators in (("with spaces", (", ", ": ")), ("compact", (",", ":"))):
    folder = Path(sys.argv[1]) / name
    folder.mkdir(parents=True)
    for rank in range(RANKS):
        (folder / f"rank{rank}.json").write_text(json.dumps(trace_of(rank), separators=separators))
    rows = TraceAnalysis(trace_dir=str(folder)).get_temporal_breakdown(visualize=False).to_dict("records")
    print(f"{name}: compute of", ", ".join(f"rank {row['rank']} {row['compute_time(us)']} us" for row in rows))
    ranks_found.append([row["rank"] for row in rows])
if ranks_found != [[0, 1, 2, 3], [0]]:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder/runs"
