"""What a thread was doing at each instant: the innermost slice that says something."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from drawn_timeline import tables
from hypothesis import given, settings
from hypothesis import strategies as st

from traceanalyzer.attribution.blocking_calls import find_blocking_calls
from traceanalyzer.attribution.buckets import HOST
from traceanalyzer.attribution.device_ops import load_device_ops
from traceanalyzer.attribution.host_slices import load_host_slices
from traceanalyzer.attribution.host_states import NEUTRAL, overhead_state, slice_state
from traceanalyzer.attribution.host_timeline import Timeline, paint
from traceanalyzer.schema import canonical_tables

GPU_OP = "id stream kind start end launch\n900 7 kernel 70 80 -"


def timeline(slices: str) -> Timeline:
    """Return the timeline of thread 0 of a text table of slices."""
    con = duckdb.connect()
    con.execute("CREATE SCHEMA canonical")
    for name, rows in tables(slices, GPU_OP).items():
        con.execute(canonical_tables()[name].sql.replace(f"TABLE {name}", f"TABLE canonical.{name}"))
        con.register("incoming", rows)
        con.execute(f"INSERT INTO canonical.{name} BY NAME FROM incoming")
    found = load_host_slices(con, 0, [0])
    return paint(found, find_blocking_calls(con, 0, found, load_device_ops(con, 0)), [])[0]


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
    ],
)
def test_calls_are_known_on_both_vendors(state: str, call: str) -> None:
    assert HOST[slice_state("runtime", call)] == state


@pytest.mark.parametrize(
    ("category", "name"),
    [
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


@settings(max_examples=150, deadline=None)
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
