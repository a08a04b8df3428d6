#!/usr/bin/env bash
# The TensorBoard plugin's average step is shorter than every step of the program.
#
# One would guess: a program whose six steps take 1,000 µs each has an average step time of 1,000 µs in the plugin's overview.
# What happens: 650 µs. For each step Kineto also writes a copy on the GPU's row, which spans only the step's kernels (category
# gpu_user_annotation). The plugin takes the copy for one more step, so the mean is that of steps and of their GPU parts; 300 µs of
# kernels become 46 % of a step instead of 30 %. Calls of the CUDA runtime (category cuda_runtime) are not known to it: Runtime is 0.
# Versions: torch-tb-profiler 0.4.3 (the last one), pandas 2.3.3, Python 3.11; the layout of traces since PyTorch 1.12.
# Why it matters: the share of kernels is too high and the wait of the GPU too short, the more so the less of a step the GPU works:
# the programs that wait most look best.
# Output seen:
#     trace: 6 steps of 1000 us, 300 us of kernels and 60 us of launches in each
#     plugin: 12 steps, on average 650 us, kernels 46.15 %, runtime 0 us
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch-tb-profiler==0.4.3 pandas==2.3.3
cat > "$folder/try.py" <<'PY'
import json
import logging
import sys
from pathlib import Path

STEPS, STEP_US, KERNELS, KERNEL_US, LAUNCH_US = 6, 1000, 3, 100, 20


def timed(category, name, row, start_us, length_us, **args):
    event = {"ph": "X", "cat": category, "name": name, "ts": start_us, "dur": length_us, "args": args}
    return {**event, **dict(zip(("pid", "tid"), row, strict=True))}


def trace():
    thread, stream = (10, 10), (0, 7)
    for step in range(STEPS):
        start_us = 1000 + step * STEP_US
        name, link = f"ProfilerStep#{step}", {"External id": 1000 + step}
        yield timed("user_annotation", name, thread, start_us, STEP_US, **link)
        yield timed("gpu_user_annotation", name, stream, start_us + 110, KERNELS * KERNEL_US, **link)
        for number in range(KERNELS):
            call = step * KERNELS + number + 1
            link = {"External id": call}
            at_us = start_us + number * KERNEL_US
            yield timed("cpu_op", "aten::mm", thread, at_us + 10, 50, **link)
            yield timed("cuda_runtime", "cudaLaunchKernel", thread, at_us + 20, LAUNCH_US, **link, correlation=call)
            kernel = {"device": 0, "stream": 7, "correlation": call, "grid": [1, 1, 1], "block": [1, 1, 1]}
            yield timed("kernel", "gemm", stream, at_us + 110, KERNEL_US, **link, **kernel)


if __name__ == "__main__":
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler.loader import RunLoader

    logging.disable(logging.WARNING)
    folder = Path(sys.argv[1])
    content = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": list(trace())}
    (folder / "worker0.1.pt.trace.json").write_text(json.dumps(content))
    launches_us = KERNELS * LAUNCH_US
    print(f"trace: {STEPS} steps of {STEP_US} us, {KERNELS * KERNEL_US} us of kernels and {launches_us} us of launches in each")
    (profile,) = RunLoader("run", str(folder), io.Cache()).load().profiles.values()
    average, steps = profile.overview["performance"][0], len(profile.overview["steps"]["rows"])
    parts = {part["name"]: part for part in average["children"]}
    share, runtime_us = parts["Kernel"]["extra"], parts["Runtime"]["value"]
    print(f"plugin: {steps} steps, on average {average['value']} us, kernels {share} %, runtime {runtime_us} us")
    if steps != 2 * STEPS or average["value"] >= STEP_US or runtime_us != 0:
        sys.exit("the behaviour changed")
PY
mkdir "$folder/run"
"$folder/venv/bin/python" -W ignore::FutureWarning "$folder/try.py" "$folder/run"
