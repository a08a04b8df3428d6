"""Captures real traces of PyTorch on the CPU: jobs with one fault and the same without it, each also timed alone.

PYTHONPATH=tests python -m faultbench.torch_cpu NAME FOLDER writes FOLDER/fault, FOLDER/twin and FOLDER/truth.json, in
some seconds a job.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

from faultbench.capturing import RANKS, REDUCTIONS, capture

Step = Callable[[int], object]
WARM_UP_STEPS, STEPS = 4, 8
BATCH, WIDTH = 16, 256
# Jobs of several processes are timed several times, as it matters what else the machine does.
ROUNDS = {"loader": 3, "reductions": 5}


class SlowImages(Dataset[Tensor]):
    """Images that take a millisecond each to decode."""

    def __len__(self) -> int:
        return BATCH * 64

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.001)
        return torch.full((WIDTH,), index / len(self))


def _model(depth: int = 6, width: int = WIDTH) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*[layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU())])


def _train_on(batch: Callable[[int], Tensor], after: Callable[[int, Tensor], None] = lambda step, loss: None) -> Step:
    """Return a step that trains a small model, and what is done with its loss."""
    model = _model()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(number: int) -> None:
        loss = model(batch(number)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after(number, loss)

    return step


def loader(*, fault: bool) -> Step:
    """Decode in the training thread, or in four workers."""

    def feed() -> Iterator[Tensor]:
        while True:
            yield from DataLoader(
                SlowImages(), BATCH, num_workers=0 if fault else 4, prefetch_factor=None if fault else 8
            )

    images = feed()
    return _train_on(lambda _: next(images))


def garbage(*, fault: bool) -> Step:
    """Walk all objects in every fourth step, half a million of them alive, or never."""
    alive = [(number, [number]) for number in range(500_000)]
    gc.collect()
    gc.disable()
    batch = torch.randn(BATCH, WIDTH)

    def collect(number: int, _: Tensor) -> None:
        if fault and number % 4 == 0:
            gc.collect()
        assert alive

    return _train_on(lambda _: batch, collect)


def recompilation(*, fault: bool) -> Step:
    """Compile for the size of every batch, or once for all of one size."""
    torch._dynamo.reset()
    model = torch.compile(_model(2), backend="aot_eager", dynamic=False)
    return lambda number: (
        model(torch.zeros(BATCH + (number if fault and number % 3 == 0 else 0), WIDTH)).sum().backward()
    )


def leak(*, fault: bool) -> Step:
    """Keep every step's result for ever, or let go of all every fourth step."""
    history: list[Tensor] = []

    def keep(number: int, _: Tensor) -> None:
        history.append(torch.ones(24 * 2**18))  # 24 MiB
        if not fault and number % 4 == 3:
            history.clear()

    batch = torch.randn(BATCH, WIDTH)
    return _train_on(lambda _: batch, keep)


def reductions(*, fault: bool) -> Step:
    """Reduce many small tensors one by one, or all in one call, over gloo."""
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=15))
    tensors = [torch.ones(1024) for _ in range(REDUCTIONS)]

    def reduce(number: int, _: Tensor) -> None:
        for tensor in tensors if fault else [torch.cat(tensors)]:
            torch.distributed.all_reduce(tensor)

    batch = torch.randn(BATCH, WIDTH)
    return _train_on(lambda _: batch, reduce)


JOBS: dict[str, Callable[..., Step]] = {job.__name__: job for job in (loader, garbage, recompilation, leak, reductions)}


def run(name: str, variant: str, folder: Path) -> None:
    """Run one variant of a job: timed without the profiler first, then recorded."""
    torch.set_num_threads(1)
    rank, world = int(os.environ.get("RANK", "0")), RANKS.get(name, 1)
    step = JOBS[name](fault=variant == "fault")
    for number in range(WARM_UP_STEPS):
        step(number)
    step_ms = statistics.median(_timed_ms(step) for _ in range(ROUNDS.get(name, 1)))
    config = torch._C._profiler._ExperimentalConfig(record_python_gc_info=True)
    plan = schedule(wait=0, warmup=WARM_UP_STEPS, active=STEPS, repeat=1)
    # The profiler tells of the collector only with stacks.
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=plan,
        profile_memory=name == "leak",
        with_stack=name == "garbage",
        experimental_config=config,
    ) as profiler:
        for number in range(WARM_UP_STEPS + STEPS, 2 * (WARM_UP_STEPS + STEPS)):
            step(number)
            profiler.step()
    target = folder / variant
    target.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(target / f"rank{rank}.json"))
    (folder / f"{variant}-{rank}.ms").write_text(str(step_ms))
    if world > 1:
        torch.distributed.destroy_process_group()


def _timed_ms(step: Step) -> float:
    begin = time.perf_counter()
    for number in range(WARM_UP_STEPS, WARM_UP_STEPS + STEPS):
        step(number)
    return (time.perf_counter() - begin) / STEPS * 1_000


if __name__ == "__main__":
    if len(sys.argv) == 3:
        (Path(sys.argv[2]) / "truth.json").write_text(json.dumps(capture(sys.argv[1], Path(sys.argv[2]))))
    else:
        run(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
