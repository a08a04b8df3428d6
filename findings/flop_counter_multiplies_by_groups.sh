#!/usr/bin/env bash
# PyTorch's FlopCounterMode counts the weight gradient of a grouped convolution once for each of its groups.
#
# One would guess: a convolution's backward has twice the operations of its forward, one pass for the gradient of the input and one for
# that of the weights, whether its channels are in groups or not.
# What happens: forward and input gradient are right, but the formula of the weight gradient pairs each input channel with each output
# channel, as if there were one group. With G groups it is G times too large: a depthwise layer of 32 channels, forward and backward,
# counts 34 forwards and not 3.
# Versions: torch 2.13.0 (CPU), Python 3.11.
# Why it matters: ConvNeXt, EfficientNet, MobileNet, Conformer and the short convolutions of state space models are depthwise. Their
# training FLOPs, and the model FLOP utilisation made of them, are several times the truth, and the cheapest layers look like
# the most expensive ones. Lightning's measure_flops and others take their numbers from here.
# Output seen:
#     groups  1: forward 4718592 FLOP, backward 9437184 = 2 forwards
#     groups  2: forward 2359296 FLOP, backward 7077888 = 3 forwards
#     groups 32: forward 147456 FLOP, backward 4866048 = 33 forwards
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cat > "$folder/try.py" <<'PY'
import sys

import torch
from torch.utils.flop_counter import FlopCounterMode

CHANNELS, SIDE, KERNEL = 32, 16, 3
for groups in (1, 2, CHANNELS):
    layer = torch.nn.Conv2d(CHANNELS, CHANNELS, KERNEL, padding=1, groups=groups, bias=False)
    image = torch.ones(1, CHANNELS, SIDE, SIDE, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        result = layer(image).sum()
    forward = counter.get_total_flops()
    with FlopCounterMode(display=False) as counter:
        result.backward()
    backward = counter.get_total_flops()
    print(f"groups {groups:2}: forward {forward} FLOP, backward {backward} = {backward / forward:.0f} forwards")
    by_hand = 2 * SIDE**2 * CHANNELS * KERNEL**2 * CHANNELS // groups
    if (forward, backward) != (by_hand, by_hand + groups * by_hand):
        sys.exit("the behaviour changed")
PY
"$folder/venv/bin/python" "$folder/try.py"
