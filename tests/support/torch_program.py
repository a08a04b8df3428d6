"""Programs with PyTorch, played on one clock and written as its profiler writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BASE_NS = 1_775_078_550_000_000_000
_LATENCY_US = 4.0
_GAP_US = 1.0
_QUEUE = 1_000  # launches that the driver takes before it blocks the host
# The call of Level Zero in each call of SYCL's runtime.
_LEVEL_ZERO = {
    "urEnqueueKernelLaunch": "zeCommandListAppendLaunchKernel",
    "urEnqueueUSMMemcpy": "zeCommandListAppendMemoryCopy",
    "urEventWait": "zeEventHostSynchronize",
    "urQueueFinish": "zeCommandListHostSynchronize",
    "urUSMDeviceAlloc": "zeMemAllocDevice",
    "urUSMHostAlloc": "zeMemAllocHost",
    "urUSMFree": "zeMemFree",
    "urProgramBuild": "zeModuleCreate",
}
# What the profiler of Intel's devices calls memory of malloc, pinned memory, and copies.
_SYCL_KINDS = {
    ("HtoD", False): "M2D (MEMORY(Unknown) -> DEVICE)",
    ("HtoD", True): "H2D (HOST -> DEVICE)",
    ("DtoH", False): "D2M (DEVICE -> MEMORY(Unknown))",
    ("DtoH", True): "D2H (DEVICE -> HOST)",
    ("DtoD", False): "D2D (DEVICE -> DEVICE)",
}
_KINDS = {"HtoD": ("{} -> Device", "HtoD"), "DtoH": ("Device -> {}", "DtoH"), "DtoD": ("Device -> Device", "DtoD")}

# Kernels that many programs run.
GEMM = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"
SGEMM = "ampere_sgemm_128x128_tn"
MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>, at::Array<char*, 3> >(int)"
FUSED = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::FusedOptimizerTensorListMetadata<4>>"
)


@dataclass(frozen=True)
class Gpu:
    """A device as `deviceProperties` describes it."""

    name: str
    sms: int
    major: int
    minor: int = 0
    memory_gib: int = 80
    vendor: str = "nvidia"


T4 = Gpu("Tesla T4", 40, 7, 5, 15)
V100 = Gpu("Tesla V100-SXM2-16GB", 80, 7, 0, 16)
RTX_3060 = Gpu("NVIDIA GeForce RTX 3060", 28, 8, 6, 12)
RTX_3090 = Gpu("NVIDIA GeForce RTX 3090", 82, 8, 6, 24)
RTX_4090 = Gpu("NVIDIA GeForce RTX 4090", 128, 8, 9, 24)
A10G = Gpu("NVIDIA A10G", 80, 8, 6, 22)
A100 = Gpu("NVIDIA A100-SXM4-80GB", 108, 8, 0, 80)
H100 = Gpu("NVIDIA H100 80GB HBM3", 132, 9, 0, 80)
H200 = Gpu("NVIDIA H200", 132, 9, 0, 141)
B200 = Gpu("NVIDIA B200", 148, 10, 0, 180)
ORIN = Gpu("Orin", 16, 8, 7, 61)
PVC = Gpu("Intel(R) Data Center GPU Max 1550", 0, 0, 0, 64, "intel")
MI300 = Gpu("AMD Instinct MI300X", 304, 9, 4, 192, "amd")


class TorchProgram:
    """One process with one device; times are in microseconds."""

    def __init__(self, gpu: Gpu, *, rank: int | None = None, world: int = 1, op_us: float = 4.0) -> None:
        self.gpu, self.rank, self.world = gpu, rank, world
        self.op_us = op_us  # what an operator costs the host beside its launch
        self.now_us = 1_000.0
        self.events: list[dict[str, Any]] = []
        self.device = 0 if rank is None else rank
        self._used = {self.device}
        self._free: dict[int, float] = {}
        self._starts: list[float] = []
        self._number = 0
        self._index = 0
        self._operators: list[int] = []
        self.thread = 4_400

    @property
    def free_us(self) -> float:
        """When the device has done all that is queued."""
        return max(self._free.values(), default=0.0)

    def host(self, us: float) -> None:
        """Let the host work on something that is not recorded."""
        self.now_us += us

    @contextmanager
    def on(self, thread: int) -> Iterator[None]:
        """Work on another thread, as the backward pass does, while this one waits."""
        before, self.thread = self.thread, thread
        yield
        self.thread = before

    @contextmanager
    def inside(self, category: str, name: str, **args: Any) -> Iterator[None]:
        """Record a slice around what happens inside."""
        start_us = self.now_us
        own = {"External id": self._index + 1, "Ev Idx": self._index} if category != "python_function" else {}
        self._index += bool(own)
        if category == "cpu_op":
            self._operators.append(self._index)
        self.now_us += 0.2 if category == "cpu_op" else 0
        yield
        if category == "cpu_op":
            self._operators.pop()
            self.now_us += 0.3
        self._slice(category, name, start_us, self.now_us, **own, **args)

    def step(self, number: int) -> Any:
        """Mark a step of the profiler."""
        return self.inside("user_annotation", f"ProfilerStep#{number}")

    def op(self, name: str, shapes: Sequence[Any] | None = None, kind: str = "float") -> Any:
        """Record an operator around what happens inside."""
        self.now_us += self.op_us / 2
        args = {} if shapes is None else {"Input Dims": shapes, "Input type": [kind] * len(shapes)}
        return self.inside("cpu_op", name, **args)

    def call(self, name: str, us: float, *, waits: bool = False, category: str = "cuda_runtime", **args: Any) -> int:
        """Make a call, which waits for the device if it has to; returns its correlation."""
        start_us = self.now_us
        self._number += 1
        self.now_us = max(start_us + us, self.free_us + 3 if waits else 0)
        around = {"External id": self._operators[-1]} if self._operators else {}
        if self.gpu.vendor == "intel":
            self._slice("xpu_runtime", name, start_us, self.now_us, **around, correlation=self._number, **args)
            driver = _LEVEL_ZERO[name]
            self._slice("xpu_driver", driver, start_us + 0.2, self.now_us - 0.2, **around, correlation=self._number)
            return self._number
        key = "cid" if self.gpu.vendor == "amd" else "cbid"
        self._slice(category, name, start_us, self.now_us, **around, **{key: 211}, correlation=self._number, **args)
        return self._number

    def synchronize(self, what: str = "Device") -> None:
        """Wait for the device."""
        name = {"amd": f"hip{what}Synchronize", "intel": "urQueueFinish"}.get(self.gpu.vendor, f"cuda{what}Synchronize")
        self.call(name, 4, waits=True)

    def launch(
        self,
        name: str,
        us: float,
        grid: int = 256,
        block: int = 128,
        *,
        stream: int = 7,
        call_us: float = 4.5,
        **args: Any,
    ) -> None:
        """Launch a kernel, alone or in an operator that is open."""
        if len(self._starts) >= _QUEUE:
            self.now_us = max(self.now_us, self._starts[-_QUEUE])
        call = {"amd": "hipLaunchKernel", "intel": "urEnqueueKernelLaunch"}.get(self.gpu.vendor, "cudaLaunchKernel")
        number = self.call(call, call_us)
        self._flow("s", number)
        self._kernel(name, us, grid, block, number, stream, **args)

    def run(self, operator: str, name: str, us: float, grid: int = 256, block: int = 128, **args: Any) -> None:
        """Run one operator with one kernel."""
        with self.op(operator):
            self.launch(name, us, grid, block, **args)
        self.now_us += self.op_us / 2

    def backward(self, node: str, operator: str, kernel: str, us: float, grid: int = 512) -> None:
        """Run one operator of the backward pass."""
        with self.on(4_500), self.op(f"autograd::engine::evaluate_function: {node}"):
            self.run(operator, kernel, us, grid)

    def update(self, us: float, optimizer: str = "Adam") -> None:
        """Run the fused step of an optimizer."""
        with self.inside("user_annotation", f"Optimizer.step#{optimizer}.step"):
            self.run(f"aten::_fused_{optimizer.lower()}_", FUSED, us, 400)

    def move(self, kind: str, size_bytes: int, us: float, *, pinned: bool = False) -> None:
        """Copy as tensor.to() does."""
        with self.op("aten::to"), self.op("aten::_to_copy"), self.op("aten::copy_"):
            self.copy(kind, size_bytes, us, pinned=pinned)

    def replay(self, kernels: Sequence[tuple[str, float, int, int]], *, call_us: float = 60) -> None:
        """Launch a graph with kernels that follow each other closely."""
        number = self.call("cudaGraphLaunch", call_us)
        self._flow("s", number)
        for node, (name, us, grid, block) in enumerate(kernels):
            self._kernel(name, us, grid, block, number, 7, gap_us=0.8, **{"graph id": 2, "graph node id": node + 1})

    def copy(self, kind: str, size_bytes: int, us: float, *, pinned: bool = False, waits: bool | None = None) -> None:
        """Copy as aten::copy_ does: from or to pageable memory the host waits until it is done."""
        amd = self.gpu.vendor == "amd"
        waits = (kind != "DtoD" and not pinned) if waits is None else waits
        queued_us = self.now_us
        start_us = max(queued_us + _LATENCY_US, self._free.get(7, 0) + _GAP_US)
        if kind == "HtoD" and not pinned:  # the host fills a staging buffer first
            start_us = max(start_us, queued_us + 6)
        self._free[7] = start_us + us
        rate = {"bytes": size_bytes, "memory bandwidth (GB/s)": size_bytes / us / 1e3}
        if self.gpu.vendor == "intel":
            number = self.call("urEnqueueUSMMemcpy", 6)
            self._flow("s", number)
            if waits:
                self.call("urEventWait", 3, waits=True)
            self._device("gpu_memcpy", f"Memcpy {_SYCL_KINDS[kind, pinned]}", start_us, us, number, 7, **rate)
            return
        number = self.call(
            "hipMemcpyWithStream" if amd and waits else "cudaMemcpyAsync", 6, waits=waits and kind == "HtoD"
        )
        self._flow("s", number)
        if waits and kind == "DtoH" and not amd:
            self.call("cudaStreamSynchronize", 3, waits=True)
        text, short = _KINDS[kind]
        words = text.format("Pinned" if pinned else "Pageable")
        self._device("gpu_memcpy", f"Memcpy {short} ({words})", start_us, us, number, 7, **rate)

    def to_device(self, other: int, size_bytes: int, us: float) -> None:
        """Go on on another device: tensor.to(f"cuda:{other}"), and streams of both wait for each other."""
        source, target = (device * 100 + 7 for device in (self.device, other))
        with self.op("aten::to"), self.op("aten::_to_copy"), self.op("aten::copy_"):
            self.after(source, target)
            number = self.call("cudaMemcpyPeerAsync", 6)
            self._flow("s", number)
            start_us = max(self.now_us + _LATENCY_US, self._free.get(source, 0) + _GAP_US)
            self._free[source] = start_us + us
            name = "Memcpy PtoP (Device -> Device)"
            self._device("gpu_memcpy", name, start_us, us, number, source, bytes=size_bytes)
            self.after(target, source)
        self.device = other
        self._used.add(other)

    def item(self) -> None:
        """Read one value: tensor.item()."""
        with self.op("aten::item"), self.op("aten::_local_scalar_dense"):
            self.copy("DtoH", 4, 1.2, waits=True)

    def collective(
        self, kind: str, name: str, us: float, elements: int, *, stream: int = 20, begins_us: float | None = None
    ) -> float:
        """Run a collective on a stream of its own, after what is queued; returns its end."""
        args = {
            "Collective name": kind,
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "Group size": self.world,
            "dtype": "Float" if "_f32_" in name else "BFloat16",
            "Process Group Name": "0",
            "Process Group Ranks": str(list(range(self.world))),
        }
        with self.op(f"c10d::{kind}_"), self.inside("cpu_op", "record_param_comms", **args):
            number = self.call("cudaLaunchKernelExC", 8)
            self._flow("s", number)
            start_us = max(self.now_us + _LATENCY_US, self._free.get(stream, 0) + _GAP_US, begins_us or 0)
            self._free[stream] = start_us + us
            shape = {"grid": [24, 1, 1], "block": [640, 1, 1], **args}
            self._device("kernel", name, start_us, us, number, stream, **shape)
        return self._free[stream]

    def after(self, stream: int, other: int) -> None:
        """Let a stream wait for another one."""
        self.call("cudaEventRecord", 1.5)
        self.call("cudaStreamWaitEvent", 1.5)
        self._free[stream] = max(self._free.get(stream, 0), self._free.get(other, 0))

    def _kernel(
        self,
        name: str,
        us: float,
        grid: int,
        block: int,
        number: int,
        stream: int,
        *,
        gap_us: float = _GAP_US,
        **args: Any,
    ) -> None:
        start_us = max(self.now_us + _LATENCY_US, self._free.get(stream, 0) + gap_us)
        self._free[stream] = start_us + us
        self._starts.append(start_us)
        shape: dict[str, Any] = {"grid": [grid, 1, 1], "block": [block, 1, 1]}
        if self.gpu.vendor == "nvidia":
            shape |= {"registers per thread": 32, "shared memory": 0}
            shape |= {"blocks per SM": grid / self.gpu.sms, "warps per SM": grid * block / 32 / self.gpu.sms}
            shape |= {"est. achieved occupancy %": min(100, round(100 * grid * block / self.gpu.sms / 2048))}
        elif self.gpu.vendor == "amd":
            shape |= {"kind": "Dispatch Kernel"}
        else:  # Intel's says neither grid nor block
            shape = {"kernel_id": number}
        self._device("kernel", name, start_us, us, number, stream, **shape, **args)

    def _device(
        self, category: str, name: str, start_us: float, us: float, number: int, stream: int, **args: Any
    ) -> None:
        where: dict[str, Any] = {"device": self.device, "context": 1, "stream": stream, "correlation": number}
        if self.gpu.vendor == "intel":
            where |= {"context": "0x000055d08918fc78", "sycl queue": 64, "l0 queue": "0x000055d08b8fc138"}
            del where["stream"]
        around = {"External id": self._operators[-1]} if self._operators else {}
        self._slice(category, name, start_us, start_us + us, pid=self.device, tid=stream, **around, **where, **args)
        self._flow("f", number, start_us, self.device, stream)

    def _slice(self, category: str, name: str, start_us: float, end_us: float, **args: Any) -> None:
        where = {"pid": args.pop("pid", 4_400), "tid": args.pop("tid", self.thread)}
        times = {"ts": round(start_us, 3), "dur": round(end_us - start_us, 3)}
        self.events.append({"ph": "X", "cat": category, "name": name, **where, **times, "args": args})

    def _flow(
        self, phase: str, number: int, at_us: float | None = None, pid: int = 4_400, tid: int | None = None
    ) -> None:
        at_us = self.now_us - 0.5 if at_us is None else at_us
        flow = {"ph": phase, "id": number, "pid": pid, "tid": self.thread if tid is None else tid}
        bound = {"bp": "e"} if phase == "f" else {}
        self.events.append({**flow, "ts": round(at_us, 3), "cat": "ac2g", "name": "ac2g", **bound})

    def document(self) -> dict[str, Any]:
        """Return the whole trace as the profiler writes it."""
        gpu = self.gpu
        properties = {
            "name": gpu.name,
            "totalGlobalMem": gpu.memory_gib << 30,
            "computeMajor": gpu.major,
            "computeMinor": gpu.minor,
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerMultiprocessor": 1536 if (gpu.major, gpu.minor) in ((8, 6), (8, 9)) else 2048,
            "regsPerBlock": 65536,
            "warpSize": 64 if gpu.vendor == "amd" else 32,
            "sharedMemPerBlock": 49152,
            "numSms": gpu.sms,
        }
        versions: dict[str, dict[str, Any]] = {
            "amd": {"roctracer_version": 4.1},
            "nvidia": {"cupti_version": 24, "cuda_runtime_version": 12040},
            "intel": {},
        }
        run = versions[gpu.vendor]
        if self.rank is not None:
            run["distributedInfo"] = {"backend": "nccl", "rank": self.rank, "world_size": self.world}
        names = [
            {"name": "process_name", "ph": "M", "ts": 0, "pid": 4_400, "tid": 0, "args": {"name": "python"}},
            {"name": "process_labels", "ph": "M", "ts": 0, "pid": 4_400, "tid": 0, "args": {"labels": "CPU"}},
        ]
        for device in sorted(self._used):
            where = {"ph": "M", "ts": 0, "pid": device, "tid": 0}
            names.append({"name": "process_name", **where, "args": {"name": "python"}})
            names.append({"name": "process_labels", **where, "args": {"labels": "GPU 0"}})
        end_us = max(event["ts"] + event.get("dur", 0) for event in self.events)
        span = {"ph": "X", "cat": "Trace", "ts": 900.0, "dur": round(end_us - 900, 3), "pid": "Spans"}
        span |= {"tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": {"Op count": 0}}
        last = {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": round(end_us + 50, 3)}
        return {
            "schemaVersion": 1,
            **(
                {"deviceProperties": [{"id": device, **properties} for device in sorted(self._used)]}
                if gpu.vendor != "intel"
                else {}
            ),
            **run,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": _BASE_NS,
            "traceEvents": [*self.events, *names, span, last],
            "traceName": "trace.json",
        }

    def write(self, path: Path) -> Path:
        """Write the trace."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.document()))
        return path
