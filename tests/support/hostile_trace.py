"""A trace of somebody who wants the report to run a script: hostile names wherever a trace has names."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

NAMES = (
    "</script><script>window.stolen=1</script>",
    "<!--<script>window.stolen=1",
    '"><img src=x onerror="window.stolen=1">',
    "</title><svg onload=window.stolen=1>",
    "right\u202eto left\u2066",
    "nul\x00and\x1b[31mred\u2028line",
    "half \ud83d of a pair",
    "fire 🔥 {{ 7*7 }} {% raw %}",
    "javascript:window.stolen=1",
    "&lt;b&gt; &amp; 'quoted' \"twice\"",
    "long" * 2_500,
)
SECRET = "hf_abcdefghijklmnopqrstuvwxyz0123"
STEP_US = 20_000


def write_hostile_trace(path: Path, *, kernels: int = 30) -> Path:
    """Write a PyTorch trace of five steps that wait for the loader, with `kernels` kernels each."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": NAMES[0]}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": NAMES[1]}},
    ]
    correlation = 0
    for step in range(6):
        start = 1_000 + step * STEP_US
        events += [_slice("user_annotation", f"ProfilerStep#{step}", start, STEP_US, 1)]
        events += [
            _slice("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start, 15_000, 1)
        ]
        events += [_slice("python_function", f"{NAMES[2]}(1): {NAMES[3]}", start + 10, 14_900, 1)]
        for at in range(kernels):
            correlation += 1
            name = NAMES[correlation % len(NAMES)]
            begin = start + 15_100 + at * 100
            events += [_slice("cpu_op", name, begin, 60, 1, {"Input Dims": [[name]]})]
            events += [_slice("cuda_runtime", "cudaLaunchKernel", begin + 10, 20, 1, {"correlation": correlation})]
            place = {"correlation": correlation, "device": 0, "stream": 7}
            events += [{**_slice("kernel", f"{name}{correlation}", begin + 40, 70, 7, place), "pid": 0}]
    document = {
        "deviceProperties": [{"id": 0, "name": NAMES[2], "totalGlobalMem": 80 * 10**9, "numSms": 132}],
        "HF_TOKEN": SECRET,
        "command": f"train.py --token {SECRET}",
        "traceEvents": events,
    }
    path.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    return path


def _slice(
    category: str, name: str, start: float, dur: float, tid: int, args: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": dur, "pid": 1, "tid": tid, "args": args or {}}
