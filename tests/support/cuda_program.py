"""Programs in CUDA C++ or with directives, played on one clock and written as Nsight Systems exports them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nsys_export import GRAPH, KERNEL, MEMCPY, MEMSET, RUNTIME, SYNC, global_pid, global_tid, write_sqlite

A100 = {"name": "NVIDIA A100-SXM4-40GB", "smCount": 108, "computeMajor": 8, "computeMinor": 0, "isDiscrete": 1}
ORIN = {"name": "Orin", "smCount": 16, "computeMajor": 8, "computeMinor": 7, "isDiscrete": 0}
GH200 = {"name": "NVIDIA GH200 480GB", "smCount": 132, "computeMajor": 9, "computeMinor": 0, "isDiscrete": 1}
_LATENCY_US = 2.0
_SYNC_TYPES = {"cudaDeviceSynchronize_v3020": 4, "cudaStreamSynchronize_v3020": 3, "cuStreamSynchronize": 3}
_MOVES = {"HtoD": 11, "DtoH": 12}


class CudaProgram:
    """One process with one host thread and one stream a device; times are in microseconds."""

    def __init__(self, device: dict[str, Any], *, pid: int = 10, device_id: int = 0, driver_api: bool = False) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.now_us = 1_000.0
        self.free_us = 0.0  # when the stream of the device in use has done all that is queued
        self._free_us = {device_id: 0.0}
        self._device, self._pid, self._device_id = device, pid, device_id
        self._driver_api = driver_api
        self._correlation = 0
        self._texts: dict[str, int] = {}

    def use(self, device_id: int) -> None:
        """Go on on another device of the process."""
        self._free_us[self._device_id] = self.free_us
        self._device_id, self.free_us = device_id, self._free_us.setdefault(device_id, 0.0)

    def host(self, us: float) -> None:
        """Let the host work on something that is not recorded."""
        self.now_us += us

    def system(self, name: str, us: float) -> None:
        """Spend time in a call of the operating system."""
        start_us = self.now_us
        self.now_us += us
        where = {"globalTid": global_tid(self._pid), "nameId": self._text(name), "eventClass": 27, "returnValue": 0}
        self._add("OSRT_API", start_us, self.now_us, **where, nestingLevel=0)

    @contextmanager
    def directive(self, table: str, name: str) -> Iterator[None]:
        """Record a construct of OpenACC around calls."""
        start_us = self.now_us
        yield
        where = {"globalTid": global_tid(self._pid), "nameId": self._text(name), "lineNo": 100, "eventKind": 9}
        self._add(f"CUPTI_ACTIVITY_KIND_OPENACC_{table}", start_us, self.now_us, eventClass=88, **where)

    def call(self, name: str, us: float, *, waits: bool = False) -> int:
        """Make a call, which waits for the device if it has to; returns its correlation."""
        start_us = self.now_us
        self._correlation += 1
        self.now_us = max(start_us + us, self.free_us + 4 if waits else 0)
        kind = {"eventClass": int(name.startswith("cu") and not name.startswith("cuda")), "returnValue": 0}
        where = {"globalTid": global_tid(self._pid), "correlationId": self._correlation, "nameId": self._text(name)}
        self._add(RUNTIME, start_us, self.now_us, **kind, **where)
        if name in _SYNC_TYPES:
            kept = {"syncType": _SYNC_TYPES[name], "eventId": 0xFFFFFFFF, "eventSyncId": 0}
            self._add(SYNC, start_us + 0.5, self.now_us - 0.5, **self._where(), **kept)
        return self._correlation

    def exchange(self, name: str, us: float) -> None:
        """Call MPI, which needs so long."""
        table = "MPI_COLLECTIVES_EVENTS" if name == "MPI_Allreduce" else "MPI_START_WAIT_EVENTS"
        start_us = self.now_us
        self.now_us += us
        self._add(table, start_us, self.now_us, globalTid=global_tid(self._pid), textId=self._text(name))

    def synchronize(self) -> None:
        """Wait for the device."""
        self.call("cuStreamSynchronize" if self._driver_api else "cudaDeviceSynchronize_v3020", 8, waits=True)

    def launch(self, name: str, us: float, grid: int, block: int, *, call_us: float = 6.0) -> tuple[float, float]:
        """Launch a kernel; returns when it runs."""
        start_us, end_us = self._queue("cuLaunchKernel" if self._driver_api else "cudaLaunchKernel_v7000", us, call_us)
        shape = {"gridX": grid, "gridY": 1, "gridZ": 1, "blockX": block, "blockY": 1, "blockZ": 1}
        names = {"demangledName": self._text(name), "shortName": self._text(name.split("(")[0])}
        sizes = {"registersPerThread": 32, "staticSharedMemory": 0, "dynamicSharedMemory": 0}
        self._add(KERNEL, start_us, end_us, **self._where(), **names, **shape, **sizes, graphNodeId=None)
        return start_us, end_us

    def copy(self, copy_kind: str, size_bytes: int, us: float, *, pinned: bool = False) -> None:
        """Copy with cudaMemcpy, which returns when it is done."""
        start_us = max(self.now_us + _LATENCY_US, self.free_us + 1)
        self.free_us = start_us + us
        name = {"HtoD": "cuMemcpyHtoD_v2", "DtoH": "cuMemcpyDtoH_v2"}[copy_kind]
        self.call(name if self._driver_api else "cudaMemcpy_v3020", 5, waits=True)
        host = int(pinned)
        kinds = (1, host, 2) if copy_kind == "HtoD" else (2, 2, host)
        self._copied(start_us, self.free_us, size_bytes, kinds, **self._where())

    def replay(self, us: float) -> None:
        """Launch a graph that nsys records whole, without its kernels."""
        start_us, end_us = self._queue("cudaGraphLaunch_v10000", us, 25.0)
        self._add(GRAPH, start_us, end_us, **self._where(), graphId=5, graphExecId=6)

    def read_later(self, size_bytes: int, us: float) -> None:
        """Copy to pinned memory with cudaMemcpyAsync, and wait for an event behind it."""
        start_us, end_us = self._queue("cudaMemcpyAsync_v3020", us)
        self._copied(start_us, end_us, size_bytes, (2, 2, 1), **self._where())
        self.call("cudaEventRecord_v3020", 1.2)
        self.call("cudaEventSynchronize_v3020", 4, waits=True)

    def copy_within(self, size_bytes: int, us: float) -> None:
        """Copy from the device to itself with cudaMemcpyAsync, which returns at once."""
        start_us, end_us = self._queue("cudaMemcpyAsync_v3020", us)
        self._copied(start_us, end_us, size_bytes, (8, 2, 2), **self._where())

    def clear(self, size_bytes: int, us: float) -> None:
        """Clear memory of the device with cudaMemsetAsync, which returns at once."""
        start_us, end_us = self._queue("cudaMemsetAsync_v3020", us)
        self._add(MEMSET, start_us, end_us, **self._where(), value=0, bytes=size_bytes, memKind=2)

    def _queue(self, call: str, us: float, call_us: float = 5.0) -> tuple[float, float]:
        """Make a call that queues work and returns; return when the work runs."""
        self.call(call, call_us)
        start_us = max(self.now_us + _LATENCY_US, self.free_us + 1)
        self.free_us = start_us + us
        return start_us, self.free_us

    def moves(self, copy_kind: str, count: int, start_us: float, end_us: float, around_bytes: int) -> None:
        """Move pages of managed memory: a page that faults, then the pages around it, again and again."""
        each_us = (end_us - start_us) / count
        where = {**self._where(), "contextId": 0, "streamId": 0, "correlationId": 0}
        for number in range(count):
            at_us = start_us + number * each_us
            kinds = (_MOVES[copy_kind], 7, 7)
            self._copied(at_us, at_us + 0.1 * each_us, 4096, kinds, **where, cause=2)
            self._copied(at_us + 0.1 * each_us, at_us + 0.7 * each_us, around_bytes, kinds, **where, cause=3)

    def _copied(
        self, start_us: float, end_us: float, size_bytes: int, kinds: tuple[int, int, int], **where: Any
    ) -> None:
        cause = where.pop("cause", None)
        kept = dict(zip(("copyKind", "srcKind", "dstKind"), kinds, strict=True))
        self._add(MEMCPY, start_us, end_us, **where, **kept, bytes=size_bytes, migrationCause=cause)

    def _where(self) -> dict[str, Any]:
        process = {"globalPid": global_pid(self._pid), "correlationId": self._correlation}
        return {**process, "deviceId": self._device_id, "contextId": self._device_id + 1, "streamId": 7}

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, 1000 * self._pid + len(self._texts))

    def _add(self, table: str, start_us: float, end_us: float, **columns: Any) -> None:
        times = {"start": round(start_us * 1000), "end": round(end_us * 1000)}
        self.tables.setdefault(table, []).append({**times, **columns})

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Return every table, with those that describe the process."""
        gpu = {**self._device, "totalMemory": 40 << 30, "threadsPerWarp": 32, "maxWarpsPerSm": 64}
        devices = sorted(self._free_us)
        return {
            **self.tables,
            "StringIds": [{"id": number, "value": text} for text, number in self._texts.items()],
            "TARGET_INFO_GPU": [{**gpu, "id": device, "cuDevice": device} for device in devices],
            "TARGET_INFO_CUDA_DEVICE": [{"gpuId": device, "cudaId": device, "pid": self._pid} for device in devices],
        }


def write_programs(path: Path, *programs: CudaProgram) -> Path:
    """Write programs that one `nsys profile` recorded: all in one file."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for program in programs:
        for name, rows in program.rows().items():
            tables.setdefault(name, []).extend(rows)
    return write_sqlite(path, tables)
