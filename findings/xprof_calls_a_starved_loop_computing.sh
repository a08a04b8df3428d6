#!/usr/bin/env bash
# xprof says of a training loop that waits 95 % of each step for its batch that it is not input-bound.
#
# One would guess: the input pipeline analyzer, which has an answer for this question alone, sees a loop whose steps are marked with
# StepTraceAnnotation and whose loading is marked with TraceAnnotation("load_batch").
# What happens: it finds the steps, and books the whole wait as host compute time. Its conclusion is that 0.0 % of the step time waits
# for input, and its advice is to skip the rest of the page. Without an infeed, or the operations of tf.data, nothing counts as
# input: what a JAX program does on the host between its steps is "compute", asleep or not.
# Versions: jax 0.10.2 (CPU), xprof 2.24.2, Python 3.11.
# Why it matters: most JAX programs load with Python, so that the commonest cause of an idle accelerator is the one that is ruled out.
# Who reads such a profile has to look at the host's line of each step themselves, or with a tool that does.
# Output seen (the times vary a little):
#     step 42.0 ms, of which the host computes 41.9 ms; asleep in load_batch: 40 ms of each
#     Your program is NOT input-bound because only 0.0% of the total step time sampled is waiting for input. Therefore, you should
#     focus on reducing other time.
#     You may skip the rest of this page.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 xprof==2.24.2
cat > "$folder/try.py" <<'PY'
import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
from xprof.convert import raw_to_tool_data

WAIT_MS, STEPS = 40, 12
step = jax.jit(lambda batch: jnp.tanh(batch @ batch).sum())
batch = jnp.ones((256, 256))
step(batch).block_until_ready()  # compiled before the profile begins
folder = Path(sys.argv[1])
jax.profiler.start_trace(folder)
for number in range(STEPS):
    with jax.profiler.StepTraceAnnotation("train", step_num=number):
        with jax.profiler.TraceAnnotation("load_batch"):
            time.sleep(WAIT_MS / 1000)
        step(batch).block_until_ready()
jax.profiler.stop_trace()

profiles = [str(path) for path in folder.rglob("*.xplane.pb")]
answer, _ = raw_to_tool_data.xspace_to_tool_data(profiles, "input_pipeline_analyzer", {})
found = next(table["p"] for table in json.loads(answer) if "input_conclusion" in table.get("p", {}))
step_ms, compute_ms = float(found["steptime_ms_average"]), float(found["host_compute_time_ms_avg"])
print(f"step {step_ms} ms, of which the host computes {compute_ms} ms; asleep in load_batch: {WAIT_MS} ms of each")
print(found["input_conclusion"])
print(found["summary_nextstep"])
if "NOT input-bound" not in found["input_conclusion"] or compute_ms < 0.9 * step_ms:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder/profile" 2> /dev/null
