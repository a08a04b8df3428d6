"""Programs that XLA compiles for GPUs, played on one clock and written as its profiler writes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xspace import US, Event, PlaneMaker, space

_COPIES = {
    "HtoD": ("MemcpyH2D", "cuMemcpyHtoDAsync_v2", "kind_src:pinned kind_dst:device"),
    "DtoH": ("MemcpyD2H", "cuMemcpyDtoHAsync_v2", "kind_src:device kind_dst:pinned"),
    "DtoD": ("MemcpyD2D", "cuMemcpyDtoDAsync_v2", "kind_src:device kind_dst:device"),
}


class XlaProgram:
    """One process with one GPU and one stream; times are in whole microseconds."""

    def __init__(self, caller: str = "PjitFunction(run_step)", mark: str = "train") -> None:
        self.now_us = 1_000
        self._caller, self._mark = caller, mark
        self._free_us = 0
        self._lines: dict[str, list[Event]] = {"python": [], "py_xla_execute/10": []}
        self._work: list[Event] = []
        self._steps = 0

    def host(self, us: int, name: str | None = None, line: str = "python", **stats: Any) -> None:
        """Let the host work on something, which is recorded where it has a name."""
        if name is not None:
            self._lines.setdefault(line, []).append((self.now_us * US, us * US, name, stats))
        self.now_us += us

    @contextmanager
    def step(self) -> Iterator[None]:
        """Mark a step around what happens inside, and wait for the device at its end."""
        begin_us = self.now_us
        yield
        self.wait()
        lasts_us = self.now_us - begin_us
        self._lines["python"].append((begin_us * US, lasts_us * US, self._mark, {"_r": 1, "step_num": self._steps}))
        self._lines["python"].append(((begin_us + 1) * US, (lasts_us - 2) * US, self._caller, {"_src": "step.py:1"}))
        self._steps += 1

    def launch(self, kernel: str, us: int, hlo_op: str) -> None:
        """Launch a kernel of a compiled program."""
        details = "regs:64 static_shared:0 dynamic_shared:0 grid:2048,1,1 block:256,1,1 occ_pct:50"
        self._queue("cuLaunchKernel", kernel, us, kernel_details=details, hlo_op=hlo_op, hlo_module="jit_run_step")

    def copy(self, kind: str, size_bytes: int, us: int) -> None:
        """Queue a copy."""
        name, call, kinds = _COPIES[kind]
        self._queue(call, name, us, memcpy_details=f"{kinds} size:{size_bytes} dest:0 async:1")

    def wait(self) -> None:
        """Wait for the device."""
        end_us = max(self.now_us + 2, self._free_us + 4)
        self.host(end_us - self.now_us, "cuStreamSynchronize", "py_xla_execute/10")

    def _queue(self, call: str, name: str, us: int, **stats: Any) -> None:
        number = len(self._work) + 1
        self.host(4, call, "py_xla_execute/10", device_id=0, correlation_id=number)
        start_us = max(self.now_us + 2, self._free_us + 1)
        self._free_us = start_us + us
        self._work.append((start_us * US, us * US, name, {"correlation_id": number, **stats}))

    def content(self) -> bytes:
        """Return the profile."""
        device = PlaneMaker("/device:GPU:0").line(13, "Stream #13(Compute,MemcpyH2D,MemcpyD2H)", self._work, 0)
        device.stats = {"gpu_device_name": "NVIDIA A100-SXM4-40GB", "device_vendor": "Nvidia", "core_count": 108}
        device.stats |= {"compute_cap_major": 8, "compute_cap_minor": 0}
        host = PlaneMaker("/host:CPU")
        for number, (name, events) in enumerate(self._lines.items()):
            host.line(9 + number, name, events, 0)
        return space(device, host)
