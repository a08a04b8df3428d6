"""Writes the simulated sample traces; the same script gives the same traces everywhere.

python sample_traces/make_simulated.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tracesim import SimulatedRun, simulate

HOST = {"py_us": 4, "op_us": 5}


def _kernel(name: str, us: float) -> dict[str, Any]:
    return {"kernel": {"class": name, "us": us, **HOST}}


_LAYER = [
    _kernel("norm", 40),
    _kernel("gemm", 260),
    _kernel("attention", 310),
    _kernel("gemm", 95),
    _kernel("elementwise", 30),
    _kernel("norm", 40),
    _kernel("gemm", 340),
    _kernel("elementwise", 55),
    _kernel("gemm", 330),
]
_LAYER_BACKWARD = [_kernel(action["kernel"]["class"], 2 * action["kernel"]["us"]) for action in reversed(_LAYER)]
# A small transformer in bf16: four layers, a fused optimizer, the batch copied from pinned memory beside the compute.
_TRANSFORMER: list[dict[str, Any]] = [
    {"h2d": {"mb": 6, "pinned": True, "stream": "copy"}},
    {
        "frame": {"name": "train.py(38): train_step"},
        "do": [
            {"forward": 4, "do": [{"frame": {"name": "model.py(61): forward"}, "do": _LAYER}]},
            {"backward": {"repeat": 4}, "do": _LAYER_BACKWARD},
            {"optimizer": {"name": "AdamW", "kernels": 4, "us": 120, **HOST}},
        ],
    },
]
_CONDITIONS = {"device": "H100", "stacks": True, "jitter": 0.03}

SCENARIOS: dict[str, dict[str, Any]] = {
    # 28 ms to load a batch in the training thread against 19 ms of compute, and a loss read back in every step.
    "slow_loader": {
        **_CONDITIONS,
        "steps": 7,
        "program": [
            {"next": {"us": 28_000}},
            *_TRANSFORMER,
            {"frame": {"name": "train.py(44): log_loss"}, "do": [{"item": 1}]},
        ],
    },
    # The same job with its batches ready in time and the loss left on the device.
    "healthy": {**_CONDITIONS, "steps": 7, "program": [{"next": {"us": 300, "workers": 8}}, *_TRANSFORMER]},
    # A model of tiny layers at batch size 1: 14 us of host work for 5 us of GPU work.
    "launch_bound": {
        "device": "H100",
        "mode": "training",
        "steps": 7,
        "kernels": 150,
        "kernel_us": 5,
        "kernel_class": "elementwise",
        "host_us": 5,
        "op_us": 3,
        "h2d_mb": 0.25,
        "loader_us": 100,
        "jitter": 0.03,
        "stacks": True,
    },
}
SEED = 2


def sample(name: str) -> SimulatedRun:
    """Simulate one of the samples."""
    return simulate(SCENARIOS[name], SEED)


def main(folder: Path) -> None:
    """Write every sample below a folder."""
    for name in SCENARIOS:
        run = sample(name)
        path = run.write_kineto(folder / name / "rank0.json.gz")
        window_ms = run.window_ns / 1e6
        print(f"{path}: {path.stat().st_size / 1024:.0f} KiB, window {window_ms:.1f} ms")
        for bucket, dur_ns in sorted(run.true_ledger.items(), key=lambda item: -item[1]):
            if dur_ns * 200 > run.window_ns:
                print(f"  {bucket:18} {dur_ns / run.window_ns:6.1%}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
