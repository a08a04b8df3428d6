"""The state of a simulation while it plays a workload: the machine, its profiler, and the pass of the training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from tracesim.catalogue.communication import Communicator
from tracesim.catalogue.kernels import Kernel, input_dims, make_kernel
from tracesim.catalogue.recording import AUTOGRAD_THREAD
from tracesim.machine.loader_workers import LoaderWorkers
from tracesim.machine.machine import Machine
from tracesim.scenario.program import Action

MIB = 2**20


@dataclass(frozen=True)
class Recorded:
    """The recording options of the simulated profiler."""

    shapes: bool = True
    stacks: bool = False
    memory: bool = False


@dataclass
class Stage:
    """Plays actions through handlers; kernels are made once per class and precision."""

    machine: Machine
    recorded: Recorded
    precision: str
    handlers: Mapping[str, Callable[[Stage, Action], None]]
    communicator: Communicator
    device_count: int = 1
    loader: LoaderWorkers | None = None
    unseen: bool = False  # on a thread that PyTorch's profiler does not look at: only calls of the runtime are recorded
    in_backward: bool = False
    _kernels: dict[tuple[str, str], Kernel] = field(default_factory=dict)

    def play(self, actions: tuple[Action, ...]) -> None:
        """Play actions in order."""
        for action in actions:
            self.handlers[action.name](self, action)

    def kernel_of(self, action: Action, default_class: str = "gemm") -> Kernel:
        """Return the kernel that an action names."""
        key = (action.get("class", default_class), action.get("prec", self.precision))
        if key not in self._kernels:
            self._kernels[key] = make_kernel(*key, self.machine.device)
        kernel = self._kernels[key]
        if "rows" in action.fields:
            kernel = replace(kernel, row_count=action.fields["rows"])
        return kernel.renamed(action.fields["name"]) if "name" in action.fields else kernel

    def frame(self, name: str) -> AbstractContextManager[None]:
        """Record a Python frame, where stacks are recorded."""
        seen = self.recorded.stacks and not self.unseen
        return self.machine.tape.slice("python", name) if seen else nullcontext()

    def operator(
        self, name: str, kernel: Kernel, dur_ns: int, fields: Mapping[str, Any]
    ) -> AbstractContextManager[None]:
        """Record an operator, with the shapes of its inputs where they are recorded."""
        if self.unseen:
            return nullcontext()
        args: dict[str, Any] = {}
        if self.recorded.shapes and name.startswith("aten::"):
            dims, types = input_dims(name, kernel, dur_ns, self.machine.device)
            args = {"Input Dims": dims, "Input type": types}
        return self.machine.tape.slice("cpu_op", name, args=args, **fields)

    @contextmanager
    def backward_pass(self) -> Iterator[None]:
        """Issue work from the autograd thread, as the backward pass does."""
        with (
            self.frame("torch/autograd/__init__.py(254): backward"),
            self.machine.tape.on_thread(AUTOGRAD_THREAD),
        ):
            self.in_backward = True
            yield
            self.in_backward = False
