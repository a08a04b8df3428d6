"""What a thread was doing at each instant: the innermost slice that says something."""

from __future__ import annotations

from functools import cache

import duckdb
import numpy as np
import pytest
from drawn_timeline import tables
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from traceanalyzer.attribution.columns import HOST
from traceanalyzer.attribution.host import host_timeline
from traceanalyzer.attribution.host.blocking_calls import find_blocking_calls
from traceanalyzer.attribution.host.host_states import NEUTRAL, overhead_state, slice_state
from traceanalyzer.attribution.host.host_timeline import Timeline, build_timelines
from traceanalyzer.attribution.records.device_ops import load_device_ops
from traceanalyzer.attribution.records.host_slices import load_host_slices
from traceanalyzer.query import engine
from tracesim import in_memory

GPU_OP = "id stream kind start end launch\n900 7 kernel 70 80 -"


def timeline(slices: str) -> Timeline:
    """Return the timeline of thread 0 of a text table of slices."""
    with in_memory.undone(empty()) as con:
        for name, rows in tables(slices, GPU_OP).items():
            con.register("incoming", rows)
            con.execute(f"INSERT INTO canonical.{name} BY NAME FROM incoming")
        found = load_host_slices(con, 0, [0])
        return build_timelines(found, find_blocking_calls(con, 0, found, load_device_ops(con, 0)), [])[0]


@cache
def empty() -> duckdb.DuckDBPyConnection:
    """Return the connection that all timelines are drawn on, one after the other."""
    return engine.connect_empty()


def states(drawn: Timeline, until_us: int) -> list[str]:
    """Return the state of each microsecond."""
    at = np.searchsorted(drawn.start, np.arange(until_us) * 1_000, side="right") - 1
    return [HOST[drawn.state[i] if i >= 0 else drawn.unrecorded] for i in at.tolist()]


NAMES = {
    "host.dataloader": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "host.tokenize": "transformers/tokenization_utils_base.py(2800): __call__",
    "host.gc": "Python GC",
    "host.io": "torch/serialization.py(651): save",
    "host.compile": "torch/_dynamo/convert_frame.py(1300): _compile",
    "host.comm_cpu": "gloo:all_reduce",
    "host.profiler": "torch/profiler/profiler.py(821): step",
}


@pytest.mark.parametrize(("state", "name"), NAMES.items())
def test_ranges_are_known_by_their_names(state: str, name: str) -> None:
    assert HOST[slice_state("python", name)] == state


@pytest.mark.parametrize(
    ("state", "category", "name"),
    [
        ("host.comm_cpu", "other", "MPI_Waitall"),  # a table of nsys
        ("host.comm_cpu", "annotation", "MPI_Recv"),  # its range, where NVTX was traced alone
        ("host.comm_cpu", "other", "PMPI_Allreduce"),
        ("host.io", "other", "MPI_File_write_all"),
        ("host.comm_cpu", "annotation", "nvshmem_barrier_all"),
        ("host.comm_cpu", "annotation", "ucp_worker_progress"),
        ("host.comm_cpu", "python", "<built-in method Allreduce of mpi4py.MPI.Intracomm object at 0x7f>"),
    ],
)
def test_libraries_that_communicate_on_the_host_are_known(state: str, category: str, name: str) -> None:
    assert HOST[slice_state(category, name)] == state


@pytest.mark.parametrize(
    ("state", "call"),
    [
        ("host.sync", "cudaStreamSynchronize"),
        ("host.sync", "hipDeviceSynchronize"),
        ("host.sync", "cuEventSynchronize"),
        ("host.launch_api", "cudaLaunchKernelExC"),
        ("host.launch_api", "hipExtModuleLaunchKernel"),
        ("host.launch_api", "cudaGraphLaunch"),
        ("host.launch_api", "cudaMemcpyAsync"),
        ("host.alloc", "cudaMalloc"),
        ("host.alloc", "hipFree"),
        ("host.alloc", "cuMemSetAccess"),
        ("host.host_alloc", "cudaHostAlloc"),
        ("host.host_alloc", "hipHostMalloc"),
        ("host.host_alloc", "cudaFreeHost"),
        ("host.module_load", "cuModuleLoadData"),
        ("host.compile", "cudaStreamBeginCapture"),
        ("host.compile", "hipStreamEndCapture"),
        ("host.compile", "cuGraphInstantiateWithFlags"),
        ("host.compile", "cudaGraphExecUpdate"),
    ],
)
def test_calls_are_known_on_both_vendors(state: str, call: str) -> None:
    assert HOST[slice_state("runtime", call)] == state


@pytest.mark.parametrize(
    ("state", "call"),
    [
        ("host.lock", "pthread_mutex_lock"),
        ("host.lock", "pthread_cond_timedwait"),
        ("host.lock", "pthread_rwlock_wrlock"),
        ("host.lock", "sem_wait"),
        ("host.lock", "futex"),
        ("host.io", "write"),
        ("host.io", "fsync"),
        ("host.io", "putc"),
        ("host.offcpu", "off-CPU"),
        ("host.offcpu", "poll"),
        ("host.offcpu", "clock_nanosleep"),
        ("host.offcpu", "epoll_wait"),
    ],
)
def test_calls_of_the_operating_system_that_wait_are_known(state: str, call: str) -> None:
    assert HOST[slice_state("os", call)] == state


@pytest.mark.parametrize(
    ("category", "name"),
    [
        ("os", "pthread_mutex_unlock"),
        ("os", "pthread_cond_signal"),
        ("os", "sem_post"),
        ("os", "ioctl"),
        ("os", "read"),
        ("os", "mmap64"),
        ("annotation", "ProfilerStep#3"),
        ("annotation", "torch.utils.checkpoint"),
        ("annotation", "Optimizer.step#AdamW.step"),
        ("runtime", "cudaEventRecord"),
        ("runtime", "cudaStreamIsCapturing"),
    ],
)
def test_what_says_nothing_of_its_own_is_neutral(category: str, name: str) -> None:
    assert slice_state(category, name) == NEUTRAL


def test_activation_checkpointing_and_cache_lookups_are_plain_work() -> None:
    assert HOST[slice_state("cpu_op", "CheckpointFunction")] == "host.op"
    assert HOST[slice_state("cpu_op", "TorchDynamo Cache Lookup")] == "host.op"
    assert HOST[slice_state("python", "torch/utils/checkpoint.py(480): checkpoint")] == "host.python"


def test_a_full_command_buffer_is_not_the_profilers_work() -> None:
    assert overhead_state("Command Buffer Full") == NEUTRAL
    assert HOST[overhead_state("Lazy Function Loading")] == "host.module_load"


def test_overhead_on_the_thread_that_it_held_up_is_known_by_its_name() -> None:
    assert HOST[slice_state("overhead", "Runtime Triggered Module Loading")] == "host.module_load"
    assert HOST[slice_state("overhead", "CUPTI Instrumentation")] == "host.profiler"
    assert slice_state("overhead", "Command Buffer Full") == NEUTRAL


def test_work_inside_the_loader_is_the_loaders() -> None:
    drawn = timeline(
        """
        id thread category   name                    start end
        1  0      annotation enumerate(DataLoader)#x 1     9
        2  0      cpu_op     aten::stack             2     6
        3  0      runtime    cudaHostAlloc           4     5
        4  0      cpu_op     aten::mm                9     11
        """
    )
    loader, op = "host.dataloader", "host.op"
    assert states(drawn, 12)[1:11] == [loader, loader, loader, "host.host_alloc", *[loader] * 4, op, op]


@pytest.mark.parametrize(("end", "state"), [(10, "host.dataloader"), (20, "host.python")])
def test_a_frame_that_is_open_when_the_recording_stops_says_nothing_of_a_wait(end: int, state: str) -> None:
    drawn = timeline(
        f"""
        id thread category name                                         start end
        1  0      python   main                                         0     20
        2  0      python   torch/utils/data/dataloader.py(700):~__next__ 2    {end}
        3  0      python   train.py(3):~step                            4     9
        """
    )
    assert states(drawn, 20)[3:9] == [state] * 6


def test_waiting_in_the_operating_system_is_innermost() -> None:
    drawn = timeline(
        """
        id thread category name               start end
        1  0      cpu_op   aten::mm           0     12
        2  0      os       pthread_mutex_lock 2     6
        3  0      os       off-CPU            3     5
        4  0      os       ioctl              7     11
        5  0      os       off-CPU            8     10
        """
    )
    # A thread that waits for a lock is off the CPU for that; one inside a call that says nothing is just not running.
    op, lock, off = "host.op", "host.lock", "host.offcpu"
    assert states(drawn, 12) == [op, op, lock, lock, lock, lock, op, op, off, off, op, op]


def test_calls_to_the_device_say_why_they_wait_in_the_operating_system() -> None:
    drawn = timeline(
        """
        id thread category name                  start end
        1  0      cpu_op   aten::item            0     20
        2  0      runtime  cudaStreamSynchronize 2     9
        3  0      os       poll                  3     8
        4  0      os       off-CPU               4     7
        5  0      runtime  cudaEventRecord       10    15
        6  0      os       pthread_mutex_lock    11    14
        """
    )
    assert states(drawn, 20) == [*["host.op"] * 2, *["host.sync"] * 7, *["host.op"] * 11]


def test_waiting_inside_the_loader_is_the_loaders() -> None:
    drawn = timeline(
        """
        id thread category   name                    start end
        1  0      annotation enumerate(DataLoader)#x 0     9
        2  0      os         poll                    1     8
        3  0      os         off-CPU                 2     7
        4  0      os         poll                    10    12
        """
    )
    assert states(drawn, 12) == [*["host.dataloader"] * 9, "host.other", *["host.offcpu"] * 2]


def test_everything_until_a_captured_graph_is_ready_is_compiling() -> None:
    # begin  [B]                                                     another graph is made ready after other work
    # inside     [= mm [L] =]  [malloc]
    # ready                              [End]   [Instantiate]  [L]  [Instantiate]
    drawn = timeline(
        """
        id thread category name                  start end
        1  0      cpu_op   aten::add             0     2
        2  0      runtime  hipStreamBeginCapture 2     3
        3  0      cpu_op   aten::mm              4     8
        4  0      runtime  hipLaunchKernel       5     7
        5  0      runtime  hipMalloc             9     10
        6  0      runtime  hipStreamEndCapture   11    12
        7  0      runtime  hipGraphInstantiate   13    16
        8  0      cpu_op   aten::add             17    18
        9  0      runtime  hipGraphLaunch        18    19
        10 0      runtime  hipGraphInstantiate   20    21
        """
    )
    op, python, capturing, launch = "host.op", "host.python", "host.compile", "host.launch_api"
    recorded = [*[capturing] * 7, "host.alloc", *[capturing] * 6]
    assert states(drawn, 22) == [op, op, *recorded, python, op, launch, python, capturing, python]


def test_capture_whose_end_is_not_in_the_trace_hides_nothing() -> None:
    drawn = timeline(
        """
        id thread category name                   start end
        1  0      runtime  cudaStreamBeginCapture 0     1
        2  0      cpu_op   aten::mm               2     4
        3  0      runtime  cudaStreamBeginCapture 6     7
        4  0      runtime  cudaStreamEndCapture   8     9
        """
    )
    op, python, capturing = "host.op", "host.python", "host.compile"
    assert states(drawn, 10) == [capturing, python, op, op, python, python, *[capturing] * 3, python]


def test_range_that_outlives_the_frame_it_began_in_keeps_its_inside() -> None:
    # frame   [== enter ==]
    # step         [======= ProfilerStep =======]     crosses the frame
    # op                        [== mm ==]
    drawn = timeline(
        """
        id thread category   name           start end
        1  0      python     enter          0     4
        2  0      annotation ProfilerStep#1 3     12
        3  0      python     forward        5     11
        4  0      cpu_op     aten::mm       6     9
        """
    )
    op, python = "host.op", "host.python"
    assert states(drawn, 12) == [*[python] * 4, "host.other", python, op, op, op, python, python, "host.other"]


@pytest.mark.check
@examples(150)
@given(st.lists(st.tuples(st.integers(0, 25), st.integers(0, 15), st.sampled_from("opa")), min_size=1, max_size=12))
def test_the_slice_that_began_last_and_is_open_decides(drawn: list[tuple[int, int, str]]) -> None:
    kinds = {"o": ("cpu_op", "aten::mm"), "p": ("python", "frame"), "a": ("annotation", "forward")}
    lines = ["id thread category name start end"]
    for i, (start, length, kind) in enumerate(drawn):
        lines.append(f"{i + 1} 0 {kinds[kind][0]} {kinds[kind][1]} {start} {start + length}")
    lines.append("99 0 python last 60 61")
    lines.append("98 0 cpu_op last 61 62")
    order = sorted(range(len(drawn)), key=lambda i: (drawn[i][0], -drawn[i][1], i))
    expected = []
    for instant in range(50):
        innermost = [drawn[i][2] for i in order if drawn[i][0] <= instant < sum(drawn[i][:2]) and drawn[i][2] != "a"]
        expected.append({"o": "host.op", "p": "host.python"}[innermost[-1]] if innermost else "host.other")
    assert states(timeline("\n".join(lines)), 50) == expected


@given(
    st.sets(st.integers(0, 60), max_size=12),
    st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 25), st.sampled_from([NEUTRAL, 1, 2])), max_size=5),
)
@examples(200)
def test_overheads_laid_in_parts_lie_as_if_laid_over_the_whole_thread(
    starts: set[int], spans: list[tuple[int, int, int]]
) -> None:
    error = host_timeline.STANDSTILL_ERROR_NS
    begins = sorted(error * start for start in starts)
    pieces = ([*begins], [i % 6 for i in range(len(begins))], [*range(len(begins))])
    overheads = sorted((error * low, error * (low + length), code) for low, length, code in spans)
    arrays = (np.asarray(pieces[0], np.int64), np.asarray(pieces[1], np.int8), np.asarray(pieces[2], np.int64))
    nesting = host_timeline.Nesting(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int8))
    found = host_timeline.overlay_overheads(host_timeline.Timeline(*arrays, 7, arrays[0], nesting), overheads)
    for low, high, code in overheads:
        moves = any(low + error <= begin < high - error for begin in begins)
        if code != NEUTRAL and high - low > 2 * error and not moves:
            host_timeline._overlay_one(*pieces, 7, (low, high, code))
    assert (found.start.tolist(), found.state.tolist(), found.row.tolist()) == pieces
