#!/usr/bin/env bash
# The FLOPs that JAX gives for a compiled function count the body of a loop once, however often the loop runs it.
#
# One would guess: compiled.cost_analysis()["flops"] is the work of a call, and a lax.scan over twelve layers, whose length is in the
# program, has the FLOPs of the same twelve layers written one after the other.
# What happens: XLA's cost analysis adds up the instructions as they are written, and a loop is one instruction with one body. Twelve
# products by scan or fori_loop count as one, and a few additions of the loop's counter. No key of the answer says that a loop was
# in the program.
# Versions: jax 0.10.2 (CPU), Python 3.11.
# Why it matters: large models scan over their layers to compile faster, and steps that accumulate gradients scan over parts of a batch.
# A model FLOP utilisation from this number, divided by the step time of a profile, is too small by the number of layers or parts.
# "bytes accessed" of the same answer shrinks too, by another factor, so that both axes of a roofline are wrong.
# Output seen:
#     12 products of 64 x 64 x 64: 6291456 FLOP
#     one after the other: 6291456 FLOP
#     lax.scan: 524290 FLOP
#     lax.fori_loop: 524293 FLOP
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2
cat > "$folder/try.py" <<'PY'
import sys

import jax
import jax.numpy as jnp

LAYERS, SIZE = 12, 64
batch, weights = jnp.ones((SIZE, SIZE)), jnp.ones((LAYERS, SIZE, SIZE))


def written_out(batch, weights):
    for layer in range(LAYERS):
        batch = batch @ weights[layer]
    return batch


def scanned(batch, weights):
    return jax.lax.scan(lambda carry, weight: (carry @ weight, None), batch, weights)[0]


def counted(batch, weights):
    return jax.lax.fori_loop(0, LAYERS, lambda layer, carry: carry @ weights[layer], batch)


def flops(function):
    return int(jax.jit(function).lower(batch, weights).compile().cost_analysis()["flops"])


product = 2 * SIZE**3
print(f"{LAYERS} products of {SIZE} x {SIZE} x {SIZE}: {LAYERS * product} FLOP")
found = {"one after the other": flops(written_out), "lax.scan": flops(scanned), "lax.fori_loop": flops(counted)}
for form, number in found.items():
    print(f"{form}: {number} FLOP")
if found.pop("one after the other") != LAYERS * product or max(found.values()) > 1.1 * product:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py"
