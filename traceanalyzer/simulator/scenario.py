"""A scenario: what a training or inference job does in each step, in a few words or as a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.simulator.devices import DEFAULT_DEVICE, Device, parse_device
from traceanalyzer.simulator.kernels import KERNEL_CLASSES, PRECISIONS
from traceanalyzer.simulator.keys import (
    checked_choice,
    checked_count,
    checked_flag,
    checked_number,
    checked_text,
    reject_unknown_keys,
)
from traceanalyzer.simulator.machine import Costs
from traceanalyzer.simulator.program import Action, parse_program


@dataclass(frozen=True)
class Shorthand:
    """What one step does. Times are in microseconds; counts are a step's."""

    mode: str = "training"  # training: forward, backward on the autograd thread, optimizer; or inference: forward only
    loader_us: float = 300.0  # DataLoader.__next__ in the training thread
    loader_workers: int = 0  # which iterator it is named after
    kernels: int = 200  # compute kernels
    kernel_us: float = 80.0  # duration of each
    kernel_class: str = "gemm"
    kernel_name: str = ""  # overrides the name of every kernel of forward and backward
    precision: str = "bf16"
    host_us: float = 3.0  # Python before each kernel
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


@dataclass(frozen=True)
class Conditions:
    """How the job ran and what its profiler recorded."""

    steps: int = 10
    steps_marked: bool = True  # ProfilerStep#n annotations
    shapes: bool = True
    stacks: bool = False
    memory: bool = False  # allocator events
    sync_events: bool = False  # cuda_sync records
    rank: int = 0
    world_size: int = 1
    launch_us: float = 6.0
    launch_latency_us: float = 2.0
    kernel_gap_us: float = 1.0
    api_min_us: float = 8.0
    sync_return_us: float = 4.0
    event_us: float = 1.0
    graph_launch_us: float = 12.0
    queue_depth: int = 1024
    pinned_gb_per_s: float = 50.0
    pageable_gb_per_s: float = 12.0
    jitter: float = 0.0  # sigma of the log-normal factor on every cost; 0: exact
    host_scale: float = 1.0  # factor on Python and dispatch
    drop_kernels: float = 0.0  # share of device records that the profiler lost
    carry_in: int = 0  # launches of the first kernels that happened before the recording began
    truncate: float = 0.0  # share of the file's bytes that is missing at its end
    no_gpu: bool = False  # the profiler recorded no device activity
    clock_offset_us: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """A checked scenario."""

    device: Device
    conditions: Conditions
    precision: str
    program: tuple[Action, ...]

    def costs(self) -> Costs:
        """Return what things cost."""
        told = self.conditions
        return Costs(
            launch_ns=round(told.launch_us * 1000),
            graph_launch_ns=round(told.graph_launch_us * 1000),
            event_ns=round(told.event_us * 1000),
            launch_latency_ns=round(told.launch_latency_us * 1000),
            kernel_gap_ns=round(told.kernel_gap_us * 1000),
            sync_return_ns=round(told.sync_return_us * 1000),
            api_min_ns=round(told.api_min_us * 1000),
            pinned_bytes_per_s=told.pinned_gb_per_s * 1e9,
            pageable_bytes_per_s=told.pageable_gb_per_s * 1e9,
            queue_depth=max(1, told.queue_depth),
            jitter=told.jitter,
        )


_CHOICES = {
    "mode": ("training", "inference"),
    "kernel_class": KERNEL_CLASSES,
    "precision": PRECISIONS,
    "h2d_stream": ("copy", "compute"),
    "sync_kind": ("device", "stream"),
    "attention": ("none", "unfused", "fused"),
}
_SHARES = ("drop_kernels", "truncate")


def parse_scenario(told: Mapping[str, Any]) -> Scenario:
    """Check a scenario and spell it out as a program; raises with the nearest valid key where one is unknown."""
    shorthand = {field.name: field.default for field in fields(Shorthand)}
    conditions = {field.name: field.default for field in fields(Conditions)}
    known = {*shorthand, *conditions, "device", "program", "faults", "name", "scenario", "ranks"}
    faults = told.get("faults") or {}
    reject_unknown_keys(told, known, "the scenario")
    reject_unknown_keys(faults, known, "faults")
    given = {**told, **faults}
    checked = {
        key: _check(key, value, {**shorthand, **conditions}[key])
        for key, value in given.items()
        if key in shorthand or key in conditions
    }
    short = Shorthand(**{key: value for key, value in checked.items() if key in shorthand})
    how = Conditions(**{key: value for key, value in checked.items() if key in conditions})
    if how.steps < 1:
        raise TraceAnalyzerError("steps: a run has at least one step", "scenario")
    if "program" in given:
        clash = sorted(key for key in checked if key in shorthand and key not in ("precision", "mode"))
        if clash:
            raise TraceAnalyzerError(
                f"{clash[0]!r} cannot be combined with a program", "scenario", "say it as an action of the program"
            )
        program = parse_program(given["program"])
    else:
        program = spell_out(short)
    return Scenario(parse_device(given.get("device", DEFAULT_DEVICE)), how, short.precision, program)


def _check(key: str, value: object, default: object) -> object:
    if key in _CHOICES:
        return checked_choice(value, _CHOICES[key], key)
    if isinstance(default, bool):
        return checked_flag(value, key)
    if isinstance(default, str):
        return checked_text(value, key)
    if isinstance(default, int):
        return checked_count(value, key)
    if key == "clock_offset_us" and isinstance(value, int | float):
        return value
    number = checked_number(value, key)
    if key in _SHARES and number > 1:
        raise TraceAnalyzerError(f"{key}: {value!r} is not a share from 0 to 1", "scenario")
    return number


def spell_out(short: Shorthand) -> tuple[Action, ...]:
    """Return the actions of one step of a shorthand scenario."""
    start = []
    if short.overhead_us:
        start.append(Action("overhead", {"us": short.overhead_us}))
    if short.loader_us:
        start.append(Action("next", {"us": short.loader_us, "workers": short.loader_workers}))
    if short.compile_first_us:
        start.append(_once(Action("compile", {"us": short.compile_first_us})))
    if short.compile_us:
        recompile = Action("compile", {"us": short.compile_us, "recompile": 1})
        start.append(Action("every", {"steps": short.compile_every}, (recompile,)))
    if short.h2d_mb or short.h2d_us:
        start.extend([_input_copy(short)] * short.h2d_count)
    return (*start, *_passes(short), *_end(short))


def _once(action: Action, steps: int = 1) -> Action:
    """Return an action that only the first steps do."""
    return Action("first", {"steps": steps}, (action,))


def _input_copy(short: Shorthand) -> Action:
    told: dict[str, Any] = {"mb": short.h2d_mb, "pinned": short.h2d_pinned, "stream": 20}
    if short.h2d_stream == "compute" or not short.h2d_pinned:
        told["stream"] = 7
    if short.h2d_us:
        told["us"] = short.h2d_us
    if short.h2d_blocking:
        told["blocking"] = True
    return Action("h2d", told)


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
        actions.append(Action("stream_wait", {"on": 7, "of": 24}))
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


def _end(short: Shorthand) -> list[Action]:
    end = []
    if short.item_per_step:
        item = Action("item", {"count": short.item_per_step})
        end.append(Action("every", {"steps": short.item_every}, (item,)))
    if short.free_per_step:
        end.append(Action("free", {"us": short.free_us, "count": short.free_per_step}))
    if short.gc_us:
        end.append(Action("every", {"steps": short.gc_every}, (Action("gc", {"us": short.gc_us}),)))
    return end
