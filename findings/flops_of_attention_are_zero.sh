#!/usr/bin/env bash
# The profiler's FLOPs leave out attention, LSTMs and one-dimensional and transposed convolutions, and call them 0.
#
# One would guess: profile(with_flops=True) estimates the operations of matrix products and convolutions, also of those that PyTorch
# computes in one fused operator. The documentation says "matrix multiplication and 2D convolution".
# What happens: attention written as two products counts 33,554,432 FLOP; the same attention through scaled_dot_product_attention
# counts 0. Conv1d and ConvTranspose2d count 0 although they run as 2D convolutions, and an LSTM counts only its additions.
# Versions: torch 2.13.0 (CPU), Python 3.11.
# Why it matters: a model FLOP utilisation made of these numbers falls when one switches to fused attention, the faster program, and
# at long contexts most of a transformer's work is missing. The table shows no gap: such rows have a plain 0 or are not there.
# Output seen:
#     attention as two products: 33554432 FLOP
#     the same attention, fused: 0 FLOP
#     Conv1d: 0 FLOP of 737280
#     ConvTranspose2d: 0 FLOP of 75497472
#     LSTM: 128 FLOP of 524288
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import sys

import torch
from torch.nn import LSTM, Conv1d, ConvTranspose2d
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile


def flops(function, *inputs):
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True) as profiler:
        function(*inputs)
    return sum(row.flops for row in profiler.key_averages())


def attention(query, key, value):
    return (query @ key.transpose(-1, -2)).softmax(-1) @ value


heads, image = torch.ones(1, 4, 256, 32), torch.ones(8, 16, 32, 32)
counted = {
    "attention as two products": flops(attention, heads, heads, heads),
    "the same attention, fused": flops(scaled_dot_product_attention, heads, heads, heads),
}
# By hand: output elements, or for the transposed one input elements, x 2 x channels on the other side x kernel.
conv1d, transposed = 8 * 32 * 30 * 2 * 16 * 3, 8 * 16 * 32 * 32 * 2 * 32 * 3 * 3
lstm = 8 * 4 * 2 * (4 * 32 * 32 + 4 * 32 * 32)  # steps x batch x 2 x (input and recurrent weights)
for name, count in counted.items():
    print(f"{name}: {count} FLOP")
others = {
    "Conv1d": (flops(Conv1d(16, 32, 3), image[:, :, 0]), conv1d),
    "ConvTranspose2d": (flops(ConvTranspose2d(16, 32, 3, stride=2), image), transposed),
    "LSTM": (flops(LSTM(32, 32), torch.ones(8, 4, 32)), lstm),
}
for name, (count, truth) in others.items():
    print(f"{name}: {count} FLOP of {truth}")
products, fused = counted.values()
if products != 2 * 2 * 4 * 256 * 256 * 32 or fused != 0 or any(count > truth / 2 for count, truth in others.values()):
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py" 2> /dev/null
