# ruff: noqa
"""Records small traces of a CUDA device: pairs of a program with one planted fault and the same program without it.

    python record.py FOLDER            every case, each in its own process
    python record.py FOLDER CASE       one case

A pair leaves FOLDER/CASE/faulty.json.gz, fixed.json.gz and label.json, which holds the median time of a step of each
without a profiler. Needs PyTorch with CUDA; the last cases also need nvcc, ncu and jax.
"""

import contextlib
import glob
import gzip
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
SCALE = 1 if CUDA else 16  # a CPU is enough to try the logic
ACTIVITIES = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if CUDA else [])]
ROUNDS = 5


def sync():
    if CUDA:
        torch.cuda.synchronize()


def median_step_ms(step, steps):
    """Returns the median over rounds of the mean time of a step, without a profiler."""
    times = []
    for _ in range(ROUNDS):
        sync()
        start = time.perf_counter_ns()
        for _ in range(steps):
            step()
        sync()
        times.append((time.perf_counter_ns() - start) / steps / 1e6)
    return statistics.median(times)


def scrub(text):
    """Replaces what is personal: the host's name and folders."""
    text = text.replace(socket.gethostname(), "trainer")
    text = re.sub(r'("traceName": ")[^"]*', r"\1trace.json", text)
    return re.sub(
        r"(?<![\w.<])/[^\s\"():;,]*?/(?=(site-packages|python3\.\d+|torchinductor_\w+|triton)/)", "/home/user/", text
    )


def save(prof, path):
    raw = f"{path}.raw.json"
    prof.export_chrome_trace(raw)
    with open(raw, encoding="utf-8") as file:
        text = scrub(file.read())
    os.remove(raw)
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(text.encode())


def trace(step, path, active=4, **options):
    options = {"record_shapes": True, **options}
    with profile(
        activities=ACTIVITIES,
        schedule=schedule(wait=1, warmup=2, active=active, repeat=1),
        on_trace_ready=lambda p: save(p, path),
        **options,
    ) as prof:
        for _ in range(3 + active):
            step()
            prof.step()


def pair(folder, fault, variants, *, warmup=10, steps=20, active=4, **options):
    """Measures and traces the faulty program and the fixed one, each made by a function that returns a step."""
    label = {"fault": fault, "steps_of_a_round": steps, "rounds": ROUNDS}
    for name, make in variants.items():
        step = make()
        for _ in range(warmup):
            step()
        label[f"{name}_step_ms"] = round(median_step_ms(step, steps), 4)
        trace(step, folder / f"{name}.json.gz", active, **options)
        del step
    faulty, fixed = label["faulty_step_ms"], label["fixed_step_ms"]
    label["saving_share"] = round(1 - fixed / faulty, 4)
    (folder / "label.json").write_text(json.dumps(label, indent=1) + "\n")
    print(label, flush=True)


def perceptron(width=1024, layers=8, out=None):
    modules = []
    for _ in range(layers):
        modules += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*modules, nn.Linear(width, out or width)).to(DEVICE)


def trained(model, optimizer, x, target):
    optimizer.zero_grad(set_to_none=True)
    loss = F.mse_loss(model(x), target)
    loss.backward()
    optimizer.step()
    return loss


class Photos(torch.utils.data.Dataset):
    """Stands for photos to decode: about 2 ms of work on one core each."""

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        x = torch.rand(3, 64, 64)
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            x = x.flip(2)
        return x, index % 10


def loader(folder):
    def make(workers):
        def build():
            torch.manual_seed(0)
            model = nn.Sequential(
                nn.Conv2d(3, 64, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(64, 256 // SCALE, 3, padding=1),
                nn.ReLU(),
                nn.AdaptiveAvgPool2d(4),
                nn.Flatten(),
                nn.Linear(256 // SCALE * 16, 10),
            ).to(DEVICE)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            options = {"num_workers": workers, "prefetch_factor": 4, "persistent_workers": True} if workers else {}
            batches = iter(torch.utils.data.DataLoader(Photos(), batch_size=16, pin_memory=CUDA, **options))

            def step():
                x, y = next(batches)
                x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
                optimizer.zero_grad(set_to_none=True)
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

            return step

        return build

    pair(
        folder,
        "the data loader decodes in the main process",
        {"faulty": make(0), "fixed": make(12 if CUDA else 2)},
        warmup=5,
        steps=10,
    )


def item(folder):
    def make(check):
        def build():
            model = perceptron(2048 // SCALE, 12)
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
            x = torch.randn(512 // SCALE, 2048 // SCALE, device=DEVICE)

            def step():
                optimizer.zero_grad(set_to_none=True)
                hidden = x
                for layer in model:
                    hidden = layer(hidden)
                    if check and hidden.abs().max().item() > 1e6:
                        raise ValueError("diverged")
                loss = F.mse_loss(hidden, x)
                loss.backward()
                optimizer.step()
                if check:
                    loss.item()

            return step

        return build

    pair(folder, "the host waits for a value after each layer (.item())", {"faulty": make(True), "fixed": make(False)})


def copies(folder):
    rows = 16384 // SCALE

    def make(pinned):
        def build():
            model = perceptron(1024, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
            batches = [torch.randn(rows, 1024) for _ in range(4)]
            if pinned:
                batches = [batch.pin_memory() for batch in batches]
            count = 0
            side = torch.cuda.Stream() if CUDA else None
            ready = None

            def fetch():
                nonlocal count
                count += 1
                if not pinned:
                    return batches[count % 4].to(DEVICE)
                with torch.cuda.stream(side) if side else contextlib.nullcontext():
                    return batches[count % 4].to(DEVICE, non_blocking=True)

            def step():
                nonlocal ready
                if not pinned:
                    x = fetch()
                else:
                    x = ready if ready is not None else fetch()
                    if side:
                        torch.cuda.current_stream().wait_stream(side)
                        x.record_stream(torch.cuda.current_stream())
                    ready = fetch()
                trained(model, optimizer, x, x)

            return step

        return build

    if not CUDA:
        return
    pair(
        folder, "batches are copied from pageable memory before each step", {"faulty": make(False), "fixed": make(True)}
    )


def tiny(folder):
    def chain(x):
        for _ in range(60):
            x = torch.sin(x) + 0.5
        return x

    def eager():
        x = torch.randn(4096, device=DEVICE)
        return lambda: chain(x)

    def graphed():
        x = torch.randn(4096, device=DEVICE)
        graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            chain(x)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            step_out = chain(x)

        def step():
            graph.replay()
            return step_out

        return step

    pair(folder, "many tiny kernels are launched one by one", {"faulty": eager, "fixed": graphed if CUDA else eager})


def precision(folder):
    size = 4096 // SCALE

    def make(mode):
        def build():
            model = perceptron(size, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
            x = torch.randn(2048 // SCALE, size, device=DEVICE)

            def step():
                torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
                with torch.autocast(DEVICE, torch.bfloat16, enabled=mode == "bf16"):
                    optimizer.zero_grad(set_to_none=True)
                    loss = F.mse_loss(model(x), x)
                loss.backward()
                optimizer.step()

            return step

        return build

    pair(
        folder,
        "matrix products run in fp32 without tensor cores",
        {"faulty": make("fp32"), "fixed": make("tf32"), "bf16": make("bf16")},
    )


def unfused(folder):
    def gelu(x, bias):
        x = x + bias
        for _ in range(3):
            x = 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))
        return x

    def make(compiled):
        def build():
            x = torch.randn((32 << 20) // SCALE, device=DEVICE)
            bias = torch.randn(1, device=DEVICE)
            function = torch.compile(gelu) if compiled else gelu
            return lambda: function(x, bias)

        return build

    pair(folder, "a chain of element-wise operators is not fused", {"faulty": make(False), "fixed": make(True)})


def recompile(folder):
    import torch._dynamo

    torch._dynamo.config.recompile_limit = 256
    torch._dynamo.config.accumulated_recompile_limit = 1024

    def make(dynamic):
        def build():
            torch._dynamo.reset()
            function = torch.compile(lambda x: torch.relu(x * 2 + 1).sum(), dynamic=dynamic)
            rows = 64

            def step():
                nonlocal rows
                rows += 1
                return function(torch.randn(rows, 256, device=DEVICE))

            return step

        return build

    pair(
        folder,
        "each step has a new shape and is compiled anew",
        {"faulty": make(False), "fixed": make(True)},
        warmup=2,
        steps=3,
        active=3,
    )


def churn(folder):
    def make(emptied):
        def build():
            model = perceptron(4096 // SCALE, 6)
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
            x = torch.randn(8192 // SCALE, 4096 // SCALE, device=DEVICE)

            def step():
                with torch.autocast(DEVICE, torch.bfloat16):
                    trained(model, optimizer, x, x)
                if emptied and CUDA:
                    torch.cuda.empty_cache()

            return step

        return build

    pair(
        folder,
        "the allocator's cache is emptied after each step",
        {"faulty": make(True), "fixed": make(False)},
        profile_memory=True,
    )


def optimizer(folder):
    def make(**options):
        def build():
            model = perceptron(256, 60)
            x = torch.randn(256, 256, device=DEVICE)
            updated = torch.optim.AdamW(model.parameters(), lr=1e-4, **options)
            return lambda: trained(model, updated, x, x)

        return build

    pair(
        folder,
        "the optimizer updates each parameter by itself",
        {"faulty": make(foreach=False, fused=False), "fixed": make(fused=True)},
        active=2,
        record_shapes=False,
    )


def ddp(folder):
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl" if CUDA else "gloo")
    model = nn.parallel.DistributedDataParallel(perceptron(2048 // SCALE, 6), bucket_cap_mb=8)
    updated = torch.optim.SGD(model.parameters(), lr=1e-5)
    x = torch.randn(2048 // SCALE, 2048 // SCALE, device=DEVICE)
    step = lambda: trained(model, updated, x, x)  # noqa: E731
    for _ in range(5):
        step()
    trace(step, folder / "rank0.json.gz")
    dist.destroy_process_group()


def cycles(folder):
    """Three cycles under the names that PyTorch gives them itself."""
    model = perceptron(1024 // SCALE, 2)
    updated = torch.optim.SGD(model.parameters(), lr=1e-5)
    x = torch.randn(256, 1024 // SCALE, device=DEVICE)
    raw = folder / "raw"
    with profile(
        activities=ACTIVITIES,
        schedule=schedule(wait=1, warmup=1, active=2, repeat=3),
        on_trace_ready=tensorboard_trace_handler(str(raw)),
    ) as prof:
        for _ in range(12):
            trained(model, updated, x, x)
            prof.step()
    for path in sorted(glob.glob(str(raw / "*"))):
        name = pathlib.Path(path).name.replace(socket.gethostname(), "trainer")
        with gzip.GzipFile(folder / f"{name}.gz", "wb", mtime=0) as file:
            file.write(scrub(pathlib.Path(path).read_text()).encode())
    shutil.rmtree(raw)


def graph(folder):
    """The capture of a graph with stacks and shapes, and then its replays, as servers of language models do it."""
    model = perceptron(2048 // SCALE, 4)
    x = torch.randn(16, 2048 // SCALE, device=DEVICE)
    captured = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    with torch.no_grad():
        with torch.cuda.stream(side):
            model(x)
        torch.cuda.current_stream().wait_stream(side)
        with profile(activities=ACTIVITIES, record_shapes=True, with_stack=True) as prof:
            with record_function("capture"), torch.cuda.graph(captured):
                model(x)
        save(prof, folder / "capture.json.gz")

        def step():
            with record_function("execute_model"):
                captured.replay()
                x.add_(0.001)

        trace(step, folder / "replay.json.gz", 6, with_stack=True)


KERNELS = r"""
#include <cstdio>
__global__ void coalesced(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * 2.0f;
}
__global__ void strided(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { long j = ((long)i * 33) % n; out[j] = in[j] * 2.0f; }
}
int main() {
  int n = 1 << 22; float *a, *b;
  cudaMalloc(&a, n * sizeof(float)); cudaMalloc(&b, n * sizeof(float));
  cudaMemset(a, 0, n * sizeof(float));
  coalesced<<<n / 256, 256>>>(b, a, n); strided<<<n / 256, 256>>>(b, a, n);
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
"""


def ncu(folder):
    if not CUDA:
        return
    work = pathlib.Path("/tmp/ncu_work")
    work.mkdir(exist_ok=True)
    (work / "two.cu").write_text(KERNELS)
    run = lambda *words: subprocess.run(words, cwd=work, check=True, text=True, capture_output=True).stdout  # noqa: E731
    run("nvcc", "-arch=native", "-o", "two", "two.cu")
    run("ncu", "--clock-control", "none", "--set", "full", "-f", "-o", "two", "./two")
    shutil.copy(work / "two.ncu-rep", folder)
    for page in ("raw", "details"):
        (folder / f"{page}.csv").write_text(run("ncu", "-i", "two.ncu-rep", "--csv", "--page", page))
    (folder / "live.csv").write_text(run("ncu", "--clock-control", "none", "--csv", "./two"))


def jax_gpu(folder):
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import jax.numpy as jnp

    @jax.jit
    def product(x):
        for _ in range(3):
            x = jnp.tanh(x @ x)
        return x

    x = jnp.ones((2048 // SCALE, 2048 // SCALE))
    product(x).block_until_ready()
    raw = folder / "raw"
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with jax.profiler.trace(str(raw), profiler_options=options):
        for number in range(5):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                x = product(x)
        x.block_until_ready()
    for path in glob.glob(str(raw / "**" / "*.*"), recursive=True):
        path = pathlib.Path(path)
        shutil.copy(path, folder / path.name.replace(socket.gethostname(), "trainer"))
    shutil.rmtree(raw)
    print(jax.__version__, socket.gethostname(), flush=True)


CASES = {
    f.__name__: f
    for f in (
        item,
        copies,
        tiny,
        graph,
        cycles,
        loader,
        precision,
        unfused,
        churn,
        optimizer,
        ddp,
        jax_gpu,
        ncu,
        recompile,
    )
}


def main():
    out = pathlib.Path(sys.argv[1])
    if len(sys.argv) == 3:
        folder = out / sys.argv[2]
        folder.mkdir(parents=True, exist_ok=True)
        CASES[sys.argv[2]](folder)
        return
    out.mkdir(parents=True, exist_ok=True)
    versions = {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "device": torch.cuda.get_device_name() if CUDA else "cpu",
        "host": socket.gethostname(),
    }
    if CUDA:
        versions["driver"] = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], text=True, capture_output=True
        ).stdout.strip()
    (out / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")
    for case in CASES:
        start = time.perf_counter()
        try:
            rc = subprocess.run([sys.executable, __file__, str(out), case], timeout=90).returncode
        except subprocess.TimeoutExpired:
            rc = "timeout"
        print(f"== {case}: rc {rc}, {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
