"""Scenarios in a few words: the keys of a typical training or inference step, and the program that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracesim.catalogue.recording import COMM_STREAM, COMPUTE_STREAM, COPY_STREAM
from tracesim.scenario.program import Action


@dataclass(frozen=True)
class Shorthand:
    """What one step does. Times are in microseconds; counts are a step's."""

    mode: str = "training"  # training: forward, backward on the autograd thread, optimizer; or inference: forward only
    loader_us: float | tuple[float, ...] = 300.0  # DataLoader.__next__ in the training thread; several: step by step
    loader_workers: int = 0  # which iterator it is named after
    worker_us: float | tuple[float, ...] = 0.0  # what a batch takes one of the workers, which run beside training
    loader_prefetch: int = 2  # batches ahead, for each worker
    pin_us: float = 0.0  # what the pin-memory thread takes for a batch; 0: there is none
    kernels: int = 200  # compute kernels
    kernel_us: float = 80.0  # duration of each
    kernel_class: str = "gemm"
    kernel_name: str = ""  # overrides the name of every kernel of forward and backward
    precision: str = "bf16"
    host_us: float = 3.0  # before each kernel: Python, or in the backward pass the autograd engine
    op_us: float = 0.0  # operator dispatch before each kernel's launch
    h2d_mb: float = 2.0  # input batch; 0 for none
    h2d_us: float = 0.0  # its duration; 0: from its size
    h2d_pinned: bool = True  # False: the copy blocks the host
    h2d_blocking: bool = False  # a pinned copy that is waited for
    h2d_stream: str = "copy"  # copy: on a stream of its own, awaited by compute; compute: in order with the kernels
    h2d_count: int = 1  # copies; each of h2d_mb
    item_per_step: int = 0  # .item() at the end of the step
    item_every: int = 1  # only in every n-th step
    sync_per_step: int = 0  # synchronisations, spread over the kernels
    sync_kind: str = "device"  # device or stream
    malloc_per_step: int = 0  # cudaMalloc, spread over the forward pass
    malloc_us: float = 150.0
    malloc_steps: int = 0  # only in the first n steps; 0: in all
    free_per_step: int = 0  # cudaFree at the end of the step, which waits for the device
    free_us: float = 100.0
    gc_us: float = 0.0  # Python's garbage collection at the end of the step
    gc_every: int = 1  # only in every n-th step
    comm_us: float = 0.0  # all-reduce of the gradients; shared by the buckets
    comm_blocking: bool = True  # True: after the backward pass, before the optimizer; False: overlapped with backward
    comm_count: int = 1  # buckets
    comm_mb: float = 25.0  # of each bucket
    attention: str = "none"  # unfused: bmm, softmax, bmm; fused: one flash kernel
    attention_us: float = 600.0  # one attention block's kernels
    attention_layers: int = 8
    optimizer_fused: bool = True
    optimizer_kernels: int = 0  # 0: one in twenty of the kernels
    graph: bool = False  # the step's kernels are one CUDA graph
    overhead_us: float = 0.0  # the profiler's own work in the training thread
    compile_first_us: float = 0.0  # torch.compile in the first step
    compile_us: float = 0.0  # recompilation in every compile_every-th step
    compile_every: int = 3
    module_load_us: float = 0.0  # loading the first kernel's module in the first step


def spell_out(short: Shorthand) -> tuple[Action, ...]:
    """Return the actions of one step of a shorthand scenario."""
    return (*start_of_step(short), *_passes(short), *end_of_step(short))


def start_of_step(short: Shorthand) -> list[Action]:
    """Return what a step does before its kernels."""
    start = []
    if short.overhead_us:
        start.append(Action("overhead", {"us": short.overhead_us}))
    if short.loader_us or short.worker_us:
        start.append(_next_batch(short))
    if short.compile_first_us:
        start.append(_once(Action("compile", {"us": short.compile_first_us})))
    if short.compile_us:
        recompile = Action("compile", {"us": short.compile_us, "recompile": 1})
        start.append(Action("every", {"steps": short.compile_every}, (recompile,)))
    if short.h2d_mb or short.h2d_us:
        start.extend([_input_copy(short)] * short.h2d_count)
    return start


def _next_batch(short: Shorthand) -> Action:
    fields: dict[str, Any] = {"us": short.loader_us, "workers": short.loader_workers}
    if short.worker_us:
        fields.update(worker_us=short.worker_us, prefetch=short.loader_prefetch, pin_us=short.pin_us)
    return Action("next", fields)


def _once(action: Action, steps: int = 1) -> Action:
    """Return an action that only the first steps do."""
    return Action("first", {"steps": steps}, (action,))


def _input_copy(short: Shorthand) -> Action:
    fields: dict[str, Any] = {"mb": short.h2d_mb, "pinned": short.h2d_pinned, "stream": COPY_STREAM}
    if short.h2d_stream == "compute" or not short.h2d_pinned:
        fields["stream"] = COMPUTE_STREAM
    if short.h2d_us:
        fields["us"] = short.h2d_us
    if short.h2d_blocking:
        fields["blocking"] = True
    return Action("h2d", fields)


def _passes(short: Shorthand) -> list[Action]:
    """Return forward, backward and optimizer, with what is spread over their kernels."""
    if short.graph:
        graph = {"kernels": short.kernels, "us": short.kernel_us, "class": short.kernel_class}
        return [Action("py", {"us": short.host_us}), Action("graph", graph)]
    optimizer = backward = 0
    if short.mode == "training":
        optimizer = short.optimizer_kernels or (max(1, short.kernels // 20) if short.kernels >= 3 else 0)
        optimizer = min(optimizer, short.kernels)
        backward = (short.kernels - optimizer) * 2 // 3
    forward = short.kernels - optimizer - backward
    kernel: dict[str, Any] = {"class": short.kernel_class, **_timing(short)}
    if short.kernel_name:
        kernel["name"] = short.kernel_name
    launches = [Action("kernel", kernel)] * (forward + backward)
    if short.module_load_us and launches:
        loading = Action("kernel", {**kernel, "module_load_us": short.module_load_us})
        launches[0] = Action("first", {"steps": 1, "otherwise": launches[0]}, (loading,))
    every = short.kernels // short.sync_per_step if short.sync_per_step else 0
    sync = Action("sync", {"kind": short.sync_kind})
    steps = [_with_sync(launch, sync, index, every) for index, launch in enumerate(launches)]
    actions = _spread_allocations(short, steps[:forward])
    actions = [*actions, *_attention(short)]
    if backward:
        overlapped = _overlapped(short, steps[forward:]) if not short.comm_blocking else steps[forward:]
        actions.append(Action("backward", {}, tuple(overlapped)))
    if short.comm_us and (short.comm_blocking or not backward):
        actions.extend([_bucket(short)] * max(1, short.comm_count))
    elif short.comm_us:
        actions.append(Action("stream_wait", {"on": COMPUTE_STREAM, "of": COMM_STREAM}))
    if optimizer:
        actions.append(Action("optimizer", {"kernels": optimizer, "fused": short.optimizer_fused, **_timing(short)}))
        if every and short.kernels % every == 0:
            actions.append(sync)
    return actions


def _timing(short: Shorthand) -> dict[str, Any]:
    return {"us": short.kernel_us, "py_us": short.host_us, "op_us": short.op_us}


def _with_sync(launch: Action, sync: Action, index: int, every: int) -> Action:
    if every and index % every == every - 1:
        return Action("repeat", {}, (launch, sync))
    return launch


def _spread_allocations(short: Shorthand, launches: list[Action]) -> list[Action]:
    """Return the launches with the allocations before them, evenly spread."""
    count = short.malloc_per_step
    malloc = Action("malloc", {"us": short.malloc_us})
    if short.malloc_steps:
        malloc = _once(malloc, short.malloc_steps)
    if not launches:
        return [malloc] * count
    spread: list[Action] = []
    for index, launch in enumerate(launches):
        due = (index + 1) * count // len(launches) - index * count // len(launches)
        spread.extend([*[malloc] * due, launch])
    return spread


def _bucket(short: Shorthand, *, blocking: bool = True) -> Action:
    count = max(1, short.comm_count)
    return Action("comm", {"us": short.comm_us / count, "mb": short.comm_mb, "blocking": blocking})


def _overlapped(short: Shorthand, launches: list[Action]) -> list[Action]:
    """Return the backward pass with its buckets reduced as soon as they are full."""
    if not short.comm_us:
        return launches
    size = max(1, len(launches) // max(1, short.comm_count))
    mixed: list[Action] = []
    for index, launch in enumerate(launches):
        mixed.append(launch)
        if index % size == size - 1 and index // size < short.comm_count:
            mixed.append(_bucket(short, blocking=False))
    return mixed


def _attention(short: Shorthand) -> list[Action]:
    """Return the attention blocks: three kernels that write the score matrix out, or one that does not."""
    if short.attention == "none":
        return []
    timing = _timing(short)
    if short.attention == "fused":
        block = [Action("kernel", {**timing, "class": "attention", "us": short.attention_us})]
    else:
        shares = (("bmm", 0.3), ("softmax", 0.4), ("bmm", 0.3))
        block = [
            Action("kernel", {**timing, "class": name, "us": short.attention_us * share}) for name, share in shares
        ]
    return [Action("repeat", {"count": short.attention_layers}, tuple(block))]


def end_of_step(short: Shorthand) -> list[Action]:
    """Return what a step does after its kernels."""
    end = []
    if short.item_per_step:
        item = Action("item", {"count": short.item_per_step})
        end.append(Action("every", {"steps": short.item_every}, (item,)))
    if short.free_per_step:
        end.append(Action("free", {"us": short.free_us, "count": short.free_per_step}))
    if short.gc_us:
        end.append(Action("every", {"steps": short.gc_every}, (Action("gc", {"us": short.gc_us}),)))
    return end
