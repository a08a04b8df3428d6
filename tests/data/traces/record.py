"""Records the traces of this folder, on a machine without a GPU: `python tests/data/traces/record.py [CASE...]`.

Each case runs in a process of its own, and leaves files that PyTorch's profiler (or JAX's) wrote, with the names of the
host and of folders replaced. `jax` needs JAX; all other cases need PyTorch alone.
"""

from __future__ import annotations

import gzip
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
STEPS = 4


def main() -> None:
    """Record the cases that are named, or all."""
    names = sys.argv[1:] or list(CASES)
    if len(names) == 1 and names[0].startswith("_"):
        CASES[names[0][1:]]()
        return
    for name in names:
        subprocess.run([sys.executable, __file__, f"_{name}"], check=True)


def training(compiled: bool = False, autocast: bool = False) -> Callable[[], None]:
    """Return a step of a small model, whose batches take a while to come."""
    import time

    import torch

    class Rows(torch.utils.data.Dataset[tuple[Any, Any]]):
        def __len__(self) -> int:
            return 1 << 16

        def __getitem__(self, index: int) -> tuple[Any, Any]:
            time.sleep(0.0002)
            return torch.ones(64), index % 10

    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 10))
    forward = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters())
    batches = iter(torch.utils.data.DataLoader(Rows(), batch_size=16))

    def step() -> None:
        inputs, labels = next(batches)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = torch.nn.functional.cross_entropy(forward(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def recorded(step: Callable[[], None], path: Path, skipped: int = 3, **options: Any) -> None:
    """Profile some steps, after those that are skipped."""
    from torch.profiler import ProfilerActivity, profile, schedule

    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=skipped, active=STEPS, repeat=1),
        on_trace_ready=lambda profiler: exported(profiler, path),
        **options,
    ) as profiler:
        for _ in range(skipped + STEPS):
            step()
            profiler.step()


def exported(profiler: Any, path: Path) -> None:
    """Write a profile as PyTorch does, without what is this machine's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch) / "trace.json"
        profiler.export_chrome_trace(str(raw))
        write_packed(path, without_places(raw.read_text(encoding="utf-8")))


def write_packed(path: Path, text: str) -> None:
    """Write text packed; the same text gives the same bytes."""
    with path.open("wb") as out, gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0) as file:
        file.write(text.encode())


def without_places(text: str) -> str:
    """Replace the host's name and the folders of this machine."""
    text = text.replace(socket.gethostname(), "trainer")
    text = re.sub(r'("traceName": ")[^"]*', r"\1trace.json", text)
    text = re.sub(r"(?:/[\w.+-]+)+/(?=(?:site-packages|python3\.\d+|torchinductor_\w+)/)", "/home/user/", text)
    text = text.replace(str(FOLDER), "/home/user/training")
    return re.sub(r"torchinductor_\w+", "torchinductor_user", text)


def plain() -> None:
    recorded(training(), FOLDER / "plain.json.gz")


def stacks() -> None:
    recorded(training(), FOLDER / "stacks.json.gz", with_stack=True, record_shapes=True, with_modules=True)


def memory() -> None:
    recorded(training(), FOLDER / "memory.json.gz", profile_memory=True, record_shapes=True, with_flops=True)


def compiled() -> None:
    recorded(training(compiled=True), FOLDER / "compiled.json.gz", record_shapes=True)


def compiling() -> None:
    """The compilation itself lies in the trace: operators on tensors that have no data."""
    recorded(training(compiled=True), FOLDER / "compiling.json.gz", skipped=0, record_shapes=True)


def autocast() -> None:
    recorded(training(autocast=True), FOLDER / "autocast.json.gz", record_shapes=True, with_flops=True)


def cycles() -> None:
    """Two recordings of one process, under the names that PyTorch gives them."""
    from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

    step = training()
    with tempfile.TemporaryDirectory() as scratch:
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=1, warmup=1, active=STEPS, repeat=2),
            on_trace_ready=tensorboard_trace_handler(scratch, use_gzip=False),
        ) as profiler:
            for _ in range(2 * (2 + STEPS)):
                step()
                profiler.step()
        folder = FOLDER / "cycles"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for path in Path(scratch).iterdir():
            name = path.name.replace(socket.gethostname(), "trainer") + ".gz"
            write_packed(folder / name, without_places(path.read_text(encoding="utf-8")))


def gloo() -> None:
    """Two ranks that exchange gradients through gloo; the second comes late."""
    import torch.multiprocessing

    with tempfile.TemporaryDirectory() as scratch:
        torch.multiprocessing.spawn(gloo_rank, args=(f"file://{scratch}/meeting",), nprocs=2)


def gloo_rank(rank: int, meeting: str) -> None:
    import time

    import torch
    import torch.distributed
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        with torch.profiler.record_function("augment"):
            time.sleep(0.004 * rank)
        model(torch.ones(32, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    recorded(step, FOLDER / "gloo" / f"rank{rank}.json.gz", record_shapes=True)
    torch.distributed.destroy_process_group()


def jax() -> None:
    """A loop that waits for its input, as JAX's profiler records it: a session's folder."""
    import time

    import jax as library
    import jax.numpy as jnp

    @library.jit
    def update(weights: Any, batch: Any) -> Any:
        return weights - 0.01 * library.grad(lambda w: jnp.tanh(batch @ w).sum())(weights)

    weights, batch = jnp.ones((256, 64)), jnp.ones((128, 256))
    update(weights, batch).block_until_ready()
    with tempfile.TemporaryDirectory() as scratch:
        with library.profiler.trace(scratch):
            for number in range(STEPS):
                with library.profiler.StepTraceAnnotation("train", step_num=number):
                    with library.profiler.TraceAnnotation("load batch"):
                        time.sleep(0.005)
                    weights = update(weights, batch)
                    weights.block_until_ready()
        (session,) = (Path(scratch) / "plugins" / "profile").iterdir()
        folder = FOLDER / "jax" / "plugins" / "profile" / "2026_11_27_12_00_00"
        shutil.rmtree(FOLDER / "jax", ignore_errors=True)
        folder.mkdir(parents=True)
        host = socket.gethostname()
        for path in session.iterdir():
            name = path.name.replace(host, "trainer")
            if path.suffix == ".gz":
                write_packed(folder / name, without_places(gzip.decompress(path.read_bytes()).decode()))
            else:
                # Names of equal length keep the lengths that stand before them in the file.
                data = path.read_bytes()
                for private in (host.encode(), str(FOLDER).encode(), sys.prefix.encode()):
                    data = data.replace(private, b"/home/user".ljust(len(private), b"x")[: len(private)])
                (folder / name).write_bytes(data)


CASES = {case.__name__: case for case in (plain, stacks, memory, compiled, compiling, autocast, cycles, gloo, jax)}

if __name__ == "__main__":
    main()
