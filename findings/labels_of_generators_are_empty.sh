#!/usr/bin/env bash
# record_function as a decorator labels the making of a generator or a coroutine, and none of its work.
#
# One would guess: @record_function("load") above a function that yields batches, or above an async function, labels the time in which
# its code runs, as it does for a plain function.
# What happens: calling such a function only makes an object, and the label ends when the call returns. Five batches that take 20 ms each
# are under no label; the range is there, once, and lasts some microseconds. jax.profiler.annotate_function does the same.
# Versions: torch 2.13.0 (CPU), Python 3.11.
# Why it matters: loaders are generators and servers are coroutines. A table of annotations says that loading took no time, which is the
# answer that one had hoped for, and the time shows up as a gap between other labels. A with block inside the loop is recorded right.
# Output seen (the times vary a little):
#     plain: 5 ranges, 123.6 ms in all, of 100 ms
#     generator: 1 range, 0.1 ms in all, of 100 ms
#     coroutine: 1 range, 0.1 ms in all, of 100 ms
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import asyncio
import json
import sys
import time

from torch.profiler import ProfilerActivity, profile, record_function

BATCHES, WAIT_MS = 5, 20


@record_function("plain")
def plain():
    time.sleep(WAIT_MS / 1000)


@record_function("generator")
def generator():
    for number in range(BATCHES):
        time.sleep(WAIT_MS / 1000)
        yield number


@record_function("coroutine")
async def coroutine():
    for _ in range(BATCHES):
        await asyncio.sleep(WAIT_MS / 1000)


with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for _ in range(BATCHES):
        plain()
    assert list(generator()) == list(range(BATCHES))
    asyncio.run(coroutine())
profiler.export_chrome_trace(sys.argv[1])
events = json.load(open(sys.argv[1]))["traceEvents"]
total_ms = {}
for name in ("plain", "generator", "coroutine"):
    lengths = [event["dur"] for event in events if event.get("cat") == "user_annotation" and event["name"] == name]
    total_ms[name] = sum(lengths) / 1000
    ranges = "1 range" if len(lengths) == 1 else f"{len(lengths)} ranges"
    print(f"{name}: {ranges}, {total_ms[name]:.1f} ms in all, of {BATCHES * WAIT_MS} ms")
if total_ms["plain"] < BATCHES * WAIT_MS or max(total_ms["generator"], total_ms["coroutine"]) > WAIT_MS:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder/trace.json" 2> /dev/null
