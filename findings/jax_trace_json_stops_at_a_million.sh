#!/usr/bin/env bash
# The trace.json.gz that JAX writes beside its profile holds at most 1,000,000 events, and does not say what it leaves out.
#
# One would guess: the two files of a session, NAME.xplane.pb and NAME.trace.json.gz, hold the same events; or the smaller one says
# that it was cut.
# What happens: of 1,100,000 recorded calls of one Python function the profile has all. The JSON has 1,000,000 timed events, about
# 100,000 calls fewer, is closed properly, and nothing in it, nor a warning, names the limit.
# Versions: jax 0.10.2 (CPU), Python 3.11.
# Why it matters: the JSON is what opens in Perfetto and what most scripts read. With Python frames a few seconds of a loop reach the
# limit; sums over the file are then too small, and a hole in its timeline looks like idle time.
# Output seen (the number of calls in the JSON varies by the few other events that it holds):
#     recorded 1100000 calls; in the profile: 1100000; in the JSON: 999995, of 1000000 timed events
#     what the JSON says besides its events: displayTimeUnit, metadata
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2
cat > "$folder/try.py" <<'PY'
import gzip
import json
import sys
from pathlib import Path

import jax
from jax.profiler import ProfileData

CALLS = 1_100_000


def load() -> None:
    pass


folder = Path(sys.argv[1])
jax.profiler.start_trace(folder)
for _ in range(CALLS):
    load()
jax.profiler.stop_trace()

(profile,) = folder.rglob("*.xplane.pb")
planes = ProfileData.from_file(str(profile)).planes
whole = sum(event.name.endswith(" load") for plane in planes for line in plane.lines for event in line.events)
(exported,) = folder.rglob("*.trace.json.gz")
document = json.loads(gzip.decompress(exported.read_bytes()))
timed = [event for event in document["traceEvents"] if event.get("ph") == "X"]
left = sum(event["name"].endswith(" load") for event in timed)
print(f"recorded {CALLS} calls; in the profile: {whole}; in the JSON: {left}, of {len(timed)} timed events")
print("what the JSON says besides its events:", ", ".join(sorted(document.keys() - {"traceEvents"})))
if not (whole == CALLS and len(timed) == 1_000_000 and left < CALLS):
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder/profile"
