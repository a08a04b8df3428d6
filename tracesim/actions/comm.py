"""Communication between ranks, with the operators and arguments that PyTorch records about it."""

from __future__ import annotations

from typing import Any

from tracesim.catalogue.communication import COLLECTIVES, DEFAULT_GROUP, MESSAGE_KERNEL
from tracesim.catalogue.kernels import Kernel
from tracesim.catalogue.recording import COMM_STREAM, COMPUTE_STREAM, Collective
from tracesim.machine.stage import MIB, Stage
from tracesim.scenario.program import Action

# Ranks that a trace lists in full.
_LISTED_RANKS = 30


def play_comm(stage: Stage, action: Action) -> None:
    """Let a group communicate on the communication stream, after all that was asked of the stream that issues it.

    Compute waits for it where it is blocking.
    """
    group = stage.communicator.group(action.get("group", DEFAULT_GROUP))
    if group is None:
        return
    kind = COLLECTIVES[action.get("op", "all_reduce")]
    elements = round(action.get("mb", 25) * MIB) // 4
    dur_ns = _transfer_ns(stage, action, elements, kind.moved_share(len(group.ranks)))
    collective = stage.communicator.collective(kind, group, elements)
    _communicate(stage, action, collective, dur_ns, (kind.operator, kind.annotation, action.get("name", kind.kernel)))


def play_send(stage: Stage, action: Action) -> None:
    """Send to another rank, which receives."""
    _play_message(stage, action, f"nccl:send {stage.communicator.rank}->{action.fields['to']}")


def play_recv(stage: Stage, action: Action) -> None:
    """Receive what another rank sends."""
    _play_message(stage, action, f"nccl:recv {stage.communicator.rank}<-{action.fields['from']}")


def play_exchange(stage: Stage, action: Action) -> None:
    """Send to one rank and receive from one, in one kernel."""
    _play_message(stage, action, "nccl:coalesced")


def _play_message(stage: Stage, action: Action, annotation: str) -> None:
    elements = round(action.get("mb", 8) * MIB) // 4
    dur_ns = _transfer_ns(stage, action, elements, 1.0)
    message = stage.communicator.messages(action.fields.get("to"), action.fields.get("from"), elements)
    operator = {"send": "c10d::send", "recv": "c10d::recv_"}.get(message.name, "c10d::batch_isend_irecv")
    _communicate(stage, action, message, dur_ns, (operator, annotation, MESSAGE_KERNEL))


def _transfer_ns(stage: Stage, action: Action, elements: int, share: float) -> int:
    """Return how long the transfer takes once all are ready: the given time, else latency and bytes over bandwidth."""
    if "us" in action.fields:
        return action.ns("us")
    costs = stage.machine.costs
    return costs.comm_latency_ns + round(4 * elements * share / costs.comm_bytes_per_s * 1e9)


def _communicate(
    stage: Stage, action: Action, collective: Collective, dur_ns: int, names: tuple[str, str, str]
) -> None:
    machine = stage.machine
    stream = action.get("stream", COMM_STREAM)
    operator, annotation, kernel_name = names
    kernel = Kernel("comm", "fp32", kernel_name, (), (), (16, 1, 1), (544, 1, 1), 96, 82_240)
    args = {"Input Dims": [[[collective.in_elements]]], "Input type": ["float"]} if stage.recorded.shapes else {}
    with (
        machine.tape.slice("cpu_op", operator, args=args),
        machine.tape.slice("cpu_op", "record_param_comms", args=collective_args(collective)),
        machine.tape.slice("annotation", annotation),
    ):
        issued_on = action.get("after", COMPUTE_STREAM)
        machine.record_event(issued_on)
        machine.wait_event(stream, issued_on)
        machine.launch(kernel, dur_ns, stream, collective)
        machine.record_event(stream, action.fields.get("event"))
    if action.get("blocking", True):
        machine.wait_event(COMPUTE_STREAM, stream)


def collective_args(collective: Collective) -> dict[str, Any]:
    """Return the arguments that PyTorch records about a collective, on the operator and on its kernel."""
    ranks = list(collective.group.ranks)
    shown = str(ranks) if len(ranks) <= _LISTED_RANKS else f"[{', '.join(map(str, ranks[:_LISTED_RANKS]))}, ...]"
    args: dict[str, Any] = {
        "Collective name": collective.name,
        "In msg nelems": collective.in_elements,
        "Out msg nelems": collective.out_elements,
        "Group size": len(ranks),
        "dtype": collective.dtype,
        "In split size": "[]",
        "Out split size": "[]",
        "Process Group Name": collective.group.name,
        "Process Group Description": collective.group.description,
        "Process Group Ranks": shown,
        "Seq": collective.sequence,
    }
    # PyTorch writes the peer, and not the rank itself.
    if collective.is_message and collective.name != "send":
        args["Src Rank"] = collective.source
    if collective.is_message and collective.name != "recv":
        args["Dst Rank"] = collective.target
    return args
