#!/usr/bin/env bash
# Holistic Trace Analysis reads a long trace with pandas 3, and fails on a short one.
#
# One would guess: what reads a trace of a thousand launches reads one of seventy; and what pip installs together works together.
# What happens: HTA gives each column the smallest integers that hold it. In a short trace the correlation ids, and a column made of
# them, fit into 8 bits; HTA then writes numbers of rows into that column, which do not. pandas 2 made the column wider with a
# warning, pandas 3 raises TypeError. HTA sets no upper limit for pandas, so a fresh installation has 3.
# Versions: HolisticTraceAnalysis 0.5.0 with pandas 3.1.1, and with 2.3.3, Python 3.11.
# Why it matters: the first trace that one tries a tool on is a short one, and the traceback says "Invalid value" and "int8": it
# reads as if the recording were damaged. Pin pandas below 3.
# Output seen:
#     pandas 3.1.1: 1000 launches: idle 999 us; 70 launches: TypeError for dtype 'int8'
#     pandas 2.3.3: 1000 launches: idle 999 us; 70 launches: idle 69 us
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/try.py" <<'PY'
import json
import logging
import sys
from pathlib import Path

import pandas
from hta.trace_analysis import TraceAnalysis

logging.disable(logging.WARNING)


def recording(launches):
    for number in range(1, launches + 1):
        link = {"correlation": number}
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 10, "tid": 10, "dur": 1, "args": link}
        kernel = {"cat": "kernel", "name": "add", "pid": 0, "tid": 7, "dur": 1}
        yield {"ph": "X", "ts": 1000 + 2 * number - 50, **launch}
        yield {"ph": "X", "ts": 1000 + 2 * number, **kernel, "args": {"device": 0, "stream": 7, **link}}


def answer(launches):
    path = Path(sys.argv[1]) / f"{launches}.json"
    content = {"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": list(recording(launches))}
    path.write_text(json.dumps(content))
    try:
        row = TraceAnalysis(trace_files={0: str(path)}).get_temporal_breakdown(visualize=False).iloc[0]
    except TypeError as error:
        return f"TypeError for {str(error).rpartition(' for ')[2]}"
    return f"idle {row['idle_time(us)']:.0f} us"


answers = [answer(1000), answer(70)]
print(f"pandas {pandas.__version__}: 1000 launches: {answers[0]}; 70 launches: {answers[1]}")
if (answers[1].startswith("TypeError")) != (pandas.__version__ >= "3") or answers[0].startswith("TypeError"):
    sys.exit("the behaviour changed")
PY
for pandas in 3.1.1 2.3.3; do
    python3.11 -m venv "$folder/$pandas"
    "$folder/$pandas/bin/pip" install --quiet HolisticTraceAnalysis==0.5.0 "pandas==$pandas"
    "$folder/$pandas/bin/python" -W ignore::FutureWarning "$folder/try.py" "$folder"
done
