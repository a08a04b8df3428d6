"""What a host slice says its thread was doing, by category and name."""

from __future__ import annotations

import re

from traceanalyzer.attribution.buckets import HOST_CODE

NEUTRAL = -1  # says nothing of its own: what lies around it holds
# Copy calls only block in some cases, which their names do not tell (host_timeline decides).
_API_STATES = (
    (r"(Device|Stream|Event|Ctx|Context)Synchronize", "host.sync"),
    (r"Launch", "host.launch_api"),
    (r"HostAlloc|MallocHost|HostMalloc|HostRegister|HostUnregister|FreeHost|HostFree", "host.host_alloc"),
    (r"^(cuda|hip)(Malloc|Free)(?!Graph)|^(cu|hip)Mem(Alloc|Free|Create|Release|Map|Unmap|SetAccess|Address)|MemPoolTrim|IpcOpenMem", "host.alloc"),
    (r"Module(Load|Unload|GetFunction)|Library(Load|GetKernel)|^cuLink|FuncLoad", "host.module_load"),
    (r"Memcpy|Memset", "host.launch_api"),
)
_SLICE_STATES = (
    (r"^enumerate\(Data(Loader|Pipe)\)#|utils/data/(dataloader|_utils/fetch)\.py\(\d+\): (__next__|fetch|_next_data)"
     r"|^(?!aten::)(?i:.*\b(data_?load(er|ing)?|(next|load|get|fetch)_batch|load_data)\b)", "host.dataloader"),
    (r"(?i)tokeniz(e|er|ation|ing)\b|/tokenization_|batch_decode|tokenizers/", "host.tokenize"),
    (r"^Python GC|<built-in (function|method) collect\b", "host.gc"),
    (r"torch/serialization\.py\(\d+\): (save|load|_save|_load)|(?i:torch\.save|torch\.load|(save|write|load)[_ ]checkpoint"
     r"|checkpoint[_ ](save|write|load))|<built-in method (write|flush|fsync|writelines) ", "host.io"),
    (r"\(dynamo_timed\)$|entire_frame_compile|^CachingAutotuner|compile_fx|torch/_dynamo/convert_frame\.py\(\d+\): "
     r"_?(compile|convert_frame)|triton/compiler/compiler\.py\(\d+\): compile|autotuner\.py\(\d+\): _bench", "host.compile"),
    (r"^gloo:|^mpi:|ProcessGroup(Gloo|MPI)|c10d::barrier|distributed_c10d\.py\(\d+\): (barrier|monitored_barrier)"
     r"|(?i:^(dist\.)?barrier$)", "host.comm_cpu"),
    (r"torch/profiler/profiler\.py\(\d+\): (step|stop|_transit_action|stop_trace)|^PyTorch Profiler"
     r"|Buffer Flush|^Instrumentation$|Activity Buffer Request", "host.profiler"),
)
_API = tuple((re.compile(pattern), HOST_CODE[state]) for pattern, state in _API_STATES)
_SLICES = tuple((re.compile(pattern), HOST_CODE[state]) for pattern, state in _SLICE_STATES)
_PLAIN = {"cpu_op": HOST_CODE["host.op"], "python": HOST_CODE["host.python"]}
_API_CATEGORIES = frozenset({"runtime", "driver"})

COPY_CALL = re.compile(r"Memcpy")
FREE_CALL = re.compile(r"Free(?!Async)")
# What a range says holds for everything inside it, except for calls that name their own cost.
STICKY = frozenset(code for _, code in _SLICES)
PREPROCESS_CODE = HOST_CODE["host.preprocess"]


def is_api(category: str) -> bool:
    """Tell whether slices of a category are calls into the device's runtime or driver."""
    return category in _API_CATEGORIES


def slice_state(category: str, name: str) -> int:
    """Return the host bucket's code that a slice stands for, or NEUTRAL."""
    for pattern, code in _API if is_api(category) else _SLICES:
        if pattern.search(name):
            return code
    if category == "overhead":
        return HOST_CODE["host.profiler"]
    return _PLAIN.get(category, NEUTRAL)
