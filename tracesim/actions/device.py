"""Work for the device, with the operators and runtime calls that PyTorch makes around it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from tracesim.catalogue.recording import COMPUTE_STREAM, COPY_STREAM, Copy
from tracesim.machine.stage import MIB, Stage
from tracesim.scenario.program import Action


def play_kernel(stage: Stage, action: Action) -> None:
    """Launch one kernel through its operators, those of the backward pass where that runs."""
    kernel = stage.kernel_of(action)
    machine = stage.machine
    if not stage.in_backward:
        machine.spend("host.python", action.ns("py_us"), "py")
    names = [action.fields["op"]] if "op" in action.fields else list(kernel.forward_ops)
    fields: dict[str, Any] = {}
    if stage.in_backward:
        names = list(kernel.backward_ops)
        if not names[0].startswith("aten::"):
            names = [f"autograd::engine::evaluate_function: {names[0]}", *names]
        fields = {"sequence": machine.tape.next_sequence(), "forward_thread": 1}
    stream = action.get("stream", COMPUTE_STREAM)
    dur_ns, op_ns = action.ns("us", 10.0), action.ns("op_us")
    with ExitStack() as stack:
        for depth, name in enumerate(names):
            stack.enter_context(stage.operator(name, kernel, dur_ns, {} if depth == 2 else fields))
            if stage.in_backward and depth == 0:
                # No Python runs on the autograd thread: what precedes a kernel there is the engine's own work.
                machine.spend("host.op", action.ns("py_us"), "py")
            # Dispatch takes its time on the way in, shared by the operators around the launch.
            share_ns = op_ns // len(names) + (op_ns % len(names) if depth == 0 else 0)
            machine.spend("host.op", share_ns, f"op {depth}")
        for awaited in action.get("wait", ()):
            machine.record_event(awaited)
            machine.wait_event(stream, awaited)
        if "module_load_us" in action.fields:
            machine.overhead("Lazy Function Loading", action.ns("module_load_us"), "host.module_load")
        if stage.recorded.memory:
            machine.tape.allocate(16 * MIB)
            machine.tape.allocate(-16 * MIB)
        machine.launch(kernel, dur_ns, stream, on_host_bytes=round(action.get("on_host_mb", 0) * MIB))


def play_backward(stage: Stage, action: Action) -> None:
    """Run actions as the backward pass: from the autograd thread, while the main thread waits."""
    with stage.backward_pass():
        for _ in range(action.get("repeat", 1)):
            stage.play(action.body)


# What AdamW does for each parameter, or for all of them at once.
_ADAMW = ("mul_", "lerp_", "mul_", "addcmul_", "sqrt", "div", "add_", "addcdiv_")
# Parameters whose pointers fit into the arguments of one multi-tensor kernel.
_TENSORS_AT_ONCE = 30


def play_optimizer(stage: Stage, action: Action) -> None:
    """Update the parameters: a few fused kernels, or many small ones."""
    name = action.get("name", "AdamW")
    if "parameters" in action.fields:
        _update(stage, action, name)
        return
    kernel_class = "optimizer" if action.get("fused", True) else "elementwise"
    fields = {key: value for key, value in action.fields.items() if key in ("us", "py_us", "op_us")}
    launch = Action("kernel", {"class": kernel_class, "prec": "fp32", **fields})
    with stage.machine.tape.slice("annotation", f"Optimizer.step#{name}.step"):
        for _ in range(action.get("kernels", 1)):
            play_kernel(stage, launch)


def _update(stage: Stage, action: Action, name: str) -> None:
    """Update so many parameters: one kernel for some at a time, or a chain of kernels for each."""
    count, foreach = action.fields["parameters"], action.get("foreach", False)
    fields = {key: value for key, value in action.fields.items() if key in ("us", "py_us", "op_us")}
    fields |= {"class": "optimizer" if foreach else "elementwise", "prec": "fp32"}
    prefix, rounds = ("aten::_foreach_", -(-count // _TENSORS_AT_ONCE)) if foreach else ("aten::", count)
    with stage.machine.tape.slice("annotation", f"Optimizer.step#{name}.step"):
        for _ in range(rounds):
            for operator in _ADAMW:
                play_kernel(stage, Action("kernel", {**fields, "op": prefix + operator}))


def play_graph(stage: Stage, action: Action) -> None:
    """Replay the CUDA graph that was captured last, or one of so many equal kernels."""
    if "kernels" not in action.fields and stage.machine.graph:
        stage.machine.launch_graph(stage.machine.graph)
        return
    kernel = stage.kernel_of(action)
    stage.machine.launch_graph([(kernel, action.ns("us", 10.0))] * max(1, action.get("kernels", 1)))


def play_capture(stage: Stage, action: Action) -> None:
    """Record the launches of actions as a CUDA graph, as torch.cuda.graph() does, and make it ready for replays."""
    machine = stage.machine
    machine.graph, machine.capturing = [], True
    machine.call("StreamBeginCapture", machine.costs.event_ns, "host.compile")
    stage.play(action.body)
    machine.call("StreamEndCapture", machine.costs.event_ns, "host.compile")
    machine.capturing = False
    machine.call("GraphInstantiateWithFlags", action.ns("instantiate_us", 1_000.0), "host.compile")


def play_h2d(stage: Stage, action: Action) -> None:
    """Copy a batch to the device; the compute stream waits for a copy on another stream."""
    pinned = action.get("pinned", True)
    stream = action.get("stream", COPY_STREAM if pinned else COMPUTE_STREAM)
    copy = Copy(round(action.get("mb", 2) * MIB), "HtoD", "pinned" if pinned else "pageable", "device")
    _copy(stage, action, copy, stream)
    if stream != COMPUTE_STREAM and action.get("wait", True):
        stage.machine.record_event(stream)
        stage.machine.wait_event(COMPUTE_STREAM, stream)


def play_d2h(stage: Stage, action: Action) -> None:
    """Copy results to the host."""
    pinned = action.get("pinned", True)
    copy = Copy(round(action.get("mb", 2) * MIB), "DtoH", "device", "pinned" if pinned else "pageable")
    _copy(stage, action, copy, action.get("stream", COMPUTE_STREAM))


def _copy(stage: Stage, action: Action, copy: Copy, stream: int) -> None:
    machine = stage.machine
    dur_ns = action.ns("us") if "us" in action.fields else None
    pageable = "pageable" in (copy.src_kind, copy.dst_kind)
    with (
        machine.tape.slice("cpu_op", "aten::to"),
        machine.tape.slice("cpu_op", "aten::_to_copy"),
        machine.tape.slice("cpu_op", "aten::copy_"),
    ):
        machine.copy(copy, dur_ns, stream)
        # PyTorch follows every copy that is not non_blocking with a synchronisation of the stream; after a copy from
        # pageable memory there is nothing left to wait for.
        if action.get("blocking", pageable) and not (pageable and "host.memcpy_block" in machine.without.removed):
            machine.synchronize("stream", stream)


def play_memset(stage: Stage, action: Action) -> None:
    """Zero memory."""
    size_bytes = round(action.get("mb", 1) * MIB)
    with stage.machine.tape.slice("cpu_op", "aten::zero_"):
        stage.machine.memset(size_bytes, action.ns("us", 2.0), action.get("stream", COMPUTE_STREAM))


def play_prefetch(stage: Stage, action: Action) -> None:
    """Move managed memory to the device with cudaMemPrefetchAsync, beside the kernels that run."""
    stage.machine.prefetch(round(action.get("mb", 2) * MIB))


def play_occupied(stage: Stage, action: Action) -> None:
    """Let the device work for another process before the next op of a stream, which is not recorded."""
    stage.machine.occupy(action.ns("us"), action.get("stream", COMPUTE_STREAM))


def play_item(stage: Stage, action: Action) -> None:
    """Read a scalar back, which waits for everything queued before it."""
    machine = stage.machine
    if "host.sync" in machine.without.removed:
        return
    for _ in range(action.get("count", 1)):
        with machine.tape.slice("cpu_op", "aten::item"), machine.tape.slice("cpu_op", "aten::_local_scalar_dense"):
            machine.copy(Copy(4, "DtoH", "device", "pinned"), 1_000, COMPUTE_STREAM)
            machine.synchronize("stream", COMPUTE_STREAM)


def play_event_record(stage: Stage, action: Action) -> None:
    """Mark the work queued on a stream."""
    stage.machine.record_event(action.get("stream", COMPUTE_STREAM), action.fields.get("event"))


def play_stream_wait(stage: Stage, action: Action) -> None:
    """Let one stream wait for an event by its name, or for the last event of another stream."""
    awaited = action.fields.get("event", action.get("of", COPY_STREAM))
    stage.machine.wait_event(action.get("on", COMPUTE_STREAM), awaited)
