#!/usr/bin/env bash
# In ONNX Runtime's profile, the work inside Loop and If counts twice in a sum over operators.
#
# One would guess: the events NAME_kernel_time of category Node divide a run among its operators, so that they add up to no more than
# model_run, and a table of op_name and dur says what to make faster.
# What happens: the node of a Loop lasts as long as its whole body, and each node of the body is an event of the same category beside
# it. A model that is one Loop around one MatMul has nodes of twice the time of the run. No argument of an event names the node
# around it; only the times, one inside the other, show it.
# Versions: onnxruntime 1.32.0 (CPU), onnx 1.23.2, numpy 2.4.6, Python 3.11.
# Why it matters: decoders with a loop, as exported for speech and text generation, show Loop as the hottest operator, and each other
# operator with half of its share. Own times need the nesting, as in other traces of calls.
# Output seen (the times vary a little):
#     model_run: 22215 us; nodes: 43851 us, 197 % of it
#     Identity: 20×, 64 us; Loop: 1×, 22191 us; MatMul: 20×, 21596 us
#     arguments that name the node around: none
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
cat > "$folder/try.py" <<'PY'
import json
import sys
from collections import Counter

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

SIZE, TRIPS = 256, 20


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


matrix = (TensorProto.FLOAT, [SIZE, SIZE])
body = helper.make_graph(
    [helper.make_node("MatMul", ["carried", "carried"], ["next"]), helper.make_node("Identity", ["going"], ["goes"])],
    "body",
    [value("trip", TensorProto.INT64, []), value("going", TensorProto.BOOL, []), value("carried", *matrix)],
    [value("goes", TensorProto.BOOL, []), value("next", *matrix)],
)
loop = helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)
trips = helper.make_tensor("trips", TensorProto.INT64, [], [TRIPS])
graph = helper.make_graph([loop], "graph", [value("x", *matrix)], [value("y", *matrix)], [trips])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
options = ort.SessionOptions()
options.enable_profiling, options.intra_op_num_threads = True, 1
options.profile_file_prefix, options.log_severity_level = f"{sys.argv[1]}/profile", 3
session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
session.run(None, {"x": np.zeros((SIZE, SIZE), np.float32)})
events = json.load(open(session.end_profiling()))

run_us = sum(event["dur"] for event in events if event["name"] == "model_run")
nodes = [event for event in events if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")]
calls, time_us = Counter(), Counter()
for node in nodes:
    calls[node["args"]["op_name"]] += 1
    time_us[node["args"]["op_name"]] += node["dur"]
nodes_us = sum(time_us.values())
print(f"model_run: {run_us} us; nodes: {nodes_us} us, {100 * nodes_us / run_us:.0f} % of it")
print("; ".join(f"{name}: {calls[name]}×, {time_us[name]} us" for name in sorted(calls)))
parents = sorted({key for node in nodes for key in node["args"] if "parent" in key or "outer" in key})
print(f"arguments that name the node around: {', '.join(parents) or 'none'}")
if nodes_us < 1.5 * run_us or parents:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder"
