"""Captures real GPU traces: pairs of a training loop with one fault and the same loop without it.

python capture_torch_gpu.py [FOLDER]

Each pair is timed without the profiler first, so that the traces come with the true effect of the fix (truth.json).
Needs a CUDA or ROCm GPU; without one it says so and captures nothing.
"""

from __future__ import annotations

import gzip
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, schedule

Step = Callable[[], object]
TIMED_STEPS, REPEATS, WARM_UP_STEPS, RECORDED_STEPS = 20, 5, 5, 6


def training_step(model: nn.Module, feed: Iterator[Tensor], *, read_loss: bool = False) -> Step:
    """Return a step that trains a model on the next batch, reading its loss back at once where told."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    losses: list[object] = []

    def step() -> None:
        loss = model(next(feed)).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses[:] = [loss.item() if read_loss else loss.detach()]

    return step


def mlp(device: str, width: int, depth: int) -> nn.Module:
    """Return a plain stack of linear layers."""
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers).to(device)


def on_device(device: str, rows: int, width: int) -> Iterator[Tensor]:
    """Yield one batch that already lies on the device, again and again."""
    batch = torch.randn(rows, width, device=device)
    while True:
        yield batch


def slow_loader(device: str, *, fault: bool) -> Step:
    """Decode for 20 ms in the training thread, or have the batch ready."""

    def feed() -> Iterator[Tensor]:
        batch = torch.randn(512, 1024, device=device)
        while True:
            # Named as PyTorch names its own loader, which a sleep stands for here.
            with torch.profiler.record_function("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                time.sleep(0.02 if fault else 0)
            yield batch

    return training_step(mlp(device, 1024, 24), feed())


def item_every_step(device: str, *, fault: bool) -> Step:
    """Read the loss back in every step, or leave it on the device."""
    return training_step(mlp(device, 1024, 24), on_device(device, 2048, 1024), read_loss=fault)


def pageable_copy(device: str, *, fault: bool) -> Step:
    """Copy each batch from pageable memory, or from pinned memory without waiting."""

    def feed() -> Iterator[Tensor]:
        batch = torch.randn(8192, 2048)
        if not fault and device != "cpu":
            batch = batch.pin_memory()
        while True:
            yield batch.to(device, non_blocking=not fault)

    return training_step(mlp(device, 2048, 8), feed())


def fp32_matmul(device: str, *, fault: bool) -> Step:
    """Multiply in plain FP32, or let TF32 tensor cores do it."""
    step = training_step(mlp(device, 2048, 8), on_device(device, 4096, 2048))

    def with_precision() -> None:
        torch.set_float32_matmul_precision("highest" if fault else "high")
        step()

    return with_precision


class Attention(nn.Module):
    """Self-attention that writes the score matrix out, or does not."""

    def __init__(self, width: int, heads: int, *, fused: bool) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width)
        self.heads, self.fused = heads, fused

    def forward(self, tokens: Tensor) -> Tensor:
        """Attend over the second dimension."""
        shape = (tokens.shape[0], tokens.shape[1], self.heads, -1)
        query, key, value = (part.reshape(shape).transpose(1, 2) for part in self.project(tokens).chunk(3, -1))
        if self.fused:
            mixed = functional.scaled_dot_product_attention(query, key, value)
        else:
            scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
            mixed = scores.softmax(-1) @ value
        return mixed.transpose(1, 2).reshape(tokens.shape)


def unfused_attention(device: str, *, fault: bool) -> Step:
    """Attend with bmm, softmax and bmm, or with one fused kernel."""
    length = 2048 if device != "cpu" else 32
    model = nn.Sequential(*[Attention(512, 8, fused=not fault) for _ in range(4)]).to(device, torch.bfloat16)

    def feed() -> Iterator[Tensor]:
        batch = torch.randn(4, length, 512, device=device, dtype=torch.bfloat16)
        while True:
            yield batch

    return training_step(model, feed())


def launch_bound(device: str, *, fault: bool) -> Step:
    """Launch hundreds of tiny kernels one by one, or replay them as one graph."""
    model = mlp(device, 64, 150)
    batch = torch.randn(1, 64, device=device)
    with torch.no_grad():
        for _ in range(3):
            model(batch)
        if fault or device == "cpu":
            return lambda: torch.no_grad()(model)(batch)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(batch)
    return graph.replay


PAIRS: dict[str, Callable[..., Step]] = {
    pair.__name__: pair
    for pair in (slow_loader, item_every_step, pageable_copy, fp32_matmul, unfused_attention, launch_bound)
}


def step_ms(step: Step) -> float:
    """Return the median time of a step without the profiler."""
    for _ in range(WARM_UP_STEPS):
        step()
    times = []
    for _ in range(REPEATS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(TIMED_STEPS):
            step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / TIMED_STEPS)
    return statistics.median(times)


def capture(step: Step, path: Path) -> None:
    """Record some steps and write the trace, gzipped, without the machine's name."""
    plan = schedule(wait=1, warmup=2, active=RECORDED_STEPS, repeat=1)
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, schedule=plan, record_shapes=True) as profiler:
        for _ in range(3 + RECORDED_STEPS):
            step()
            profiler.step()
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(raw))
        text = raw.read_text()
    text = re.sub(r'"host_name": "[^"]*"', '"host_name": "sample"', text)
    text = re.sub(r'"traceName": "[^"]*"', '"traceName": "trace.json"', text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def main(folder: Path) -> None:
    """Capture every pair below a folder."""
    if not torch.cuda.is_available():
        print("No GPU is available here, so no GPU traces were captured.")
        return
    for name, pair in PAIRS.items():
        measured: dict[str, object] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
        for variant, fault in (("fault", True), ("fixed", False)):
            torch.manual_seed(0)
            step = pair("cuda", fault=fault)
            measured[f"{variant}_ms"] = round(step_ms(step), 4)
            capture(step, folder / f"torch_gpu_{name}" / variant / "trace.json.gz")
        (folder / f"torch_gpu_{name}" / "truth.json").write_text(json.dumps(measured, indent=2) + "\n")
        print(f"{name}: {measured}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
