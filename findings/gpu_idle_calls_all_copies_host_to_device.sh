#!/usr/bin/env bash
# gpu-idle calls copies inside the device, and copies back to the host, host-to-device copies.
#
# One would guess: the cause "h2d_copy" rests on copies from the host to the device. Kineto writes the direction of each copy into its
# name, "Memcpy DtoD (Device -> Device)", and all of them have the category gpu_memcpy.
# What happens: the durations of the whole category are added up. Steps of 1,000 µs with 200 µs of copies inside the device and no
# other copy have "20% of the step is host-to-device copying", and the advice is pinned memory for the data loader.
# Versions: gpu-idle 0.1.0, Python 3.11.
# Why it matters: copies inside the device come from contiguous(), clone() and buckets of gradients, copies to the host from checkpoints
# and logged values. Pinned memory in the loader changes none of them, and what causes the copies is not looked for.
# Output seen:
#     DtoD: trace: 200 us of copies in each step of 1000 us, 0 of them from the host
#     DtoD: gpu-idle: 20% of the step is host-to-device copying (1 ms total).
#     DtoH: trace: 200 us of copies in each step of 1000 us, 0 of them from the host
#     DtoH: gpu-idle: 20% of the step is host-to-device copying (1 ms total).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gpu-idle==0.1.0
cat > "$folder/try.py" <<'PY'
import json
import sys
from pathlib import Path

from analyzer import analyze

STEPS, STEP_US, KERNEL_US, COPY_US = 5, 1000, 600, 200


def timed(category, name, start_us, length_us, thread, **args):
    return {"ph": "X", "cat": category, "name": name, "ts": start_us, "dur": length_us, "pid": 0, "tid": thread, "args": args}


def trace(copy):
    for step in range(STEPS):
        start_us = 10_000 + step * STEP_US
        yield timed("user_annotation", f"ProfilerStep#{step}", start_us, STEP_US, 10)
        for number, (category, name, after_us, length_us) in enumerate(
            [("gpu_memcpy", copy, 10, COPY_US), ("kernel", "gemm", 10 + COPY_US, KERNEL_US)]
        ):
            call = 2 * step + number + 1
            launch = "cudaLaunchKernel" if category == "kernel" else "cudaMemcpyAsync"
            yield timed("cuda_runtime", launch, start_us + number, 1, 10, correlation=call)
            yield timed(category, name, start_us + after_us, length_us, 7, device=0, stream=7, correlation=call)


for copy in ("Memcpy DtoD (Device -> Device)", "Memcpy DtoH (Device -> Pinned)"):
    direction = copy.split()[1]
    path = Path(sys.argv[1]) / f"{direction}.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(trace(copy))}))
    copies = [event for event in json.loads(path.read_text())["traceEvents"] if event["cat"] == "gpu_memcpy"]
    total_us, from_host = sum(event["dur"] for event in copies), sum("HtoD" in event["name"] for event in copies)
    print(f"{direction}: trace: {total_us // STEPS} us of copies in each step of {STEP_US} us, {from_host} of them from the host")
    found = {finding["cause"]: finding["evidence"] for finding in analyze(path)["findings"]}
    print(f"{direction}: gpu-idle: {found.get('h2d_copy')}")
    if "host-to-device" not in found.get("h2d_copy", ""):
        sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder"
