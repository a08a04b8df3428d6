#!/usr/bin/env bash
# torchinfo counts the multiply-adds of a Linear layer for one token, however long the sequence is.
#
# One would guess: "mult-adds" of a layer grow with its input, as torchinfo is given the input's shape and convolutions are counted for
# each pixel.
# What happens: layers but convolutions and recurrent ones count batch size times number of weights. A Linear layer with 128 tokens has the
# multiply-adds of one; an Embedding, which looks rows up, has those of its whole table; MultiheadAttention has none at all, as its
# weights are not those of a layer that is called.
# Versions: torchinfo 1.8.0, torch 2.13.0 (CPU), Python 3.11.
# Why it matters: for a transformer the number is too small by about the length of its sequences, and does not change with it. A FLOP
# utilisation made of it calls a GPU idle that is not; thop counts the Linear layer right.
# Output seen:
#     Linear, 1 token: 4096 of 4096
#     Linear, 128 tokens: 4096 of 524288
#     Embedding of 128 tokens: 64000 of 0
#     MultiheadAttention, 128 tokens: 0 of 4194304
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchinfo==1.8.0 torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import sys

import torch
from torchinfo import summary

WIDTH, HEADS, TOKENS, WORDS = 64, 8, 128, 1000


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, bias=False, batch_first=True)

    def forward(self, tokens):
        return self.attention(tokens, tokens, tokens, need_weights=False)[0]


def multiply_adds(layer, tokens):
    return summary(layer, input_data=tokens, verbose=0).total_mult_adds


linear = torch.nn.Linear(WIDTH, WIDTH, bias=False)
projections, scores_and_sums = 4 * TOKENS * WIDTH**2, 2 * TOKENS**2 * WIDTH
rows = [
    ("Linear, 1 token", multiply_adds(linear, torch.ones(1, 1, WIDTH)), WIDTH**2),
    (f"Linear, {TOKENS} tokens", multiply_adds(linear, torch.ones(1, TOKENS, WIDTH)), TOKENS * WIDTH**2),
    (f"Embedding of {TOKENS} tokens", multiply_adds(torch.nn.Embedding(WORDS, WIDTH), torch.ones(1, TOKENS, dtype=torch.long)), 0),
    (f"MultiheadAttention, {TOKENS} tokens", multiply_adds(Attention(), torch.ones(1, TOKENS, WIDTH)), projections + scores_and_sums),
]
for name, counted, by_hand in rows:
    print(f"{name}: {counted} of {by_hand}")
if [counted for _, counted, _ in rows] != [WIDTH**2, WIDTH**2, WORDS * WIDTH, 0]:
    sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py"
