#!/usr/bin/env bash
# Of several jax.profiler sessions that start within a second, only the last one is left.
#
# One would guess: each `with jax.profiler.trace(folder)` leaves a session of its own below folder/plugins/profile, as the viewer
# offers several to choose from.
# What happens: a session's folder is named by the time in whole seconds and its file by the host. A session that starts in the same
# second writes the same path again, without a word: eight short sessions leave one or two files.
# Versions: jax 0.10.2 (CPU), Python 3.11.
# Why it matters: who records one short session for each step, or for each of several functions in turn, finds a part of them and
# cannot see that others are missing; the one left is named like the first.
# Output seen (the number of files depends on the clock, and is below eight):
#     sessions recorded: 8
#     sessions on disk: 1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

SESSIONS = 8
multiply = jax.jit(lambda matrix: matrix @ matrix)
matrix = jnp.ones((64, 64))
multiply(matrix).block_until_ready()
for _ in range(SESSIONS):
    with jax.profiler.trace(sys.argv[1]):
        multiply(matrix).block_until_ready()
left = list(Path(sys.argv[1]).rglob("*.xplane.pb"))
print(f"sessions recorded: {SESSIONS}")
print(f"sessions on disk: {len(left)}")
if len(left) >= SESSIONS:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" "$folder/log"
