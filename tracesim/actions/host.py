"""Actions of the host besides issuing device work, with the names that PyTorch gives them."""

from __future__ import annotations

from tracesim.catalogue.recording import LOCK_HOLDER
from tracesim.machine.loader_workers import LoaderWorkers
from tracesim.machine.stage import MIB, Stage
from tracesim.scenario.program import Action

OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation


def play_next(stage: Stage, action: Action) -> None:
    """Fetch the next batch in the training thread: do the work there, or wait until a worker has done it."""
    machine = stage.machine
    if "host.dataloader" in machine.without.removed:
        return
    workers = action.get("workers", 0)
    iterator = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
    with (
        stage.frame("train.py(24): train"),
        stage.frame("torch/utils/data/dataloader.py(741): __next__"),
        machine.tape.slice("annotation", f"enumerate(DataLoader)#{iterator}.__next__"),
        stage.frame("<built-in method poll of select.poll>" if workers else "dataset.py(27): __getitem__"),
    ):
        if workers and "worker_us" in action.fields:
            start_ns = machine.tape.now_ns
            machine.wait_until("host.dataloader", _workers_of(stage, action).take(start_ns))
            machine.tape.aside("os", "poll", machine.tape.thread, start_ns, machine.tape.now_ns)
        machine.spend("host.dataloader", action.ns_in_step("us", machine.step))


def _workers_of(stage: Stage, action: Action) -> LoaderWorkers:
    """Return the workers, started with the first batch that is asked for."""
    machine = stage.machine
    if stage.loader is None:
        stage.loader = LoaderWorkers(
            action.get("workers", 1),
            action.get("prefetch", 2),
            lambda batch: machine.vary(action.ns_in_step("worker_us", batch), "worker"),
            action.ns("pin_us"),
            machine.tape,
        )
    return stage.loader


def play_py(stage: Stage, action: Action) -> None:
    """Run Python code that launches nothing."""
    with stage.frame(action.get("name", "train.py(31): train_step")):
        stage.machine.spend("host.python", action.ns("us"), "py")


def play_read_managed(stage: Stage, action: Action) -> None:
    """Read managed memory on the host once the device is done with it, page by page."""
    stage.machine.synchronize("device")
    name = action.get("name", "train.py(40): read")
    with stage.frame(name):
        stage.machine.read_managed(round(action.get("mb", 2) * MIB), name)


def play_frame(stage: Stage, action: Action) -> None:
    """Run actions inside a Python frame."""
    with stage.frame(action.get("name", "train.py(31): train_step")):
        stage.play(action.body)


def play_annot(stage: Stage, action: Action) -> None:
    """Run actions inside a record_function range."""
    with stage.machine.tape.slice("annotation", action.get("name", "annotation")):
        stage.play(action.body)


def play_op(stage: Stage, action: Action) -> None:
    """Run actions inside an operator."""
    stage.machine.spend("host.python", action.ns("py_us"), "py")
    with stage.machine.tape.slice("cpu_op", action.get("name", "aten::add")):
        stage.machine.spend("host.op", action.ns("op_us"), "op")
        stage.play(action.body)


def play_repeat(stage: Stage, action: Action) -> None:
    """Run actions several times."""
    for _ in range(action.get("count", 1)):
        stage.play(action.body)


def play_every(stage: Stage, action: Action) -> None:
    """Run actions in every n-th step, the last of each n unless a phase is given."""
    period = max(1, action.get("steps", 1))
    if (stage.machine.step or 0) % period == action.get("phase", period - 1) % period:
        stage.play(action.body)


def play_first(stage: Stage, action: Action) -> None:
    """Run actions in the first steps only, and another one in the others."""
    if (stage.machine.step or 0) < action.get("steps", 1):
        stage.play(action.body)
    elif "otherwise" in action.fields:
        stage.play((action.fields["otherwise"],))


def play_gc(stage: Stage, action: Action) -> None:
    """Collect garbage."""
    if "host.gc" not in stage.machine.without.removed:
        with stage.machine.tape.slice("python", "Python GC"):
            stage.machine.spend("host.gc", action.ns("us"))


def play_lock(stage: Stage, action: Action) -> None:
    """Wait for a lock that another thread holds while it writes a file.

    `name` is the call that waits: pthread_mutex_lock, or pthread_cond_timedwait of Python's own interpreter lock. Only
    Nsight Systems records it; for PyTorch's profiler it is Python.
    """
    machine = stage.machine
    if "host.lock" in machine.without.removed:
        return
    with stage.frame("<method 'acquire' of '_thread.lock' objects>"):
        start_ns = machine.tape.now_ns
        machine.spend("host.lock", action.ns("us"))
        for thread, call in ((machine.tape.thread, action.get("name", "pthread_mutex_lock")), (LOCK_HOLDER, "write")):
            machine.tape.aside("os", call, thread, start_ns, machine.tape.now_ns)


def play_compile(stage: Stage, action: Action) -> None:
    """Compile a frame with torch.compile."""
    machine = stage.machine
    if "host.compile" in machine.without.removed:
        return
    with (
        machine.tape.slice("cpu_op", f"Torch-Compiled Region: 0/{action.get('recompile', 0)}"),
        machine.tape.slice("cpu_op", "entire_frame_compile"),
        machine.tape.slice("cpu_op", "_compile.compile_inner (dynamo_timed)"),
    ):
        machine.spend("host.compile", action.ns("us"))


def play_overhead(stage: Stage, action: Action) -> None:
    """Let the profiler work for itself."""
    stage.machine.overhead(action.get("name", "Buffer Flush"), action.ns("us"), "host.profiler")


def play_malloc(stage: Stage, action: Action) -> None:
    """Get device memory from the driver."""
    if "host.alloc" in stage.machine.without.removed:
        return
    for _ in range(action.get("count", 1)):
        with stage.machine.tape.slice("cpu_op", "aten::empty"):
            stage.machine.call("Malloc", action.ns("us", 150.0), "host.alloc")
            if stage.recorded.memory:
                stage.machine.tape.allocate(round(action.get("mb", 20) * MIB))


def play_context(stage: Stage, action: Action) -> None:
    """Create the process's context in its first cudaMalloc."""
    stage.machine.create_context(action.ns("us", 150_000.0))


def play_retry(stage: Stage, action: Action) -> None:
    """Find no room, give cached blocks back and ask again, as the caching allocator does at its ceiling."""
    machine = stage.machine
    if "host.alloc" in machine.without.removed:
        return
    with machine.tape.slice("cpu_op", "aten::empty"):
        _give_back(stage, action)
        machine.call("Malloc", action.ns("us", 150.0), "host.alloc")


def _give_back(stage: Stage, action: Action) -> None:
    """Find no room, and give cached blocks back."""
    stage.machine.call("Malloc", action.ns("us", 150.0), "host.alloc", OUT_OF_MEMORY)
    for _ in range(action.get("frees", 1)):
        stage.machine.free(action.ns("free_us", 100.0))


def play_oom(stage: Stage, action: Action) -> None:
    """Find no room even after cached blocks are given back, so that the program gets an error.

    The actions that follow say what it does about it: `py` for its handler, `free` for torch.cuda.empty_cache().
    """
    machine = stage.machine
    if "host.alloc" in machine.without.removed:
        return
    with machine.tape.slice("cpu_op", "aten::empty"):
        _give_back(stage, action)
        machine.call("Malloc", action.ns("us", 150.0), "host.alloc", OUT_OF_MEMORY)
        if stage.recorded.memory:
            machine.tape.fail_to_allocate(round(action.get("mb", 1024) * MIB))


def play_hold(stage: Stage, action: Action) -> None:
    """Take memory of the framework's allocator and keep it."""
    if stage.recorded.memory:
        stage.machine.tape.allocate(round(action.get("mb", 1) * MIB))


def play_release(stage: Stage, action: Action) -> None:
    """Give memory back to the framework's allocator."""
    if stage.recorded.memory:
        stage.machine.tape.allocate(-round(action.get("mb", 1) * MIB))


def play_cache(stage: Stage, action: Action) -> None:
    """Leave holes in the allocator's memory: what it has reserved and no tensor fits into."""
    stage.machine.tape.cached_bytes += round(action.get("mb", 1) * MIB)


def play_free(stage: Stage, action: Action) -> None:
    """Give device memory back to the driver, which waits for the device."""
    for _ in range(action.get("count", 1)):
        stage.machine.free(action.ns("us", 100.0))


def play_sync(stage: Stage, action: Action) -> None:
    """Wait for the device, a stream or an event."""
    kind = action.get("kind", "device")
    with stage.frame(f"torch/cuda/__init__.py(1083): {'synchronize' if kind == 'device' else kind}"):
        stage.machine.synchronize(kind, action.get("stream", 7))
