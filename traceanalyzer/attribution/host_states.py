"""What a host slice says its thread was doing, by category and name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from traceanalyzer.attribution.buckets import HOST_CODE

NEUTRAL = -1  # says nothing of its own: what lies around it holds
# Copy calls only block in some cases, which their names do not tell (host_timeline decides).
_API_STATES = (
    (r"(Device|Stream|Event|Ctx|Context|Thread)Synchronize", "host.sync"),
    (r"Launch", "host.launch_api"),
    (r"Stream(Begin|End)Capture|Graph(Instantiate|ExecUpdate)", "host.compile"),
    (r"HostAlloc|MallocHost|HostMalloc|HostRegister|HostUnregister|FreeHost|HostFree", "host.host_alloc"),
    (
        r"^(cuda|hip)(Malloc|Free)(?!Graph)|^(cu|hip)Mem(Alloc|Free|Create|Release|Map|Unmap|SetAccess|Address)"
        r"|MemPoolTrim|IpcOpenMem",
        "host.alloc",
    ),
    (r"Module(Load|Unload|GetFunction)|Library(Load|GetKernel)|^cuLink|FuncLoad", "host.module_load"),
    (r"Memcpy|Memset", "host.launch_api"),
)
_SLICE_STATES = (
    (
        r"^enumerate\(Data(Loader|Pipe)\)#|utils/data/(dataloader|_utils/fetch)\.py\(\d+\): (__next__|fetch|_next_data)"
        r"|^(?!aten::)(?i:.*\b(data_?load(er|ing)?|(next|load|get|fetch)_batch|load_data)\b)",
        "host.dataloader",
    ),
    (r"(?i)tokeniz(e|er|ation|ing)\b|/tokenization_|batch_decode|tokenizers/", "host.tokenize"),
    (r"^Python GC|<built-in (function|method) collect\b", "host.gc"),
    (
        r"torch/serialization\.py\(\d+\): (save|load|_save|_load)|(?i:torch\.save|torch\.load"
        r"|(save|write|load)[_ ]checkpoint|checkpoint[_ ](save|write|load))"
        r"|<built-in method (write|flush|fsync|writelines) ",
        "host.io",
    ),
    (
        r"\(dynamo_timed\)$|entire_frame_compile|^CachingAutotuner|compile_fx|torch/_dynamo/convert_frame\.py\(\d+\): "
        r"_?(compile|convert_frame)|triton/compiler/compiler\.py\(\d+\): compile|autotuner\.py\(\d+\): _bench",
        "host.compile",
    ),
    (
        r"^gloo:|^mpi:|ProcessGroup(Gloo|MPI)|c10d::barrier|distributed_c10d\.py\(\d+\): (barrier|monitored_barrier)"
        r"|(?i:^(dist\.)?barrier$)",
        "host.comm_cpu",
    ),
    (
        r"torch/profiler/profiler\.py\(\d+\): (step|stop|_transit_action|stop_trace)|^PyTorch Profiler"
        r"|Buffer Flush|^Instrumentation$|Activity Buffer Request",
        "host.profiler",
    ),
)
# Calls into the operating system that wait for another thread or for something outside of the process, or that write.
_OS_STATES = (
    (
        r"^pthread_(mutex_(timed|clock)?lock|rwlock_(timed|clock)?(rd|wr)lock|spin_lock|cond_(timed|clock)?wait"
        r"|barrier_wait|(timed|clock)?join(_np)?)$|^sem_(timed|clock)?wait$|^futex$",
        "host.lock",
    ),
    (
        r"^p?write(v|64|v64|v2)?$|^(f(write|puts|putc|printf|flush|sync|datasync)|v?fprintf|puts|putc|sync_file_range"
        r"|msync)(_unlocked)?$",
        "host.io",
    ),
    (
        r"^off-CPU$|^(clock_nano|nano|u)?sleep$|^sched_yield$|^p?(poll|select)$|^epoll_p?wait2?$"
        r"|^recv(from|mm?sg)?$|^accept4?$|^wait(3|4|id|pid)?$|^sig(timed)?wait(info)?$|^pause$",
        "host.offcpu",
    ),
)
_API = tuple((re.compile(pattern), HOST_CODE[state]) for pattern, state in _API_STATES)
_SLICES = tuple((re.compile(pattern), HOST_CODE[state]) for pattern, state in _SLICE_STATES)
_OS = tuple((re.compile(pattern), HOST_CODE[state]) for pattern, state in _OS_STATES)
_PLAIN = {"cpu_op": HOST_CODE["host.op"], "python": HOST_CODE["host.python"]}
_API_CATEGORIES = frozenset({"runtime", "driver"})

# Slices of the profiler's and the driver's own work lie on a track of their own, or on the thread that they held up.
_OVERHEAD = ((re.compile(r"Module Loading|Function Loading"), HOST_CODE["host.module_load"]),)
# A full queue is the device's doing.
QUEUE_FULL = re.compile(r"(?i)command buffer full")
AUTOGRAD = re.compile(r"^autograd::engine::")

COPY_CALL = re.compile(r"Memcpy")
# What a range says holds for everything inside it, except for calls that name their own cost.
STICKY = frozenset(code for _, code in _SLICES)
PREPROCESS_CODE = HOST_CODE["host.preprocess"]
# What a project may call by names of its own: ranges that say what goes on inside them.
NAMEABLE = tuple(sorted(name for name, code in HOST_CODE.items() if code in STICKY or code == PREPROCESS_CODE))

OwnNames = tuple[tuple[re.Pattern[str], int], ...]


def is_api(category: str) -> bool:
    """Tell whether slices of a category are calls into the device's runtime or driver."""
    return category in _API_CATEGORIES


def is_os(category: str) -> bool:
    """Tell whether slices of a category are calls into the operating system, or times off the CPU."""
    return category == "os"


def own_names(names: Sequence[tuple[str, str]] | None) -> OwnNames:
    """Return what a project's names stand for: pairs of a cause and a pattern."""
    return tuple((re.compile(pattern), HOST_CODE[cause]) for cause, pattern in names or ())


def slice_state(category: str, name: str, own: OwnNames = ()) -> int:
    """Return the host bucket's code that a slice stands for, or NEUTRAL; a project's own names come first."""
    known = _API if is_api(category) else _OS if is_os(category) else (*own, *_SLICES)
    for pattern, code in known:
        if pattern.search(name):
            return code
    if category == "overhead":
        return overhead_state(name)
    return _PLAIN.get(category, NEUTRAL)


def overhead_state(name: str) -> int:
    """Return the host bucket's code of the profiler's or the driver's own work, or NEUTRAL."""
    if QUEUE_FULL.search(name):
        return NEUTRAL
    return next((code for pattern, code in _OVERHEAD if pattern.search(name)), HOST_CODE["host.profiler"])


def unrecorded_state(categories: frozenset[str], has_autograd: bool) -> int:
    """Return what a thread does while no slice says so, from what was recorded on it at all.

    Between operators the training thread runs Python, unless Python was recorded too and shows nothing; the autograd
    thread never runs Python. A thread without operators is no framework's.
    """
    if "cpu_op" not in categories or "python" in categories:
        return HOST_CODE["host.other"]
    return HOST_CODE["host.op" if has_autograd else "host.python"]
