"""One process that drives several devices, as torch.nn.DataParallel does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from tracesim.catalogue.kernels import Kernel
from tracesim.catalogue.recording import AUTOGRAD_THREAD, COMPUTE_STREAM, FIRST_REPLICA, Copy
from tracesim.machine.stage import MIB, Stage
from tracesim.scenario.program import Action

_PARTS_MIB = 2  # of the batch and of the results, for each device


def play_replicas(stage: Stage, action: Action) -> None:
    """Run actions on every device of the process: hand out the batch and the weights, work, and gather the results.

    In the backward pass gradients travel the other way. Each device has a thread of its own; as one interpreter runs
    them all, they issue their kernels in turn. The profiler does not see the operators of the forward pass's threads.
    With one device there is nothing to hand out.
    """
    if stage.device_count == 1:
        with nullcontext() if stage.in_backward else stage.machine.tape.slice("annotation", "DataParallel.forward"):
            stage.play(action.body)
        return
    weights_ns = action.ns("us") or round(action.get("mb", 100) * MIB / stage.machine.costs.comm_bytes_per_s * 1e9)
    if stage.in_backward:
        with stage.machine.tape.slice("cpu_op", "autograd::engine::evaluate_function: GatherBackward"):
            _hand_out(stage, "GatherBackward")
        _work(stage, action, AUTOGRAD_THREAD)
        with stage.machine.tape.slice("cpu_op", "autograd::engine::evaluate_function: BroadcastBackward"):
            _transfer(stage, "BroadcastBackward", "Reduce_Sum_f32", weights_ns)
        return
    with stage.machine.tape.slice("annotation", "DataParallel.forward"):
        _hand_out(stage, "Scatter")
        _transfer(stage, "Broadcast", "Broadcast", weights_ns)
        stage.unseen = True
        _work(stage, action, FIRST_REPLICA)
        stage.unseen = False
        _gather(stage)


def _work(stage: Stage, action: Action, first_thread: int) -> None:
    for part in _in_order(action.body):
        for device in range(stage.device_count):
            stage.machine.current = device
            with stage.machine.tape.on_thread(first_thread + device):
                stage.play((part,))
    stage.machine.current = 0


def _in_order(actions: tuple[Action, ...]) -> Iterator[Action]:
    """Yield actions one by one, repeated ones as often as they are."""
    for action in actions:
        if action.name == "repeat":
            for _ in range(action.get("count", 1)):
                yield from _in_order(action.body)
        else:
            yield action


def _transfer(stage: Stage, operator: str, collective: str, dur_ns: int) -> None:
    """Copy all weights to every device, or add up all gradients on the first one, with NCCL."""
    name = f"ncclDevKernel_{collective}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    kernel = Kernel("comm", "fp32", name, (), (), (16, 1, 1), (544, 1, 1), 96, 82_240)
    with stage.machine.tape.slice("cpu_op", operator):
        stage.machine.launch_on_all(kernel, dur_ns, stage.device_count)


def _hand_out(stage: Stage, operator: str) -> None:
    with stage.machine.tape.slice("cpu_op", operator):
        for device in range(1, stage.device_count):
            _copy_between(stage, 0, device)


def _gather(stage: Stage) -> None:
    with stage.machine.tape.slice("cpu_op", "Gather"):
        for device in range(1, stage.device_count):
            _copy_between(stage, device, 0)


def _copy_between(stage: Stage, source: int, target: int) -> None:
    """Copy from one device to another, which waits for it."""
    machine = stage.machine
    machine.current = source
    machine.copy(Copy(_PARTS_MIB * MIB, "PtoP", "device", "device"))
    machine.record_event(COMPUTE_STREAM, "peer")
    machine.current = target
    machine.wait_event(COMPUTE_STREAM, "peer")
    machine.current = 0
