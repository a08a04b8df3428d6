"""The state of a thread that a host slice stands for, by category and name.

A project may add names for a host cause: patterns that DuckDB's RE2 matches, in time linear in the name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import duckdb
import numpy as np

from traceanalyzer.attribution.columns import HOST_CODE, Flags
from traceanalyzer.attribution.records.host_slices import HostSlices

# Each pattern is asked of every different name of a trace, which takes it about a millisecond.
MOST_PATTERNS = 1_000
_IS_PATTERN = "SELECT regexp_matches('', $pattern)"

_MATCHING = """
SELECT number
FROM (SELECT unnest($names) AS name, generate_subscripts($names, 1) - 1 AS number)
WHERE regexp_matches(name, $pattern)
"""


def pattern_mistakes(patterns: Sequence[str]) -> list[str | None]:
    """Return what is wrong with each pattern; None: nothing. RE2 has no look-around and no references to groups."""
    with duckdb.connect() as con:
        return [_mistake(con, pattern) for pattern in patterns]


def _mistake(con: duckdb.DuckDBPyConnection, pattern: str) -> str | None:
    try:
        con.execute(_IS_PATTERN, {"pattern": pattern})
    except duckdb.Error as error:
        return str(error).partition(": ")[2] or str(error)
    return None


def own_states(
    con: duckdb.DuckDBPyConnection, own: Sequence[tuple[str, str]] | None, names: Sequence[str]
) -> list[int]:
    """Return for each name the code of the first cause of the project's that matches it; NEUTRAL: none does.

    `own` are pairs of a cause and a pattern.
    """
    states = [NEUTRAL] * len(names)
    for cause, pattern in reversed(own or ()):
        for (number,) in con.execute(_MATCHING, {"names": list(names), "pattern": pattern}).fetchall():
            states[number] = HOST_CODE[cause]
    return states


NEUTRAL = -1  # no state of its own: the slice around it decides
# Copy calls block only in some cases, which their names do not show (blocking_calls decides). Calls that begin with ur,
# ze and pi are SYCL's, of Intel's devices.
_API_STATES = (
    (
        r"(Device|Stream|Event|Ctx|Context|Thread|Host|Queue)Synchronize|^(ur|pi)(QueueFinish|Events?Wait)$|aclrtSynchronize"
        r"|^cn(rt)?(QueueSync|SyncDevice|CtxSync|WaitNotifier|NotifierWait)",
        "host.sync",
    ),
    (
        r"Launch|^Node@launch|^cn(Invoke|TaskTopoEntityInvoke)|^zeCommand\w+(Execute|Append)CommandLists|^urEnqueue(CommandBuffer|Graph)Exp",
        "host.launch_api",
    ),
    (r"Stream(Begin|End)Capture|Graph(Instantiate|ExecUpdate)", "host.compile"),
    (r"HostAlloc|MallocHost|HostMalloc|HostRegister|HostUnregister|FreeHost|HostFree|MemAllocHost", "host.host_alloc"),
    (
        r"^(cuda|hip|musa)(Malloc|Free)(?!Graph)|^(cu|hip|mu)Mem(Alloc|Free|Create|Release|Map|Unmap|SetAccess|Address)"
        r"|MemPoolTrim|IpcOpenMem|USM(Device|Shared)Alloc|USMFree|^zeMem(Alloc|Free)"
        r"|aclrt(Malloc|Free)\b|^cn(rt)?(Malloc|Zmalloc|Free|MemAlloc)",
        "host.alloc",
    ),
    (
        r"Module(Load|Unload|GetFunction)|Library(Load|GetKernel)|^cuLink|FuncLoad|^zeModuleCreate|^(ur|pi)Program(Build|Compile|Link)",
        "host.module_load",
    ),
    (r"Memcpy|Memset|^urEnqueueUSMFill|^piextUSMEnqueueFill|AppendMemory(Copy|Fill)", "host.launch_api"),
)
_SLICE_STATES = (
    (
        r"^enumerate\(Data(Loader|Pipe)\)#|utils/data/(dataloader|_utils/fetch)\.py\(\d+\): (__next__|fetch|_next_data)"
        r"|^IteratorGetNext|^(?!aten::)(?i:.*\b(data_?load(er|ing)?|(next|load|get|fetch)_batch|load_data)\b)"
        r"|(?i:^((data|batch|input)s?[ _](wait|waiting|fetch|iter)|wait[ _]for[ _](data|batch|input)s?)$)",
        "host.dataloader",
    ),
    (r"(?i)tokeniz(e|er|ation|ing)\b|/tokenization_|batch_decode|tokenizers/", "host.tokenize"),
    (r"^Python GC|<built-in (function|method) collect\b", "host.gc"),
    (
        r"torch/serialization\.py\(\d+\): (save|load|_save|_load)|(?i:torch\.save|torch\.load"
        r"|(save|write|load)[_ ]checkpoint|checkpoint[_ ](save|write|load))"
        r"|<built-in method (write|flush|fsync|writelines) |^P?MPI_File_",
        "host.io",
    ),
    (
        r"\(dynamo_timed\)$|entire_frame_compile|^CachingAutotuner|compile_fx|torch/_dynamo/convert_frame\.py\(\d+\): "
        r"_?(compile|convert_frame)|triton/compiler/compiler\.py\(\d+\): compile|autotuner\.py\(\d+\): _bench"
        # XLA and its frameworks.
        r"|^lower_sharding_computation$|^backend_compile|(Client|Compiler|CompilationCache)::Compile|^trace_to_jaxpr",
        "host.compile",
    ),
    (
        r"^gloo:|^mpi:|ProcessGroup(Gloo|MPI)|c10d::barrier|distributed_c10d\.py\(\d+\): (barrier|monitored_barrier)"
        r"|(?i:^(dist\.)?barrier$)|^P?MPI_|^nvshmemx?_|^uc[pt]_| of mpi4py\.MPI\.",
        "host.comm_cpu",
    ),
    (
        r"torch/profiler/profiler\.py\(\d+\): (step|stop|_transit_action|stop_trace)|^PyTorch Profiler"
        r"|^\$profiler(_v2)?\.py:\d+ (start|stop)(_trace)?$"
        r"|Buffer Flush|^Instrumentation$|Activity Buffer Request",
        "host.profiler",
    ),
)
# What XLA's runtime does on a thread that launches compiled programs; what its slices contain may say more.
_XLA_STATES = (
    (r"^Build buffer allocations$", "host.alloc"),
    (r"^PjitFunction\(|^PJRT_LoadedExecutable_Execute|LoadedExecutable::|^GpuExecutable::", "host.op"),
)
# Calls into the operating system that wait for another thread or for something outside the process, or that write.
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
_XLA = tuple((re.compile(pattern), HOST_CODE[state]) for pattern, state in _XLA_STATES)
_OS = tuple((re.compile(pattern), HOST_CODE[state]) for pattern, state in _OS_STATES)
_PLAIN = {"cpu_op": HOST_CODE["host.op"], "python": HOST_CODE["host.python"]}
_API_CATEGORIES = frozenset({"runtime", "driver"})

# Slices of the profiler's and the driver's own work lie on a separate track, or on the thread that they delayed.
_OVERHEAD = ((re.compile(r"Module Loading|Function Loading"), HOST_CODE["host.module_load"]),)
# A full queue is caused by the device.
QUEUE_FULL = re.compile(r"(?i)command buffer full")
# Of the operators of a thread that runs the backward pass: hooks after the last node lie outside of nodes, too.
BACKWARD_MIN_PART = 0.9
AUTOGRAD = re.compile(r"^autograd::engine::")
# Threads on which TensorFlow and XLA run operators; between these they wait for work, and run no Python.
EXECUTOR = re.compile(r"ExecutorState::|ThunkExecutor::")

COPY_CALL = re.compile(r"Memcpy|AppendMemoryCopy")
# The state of one of these ranges holds for everything inside it, except for calls that have a cost of their own.
STICKY = frozenset(code for _, code in _SLICES)
PREPROCESS_CODE = HOST_CODE["host.preprocess"]
# Causes that a project can map its own range names to.
NAMEABLE = tuple(sorted(name for name, code in HOST_CODE.items() if code in STICKY or code == PREPROCESS_CODE))


def is_api(category: str) -> bool:
    """Return whether slices of a category are calls into the device's runtime or driver."""
    return category in _API_CATEGORIES


def is_os(category: str) -> bool:
    """Return whether slices of a category are calls into the operating system, or time off the CPU."""
    return category == "os"


# Ranks of a run have the same names.
@lru_cache(1 << 16)
def slice_state(category: str, name: str, own: int = NEUTRAL) -> int:
    """Return the code of the host bucket of a slice, or NEUTRAL; a project's own names (`own`) come first."""
    if own != NEUTRAL and not is_api(category) and not is_os(category):
        return own
    known = _API if is_api(category) else _OS if is_os(category) else (*_SLICES, *_XLA)
    for pattern, code in known:
        if pattern.search(name):
            return code
    if category == "overhead":
        return overhead_state(name)
    return _PLAIN.get(category, NEUTRAL)


def overhead_state(name: str) -> int:
    """Return the code of the host bucket of the profiler's or the driver's own work, or NEUTRAL."""
    if QUEUE_FULL.search(name):
        return NEUTRAL
    return next((code for pattern, code in _OVERHEAD if pattern.search(name)), HOST_CODE["host.profiler"])


def unrecorded_state(categories: frozenset[str], has_autograd: bool) -> int:
    """Return the state of a thread where no slice is recorded, from the categories recorded on it anywhere.

    Between operators the training thread runs Python, unless Python frames were recorded and none is there. The
    autograd thread never runs Python. A thread without operators does not belong to a framework.
    """
    if "cpu_op" not in categories or "python" in categories:
        return HOST_CODE["host.other"]
    return HOST_CODE["host.op" if has_autograd else "host.python"]


def inside_nodes(slices: HostSlices, nodes: Flags, first: int, last: int) -> Flags:
    """Return which of a thread's slices lie in a node, or are one."""
    ends = np.where(nodes[first:last], slices.end[first:last], 0)
    return np.maximum.accumulate(ends) > slices.start[first:last]


def runs_backward(slices: HostSlices, nodes: Flags, first: int, last: int) -> bool:
    """Return whether a thread runs the backward pass and little else; the calling thread runs only nodes of the CPU."""
    operators = slices.flags([c == "cpu_op" for c in slices.categories], slice(first, last))
    inside = inside_nodes(slices, nodes, first, last)[operators]
    return bool(inside.any() and inside.mean() >= BACKWARD_MIN_PART)


def unrecorded_of(slices: HostSlices, thread: int, *, is_backward: bool) -> int:
    """Return the state of a thread where nothing is recorded."""
    first, last = np.searchsorted(slices.thread, [thread, thread + 1])
    codes = np.flatnonzero(np.bincount(slices.name_code[first:last])).tolist()
    if any(EXECUTOR.match(slices.names[code]) for code in codes):
        return HOST_CODE["host.other"]
    return unrecorded_state(frozenset(slices.categories[code] for code in codes), is_backward)
