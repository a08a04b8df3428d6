"""Captures real PyTorch CPU traces: a training loop that waits for its loader, and its fixed twin.

Run it inside this folder, so that the recorded stacks name it without a path:
python capture_torch_cpu.py [FOLDER]
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

BATCH = 32
DECODE_S = 0.0004
SKIPPED_STEPS, RECORDED_STEPS = 3, 4


class SlowImages(Dataset[tuple[Tensor, Tensor]]):
    """Images that take their time to decode."""

    def __init__(self, decode_s: float) -> None:
        self.decode_s = decode_s

    def __len__(self) -> int:
        return BATCH * 64

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(self.decode_s)
        return torch.full((256,), index / len(self)), torch.tensor(index % 10)


def batches(loader: DataLoader[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches for ever."""
    while True:
        yield from loader


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> Tensor:
    """Train on one batch and return the loss."""
    loss = functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def capture(
    path: Path,
    workers: int,
    *,
    skipped: int = SKIPPED_STEPS,
    recorded: int = RECORDED_STEPS,
    detailed: bool = True,
    decode_s: float = DECODE_S,
) -> None:
    """Train a small MLP under the profiler and write the trace, gzipped, without the machine's name.

    A detailed trace has shapes and stacks.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    loader = DataLoader(SlowImages(decode_s), BATCH, num_workers=workers, persistent_workers=workers > 0)
    feed = batches(loader)
    plan = schedule(wait=skipped - 1, warmup=1, active=recorded, repeat=1)
    with profile(
        activities=[ProfilerActivity.CPU], schedule=plan, record_shapes=detailed, with_stack=detailed
    ) as profiler:
        for _ in range(skipped + recorded):
            images, labels = next(feed)
            train_step(model, optimizer, images, labels)
            profiler.step()
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(raw))
        text = raw.read_text()
    text = re.sub(r'"host_name": "[^"]*"', '"host_name": "sample"', text)
    text = re.sub(r'"traceName": "[^"]*"', '"traceName": "trace.json"', text)
    json.loads(text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    print(f"{path}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    capture(target / "torch_cpu_slow_loader" / "trace.json.gz", workers=0)
    capture(target / "torch_cpu_fixed_loader" / "trace.json.gz", workers=2)
