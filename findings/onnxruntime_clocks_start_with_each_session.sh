#!/usr/bin/env bash
# Profiles of two ONNX Runtime sessions of one process have clocks that begin at 0 each, and no file says when that was.
#
# One would guess: a pipeline of several models (encoder and decoder, detector and recogniser) has one session a model; their profiles
# are of one process, with its pid in each event, so that the events of all files lie on one timeline.
# What happens: `ts` counts from the creation of the session. Two sessions that are made 2 s apart and run one after the other have
# their runs 2 s apart in the files, in the wrong order. No event and no other record of a file says when its 0 was. The instant is in
# the name of the file, to the millisecond and in local time, and in the program, from get_profiling_start_time_ns().
# Versions: onnxruntime 1.32.0 (CPU), onnx 1.23.2, numpy 2.4.6, Python 3.11.
# Why it matters: files that are merged, or loaded together into a viewer, show runs beside each other that never overlapped, and gaps
# that were none. Whoever renames a file loses the only mark. One profile a session can be placed beside a trace of another profiler
# only if the program wrote get_profiling_start_time_ns() down.
# Output seen (the times vary a little):
#     in the program: the second session ran after the first one
#     in the files: model_run of the first session at 2.031 s, of the second at 0.020 s
#     the clocks began 2.030 s apart (get_profiling_start_time_ns)
#     records that say when a clock began: none
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat > "$folder/try.py" <<'PY'
import json
import sys
import time

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper


def value(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64])


graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "graph", [value("x")], [value("y")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


def session(name):
    options = ort.SessionOptions()
    options.enable_profiling, options.log_severity_level = True, 3
    options.profile_file_prefix = f"{sys.argv[1]}/{name}"
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


given = {"x": np.ones((64, 64), np.float32)}
first = session("first")
time.sleep(2)
second = session("second")
first.run(None, given)
second.run(None, given)
print("in the program: the second session ran after the first one")
began_ns = [one.get_profiling_start_time_ns() for one in (first, second)]
files = [json.load(open(one.end_profiling())) for one in (first, second)]
runs_us = [next(event["ts"] for event in events if event["name"] == "model_run") for events in files]
print(f"in the files: model_run of the first session at {runs_us[0] / 1e6:.3f} s, of the second at {runs_us[1] / 1e6:.3f} s")
apart_s = (began_ns[1] - began_ns[0]) / 1e9
print(f"the clocks began {apart_s:.3f} s apart (get_profiling_start_time_ns)")
an_hour_ago_s = time.time() - 3600


def dates(content):
    """Yield the numbers of a file that may be an instant of the last hour, in seconds to nanoseconds since 1970."""
    if isinstance(content, dict | list):
        for one in content.values() if isinstance(content, dict) else content:
            yield from dates(one)
    elif str(content).isdigit() and any(0 <= int(content) / unit - an_hour_ago_s < 7200 for unit in (1, 1e3, 1e6, 1e9)):
        yield content


found = [*dates(files)]
print(f"records that say when a clock began: {found or 'none'}")
if found or runs_us[0] - runs_us[1] < 1_000_000 or apart_s < 1:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder"
