"""Sentences on the format of XLA's profiles, each on the smallest file that shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from xspace import MS, START_NS, US, Event, Pairs, PlaneMaker, Ref, Unsigned, block_field, number_field, read, space

from traceanalyzer.run import open_run


class Case(NamedTuple):
    """A sentence, a file, and what the columns of a table hold."""

    section: str
    sentence: str
    content: bytes
    table: str
    columns: tuple[str, ...]
    wanted: list[tuple[Any, ...]]


def gpu(*events: Event, vendor: str = "Nvidia", name: str = "Stream #1", line_id: int = 1) -> PlaneMaker:
    plane = PlaneMaker("/device:GPU:0")
    plane.stats = {"device_vendor": vendor}
    return plane.line(line_id, name, events, 0)


def work(name: str, stats: Mapping[str, Any] | Pairs | None = None, at: int = 0, dur: int = US) -> Event:
    return (at, dur, name, stats or {})  # type: ignore[return-value]


def host(*events: Event, name: str = "/host:CPU", line: str = "python") -> PlaneMaker:
    return PlaneMaker(name).line(7, line, events, 0)


def session(start_ns: int) -> PlaneMaker:
    plane = PlaneMaker("Task Environment")
    plane.stats = {"profile_start_time": start_ns}
    return plane


def with_names(plane: PlaneMaker, **stats: Mapping[str, Any]) -> PlaneMaker:
    plane.name_stats = stats
    return plane


def tpu(*lines: tuple[int, str, Sequence[Event]], name: str = "/device:TPU:0") -> PlaneMaker:
    plane = PlaneMaker(name)
    for line in lines:
        plane.line(*line, 0)
    return plane


def called(name: str, correlation: int = 5, **stats: Any) -> Event:
    return (0, US, name, {"correlation_id": correlation, **stats})


OP = ("kind", "name")
MEMORY = ("kind", "device", "size_bytes", "address")
LONG = "%copy-done.2 = f32[8]{0} copy-done(%s)"
SHOWN = tpu((3, "XLA Ops", [work(LONG)]))
SHOWN.display_names = {LONG: "copy-done.2"}
# A value whose reference is 0, which names the text `zero`.
ZERO_REF = block_field(
    1,
    block_field(2, "/device:GPU:0")
    + block_field(
        3,
        number_field(1, 1)
        + block_field(2, "Stream #1")
        + block_field(
            4, number_field(1, 1) + block_field(4, number_field(1, 2) + number_field(7, 0) + number_field(50, 1))
        ),
    )
    + block_field(
        4, number_field(1, 1) + block_field(2, number_field(1, 1) + block_field(2, "k") + block_field(60, "x"))
    )
    + block_field(5, number_field(1, 0) + block_field(2, block_field(2, "zero") + number_field(61, 3)))
    + block_field(5, number_field(1, 2) + block_field(2, number_field(1, 2) + block_field(2, "hlo_op")))
    + block_field(62, "x"),
)
EXACT_NS = 1_790_000_000_123_456_789
KERNEL_2020 = "regs:38 shm:0 grid:160,1,1 block:1024,1,1"
KERNEL_AMD = " grid:64,2,1 block:256,1,1 private_mem:0 group_mem:512 occ_pct:0"
KERNEL_NVIDIA = "block:128,1,1 grid:7,1,1 occ_pct:75 dynamic_shared:16 static_shared:32 regs:64"
UNSET = "regs:2191500840 static_shared:32462 dynamic_shared:0 grid:1,1,1 block:64,1,1"
LAUNCH_COLUMNS = ("grid_x", "block_x", "registers_per_thread", "shared_memory_bytes")
DERIVED = [
    "TensorFlow Ops",
    "TensorFlow Name Scope",
    "Framework Ops",
    "Framework Name Scope",
    "XLA Modules",
    "XLA Ops",
    "Source code",
    "Launch Stats",
    "Steps",
]

CASES = [
    Case(
        "2.3",
        "producer and consumer ids are equal modulo 2^64",
        space(host(work("a", {"_p": -1, "_pt": 3}), work("b", {"_c": Unsigned(2**64 - 1), "_ct": 3}, 2 * US))),
        "flows",
        ("phase", "flow_id", "category"),
        [("s", str(2**64 - 1), "3"), ("f", str(2**64 - 1), "3")],
    ),
    Case(
        "2.3",
        "correlation ids join as numbers of either sign",
        space(gpu(work("k", {"correlation_id": Unsigned(2**64 - 2)})), host(called("cuLaunchKernel", -2))),
        "gpu_ops",
        ("name", "link_source", "correlation"),
        [("k", None, -2)],
    ),
    Case("2.4", "a reference can be 0", ZERO_REF, "gpu_ops", ("name", "hlo_op"), [("k", "zero")]),
    Case(
        "2.5",
        "the first of two values of one name counts",
        space(gpu(work("k", Pairs((("hlo_op", "first"), ("context_id", "$$5"), ("hlo_op", "second")))))),
        "gpu_ops",
        ("hlo_op", "context"),
        [("first", 5)],
    ),
    Case(
        "2.5",
        "values of an event's name belong to each of its events, and its own go before them",
        space(
            with_names(
                gpu(work("k"), work("k", {"hlo_op": "own"}, 2 * US), work("other", at=4 * US)),
                k={"hlo_op": "shared", "kernel_details": KERNEL_2020, "context_id": "$$2"},
            )
        ),
        "gpu_ops",
        ("name", "hlo_op", "grid_x", "context"),
        [("k", "shared", 160, 2), ("k", "own", 160, 2), ("other", None, None, None)],
    ),
    Case(
        "2.5",
        "a step number of an event's name marks its events",
        space(with_names(host(work("train"), work("train", at=2 * US)), train={"step_num": 4})),
        "host_slices",
        ("name", "raw_category"),
        [("train 4", "step_num")] * 2,
    ),
    Case("2.6", "the display name is the short name", space(SHOWN), "gpu_ops", OP, [("op", "copy-done.2")]),
    Case(
        "2",
        "starts are floors of ps, before the start of the profile, too",
        space(gpu(work("k", at=-1, dur=2)), start_ns=EXACT_NS),
        "gpu_ops",
        ("start_ns", "dur_ns"),
        [(EXACT_NS - 1, 1)],
    ),
    Case(
        "3",
        "parts of a chip that are no TensorCore are no devices",
        space(
            tpu((1, "SparseCore Ops", [work("sc")]), name="/device:TPU:0 SparseCore 1"),
            tpu((1, "Counters", [work("hbm")]), name="#Chip0"),
            tpu((1, "sends", [work("dcn")]), name="/device:CUSTOM:Megascale Trace"),
        ),
        "async_slices",
        ("pid", "name", "category"),
        [
            ("/device:TPU:0 SparseCore 1", "sc", "span"),
            ("#Chip0", "hbm", "span"),
            ("/device:CUSTOM:Megascale Trace", "dcn", "span"),
        ],
    ),
    *(
        Case(
            "3",
            f"{name} is read like the host",
            space(host(called("cudaMemcpy"), name=name)),
            "host_slices",
            ("name", "category"),
            [("cudaMemcpy", "runtime")],
        )
        for name in ("/host:CUPTI", "/host:ROCTRACER", "/host:python-tracer", "/host:TPU-runtime", "/host:NVTX-CUPTI")
    ),
    *(
        Case(
            "3",
            f"{name} is no thread",
            space(host(work("a")), PlaneMaker(name).line(1, "x", [work("b")])),
            "host_slices",
            ("name",),
            [("a",)],
        )
        for name in ("/host:metadata", "/host:__ScopeRangeCallStack__")
    ),
    Case(
        "3",
        "a device without events is a device",
        space(PlaneMaker("/device:GPU:0"), gpu(work("k")), PlaneMaker("/device:GPU:3")),
        "devices",
        ("device",),
        [(0,), (3,)],
    ),
    *(
        Case(
            "3",
            f"{name} on a GPU repeats the work of others",
            space(gpu(work("k"), name=name)),
            "async_slices",
            ("name", "category"),
            [("k", "derived")],
        )
        for name in DERIVED
    ),
    *(
        Case(
            "3",
            f"a line {number:#x} repeats the work of others",
            space(gpu(work("k"), line_id=line_id, name="")),
            "async_slices",
            ("name", "category"),
            [("k", "derived")],
        )
        for number, line_id in ((0xDEADBEEF, 0xDEADBEEF), (0xDEADBFFF, 0xDEADBFFF - 2**32), (0xDEADBEF7, -559038729))
    ),
    Case(
        "3",
        "threads of one name are not merged",
        space(PlaneMaker("/host:CPU").line(-7, "python", [work("a")]).line(8, "python", [work("b")])),
        "threads",
        ("tid", "thread_name", "process_name"),
        [("-7", "python", "/host:CPU"), ("8", "python", "/host:CPU")],
    ),
    Case(
        "3",
        "slices of the host that cross keep their times",
        space(host(work("$a.py:1 f", dur=4 * US), work("mark", at=2 * US, dur=6 * US))),
        "host_slices",
        ("name", "start_ns", "dur_ns"),
        [("$a.py:1 f", START_NS, 4000), ("mark", START_NS + 2000, 6000)],
    ),
    *(
        Case("4", sentence, space(gpu(*events, name=line)), "gpu_ops", ("kind", "copy_kind"), wanted)
        for sentence, line, events, wanted in (
            (
                "a replay of a graph is work by its id",
                "Stream #1",
                [work("x", {"cuda_graph_exec_id": 9})],
                [("graph", None)],
            ),
            ("a replay of a graph is work by its name", "Stream #1", [work("CudaGraphExec:4")], [("graph", None)]),
            (
                "a copy is known by its details",
                "Stream #1",
                [work("x", {"memcpy_details": "size:8"})],
                [("memcpy", None)],
            ),
            ("MemcpyOther has no direction", "Stream #1", [work("MemcpyOther")], [("memcpy", None)]),
            ("MemcpyP2P is between devices", "Stream #1", [work("MemcpyP2P")], [("memcpy", "PtoP")]),
            ("MemcpyD2D is on the device", "Stream #1", [work("MemcpyD2D")], [("memcpy", "DtoD")]),
            ("CopyHostToDevice goes to the device", "Stream #1", [work("CopyHostToDevice")], [("memcpy", "HtoD")]),
            ("CopyDeviceToHost goes to the host", "Stream #1", [work("CopyDeviceToHost")], [("memcpy", "DtoH")]),
            (
                "a memset is known by its details",
                "Stream #1",
                [work("x", {"Memset_details": "num_bytes:4"})],
                [("memset", None)],
            ),
            ("AMD fills by a kernel", "Stream #1", [work("__amd_rocclr_fillBufferAligned")], [("memset", None)]),
            ("all else is a kernel", "Stream #1", [work("loop_fusion")], [("kernel", None)]),
            (
                "moved managed memory is a copy as well, faults are not",
                f"Stream #{0x10000000}",
                [work("UM_BYTES_TRANSFER_HTOD"), work("UM_CPU_PAGE_FAULT_COUNT")],
                [("memcpy", "HtoD")],
            ),
            ("what the profiler does is no work", "CUPTI overhead", [work("COMPILER")], []),
            ("bookkeeping of memory is no work", "Stream #0", [work("Memory Device", {"MemFree_details": "x"})], []),
        )
    ),
    *(
        Case("4", sentence, space(gpu(*events, name="Stream #0"), *others), "memory_events", MEMORY, wanted)
        for sentence, events, others, wanted in (
            (
                "what the program takes from the driver is memory",
                [
                    work("Memory Device", {"memalloc_details": "kind:device num_bytes:64 addr:0x10"}),
                    work("Memory Device", {"MemFree_details": "kind:device num_bytes:64 addr:0x10"}, 2 * US),
                    work("Memory Pinned", {"memalloc_details": "kind:pinned num_bytes:8"}, 3 * US),
                    work("Memory Device", {"memalloc_details": "odd"}, 4 * US),
                ],
                [],
                [("alloc", 0, 64, 16), ("alloc", -1, 8, None), ("alloc", 0, None, None), ("free", 0, -64, 16)],
            ),
            (
                "what was in use before is no allocation",
                [work("Memory Device", {"MemoryResidency_details": "kind:device num_bytes:64 addr:0x10"})],
                [],
                [],
            ),
            (
                "memory counts once where the allocator is recorded, too",
                [work("Memory Device", {"memalloc_details": "kind:device num_bytes:64 addr:0x10"})],
                [host(work("MemoryAllocation", {"allocator_name": "GPU_0_bfc", "allocation_bytes": 8}))],
                [("alloc", 0, 8, None)],
            ),
        )
    ),
    Case(
        "5",
        "runs of programs are the work of a TPU that shows no operation",
        space(tpu((2, "XLA Modules", [work("jit_f(8)"), work("jit_g(9)", at=3 * US)]), (3, "Steps", [work("1")]))),
        "gpu_ops",
        ("kind", "name", "start_ns", "dur_ns", "is_comm"),
        [("op", "jit_f(8)", START_NS, 1000, False), ("op", "jit_g(9)", START_NS + 3000, 1000, False)],
    ),
    Case(
        "5",
        "it is said that runs of programs count as work",
        space(tpu((2, "XLA Modules", [work("jit_f(8)"), work("jit_g(9)", at=3 * US)]))),
        "defects",
        ("defect", "severity", "defect_count"),
        [("programs-as-work", "note", 2)],
    ),
    Case(
        "5",
        "beside operations, runs of programs are no work",
        space(tpu((2, "XLA Modules", [work("jit_f(8)")]), (3, "XLA Ops", [work("%a")]))),
        "gpu_ops",
        OP,
        [("op", "a")],
    ),
    Case(
        "4",
        "copies of AMD that are kernels have the direction of their launch, and no size where it is 0",
        space(
            gpu(
                work("__amd_rocclr_copyBuffer", {"correlation_id": 5, "memcpy_details": "kind:Unknown size:0 dest:0"}),
                vendor="AMD",
            ),
            host(called("hipMemcpyDtoHAsync", device_id=47645)),
        ),
        "gpu_ops",
        ("kind", "copy_kind", "size_bytes"),
        [("memcpy", "DtoH", None)],
    ),
    Case(
        "4",
        "one call launches all work of its id, whatever device it names",
        space(
            gpu(work("a", {"correlation_id": 5}), work("b", {"correlation_id": 5}, 2 * US)),
            host(called("cuGraphLaunch (CudaGraph:5)", device_id=22244)),
        ),
        "gpu_ops",
        ("name", "correlation"),
        [("a", 5), ("b", 5)],
    ),
    Case(
        "4",
        "a launch that looks like work is a launch",
        space(host(called("gemm", kernel_details=KERNEL_2020)), gpu(work("gemm", {"correlation_id": 5}))),
        "host_slices",
        ("name", "category", "raw_category"),
        [("gemm", "driver", None)],
    ),
    Case(
        "4",
        "launches of names that begin with cuda and hip are of the runtime, cu of the driver",
        space(host(called("cudaLaunchKernel", 1), called("hipLaunchKernel", 2), called("cuLaunchKernelEx", 3))),
        "host_slices",
        ("name", "category"),
        [("cudaLaunchKernel", "runtime"), ("hipLaunchKernel", "runtime"), ("cuLaunchKernelEx", "driver")],
    ),
    *(
        Case(
            "4",
            f"the launch is described by keys in any order: {text}",
            space(gpu(work("k", {"kernel_details": Ref(text)}))),
            "gpu_ops",
            LAUNCH_COLUMNS,
            [wanted],
        )
        for text, wanted in (
            (KERNEL_2020, (160, 1024, 38, 0)),
            (KERNEL_NVIDIA, (7, 128, 64, 48)),
            (KERNEL_AMD, (64, 256, None, 512)),
            (UNSET, (1, 64, None, None)),
        )
    ),
    *(
        Case(
            "4",
            f"occupancy is {wanted} of {text} and {share}",
            space(
                gpu(
                    work(
                        "k",
                        {"kernel_details": text, **({"theoretical_occupancy_pct": share} if share is not None else {})},
                    )
                )
            ),
            "gpu_ops",
            ("occupancy_percent",),
            [(wanted,)],
        )
        for text, share, wanted in ((KERNEL_NVIDIA, 50.0, 50.0), (KERNEL_NVIDIA, None, 75.0), (KERNEL_AMD, 0.0, None))
    ),
    *(
        Case(
            "4",
            f"a copy is described by keys: {text}",
            space(gpu(work("MemcpyH2D", {"memcpy_details": text}))),
            "gpu_ops",
            ("size_bytes", "src_kind", "dst_kind"),
            [wanted],
        )
        for text, wanted in (
            ("size:112 dest:4 async:0", (112, None, None)),
            ("kind_src:pinned kind_dst:device size:64 dest:0 async:1", (64, "pinned", "device")),
            ("kind:Unknown size:655360 dest:2 async:1", (655360, None, None)),
        )
    ),
    Case(
        "4",
        "a plane that says it lost events has lost them",
        space(gpu(work("k")), more=block_field(2, "Detected GPU events dropped on a: 3 events dropped because …")),
        "defects",
        ("defect", "severity", "defect_count"),
        [("events-dropped", "loss", 3)],
    ),
    Case(
        "5",
        "the greatest distance of the two clocks is said, of all chips",
        space(
            *(
                tpu(
                    (3, "XLA Ops", [work("%a", {"device_offset_ps": apart * MS, "device_duration_ps": US})]),
                    name=f"/device:TPU:{chip}",
                )
                for chip, apart in enumerate((1, 30, 2))
            )
        ),
        "defects",
        ("defect", "defect_count", "example"),
        [("device-clock-mapped", 3, "30.0 ms")],
    ),
    Case(
        "5",
        "operations alone are the work of a TPU",
        space(
            tpu(
                (3, "XLA Ops", [work("%a")]),
                *(
                    (n, name, [work("%b")])
                    for n, name in enumerate(("Async XLA Ops", "Overlay", "XLA TraceMe", "Steps"), 4)
                ),
            )
        ),
        "gpu_ops",
        ("name", "stream"),
        [("a", None)],
    ),
    Case(
        "5",
        "an operation has its device's clock only where both of its values are there",
        space(tpu((3, "XLA Ops", [work("%a", {"device_offset_ps": 9 * US}, 2 * US)]))),
        "gpu_ops",
        ("start_ns", "dur_ns"),
        [(START_NS + 2000, 1000)],
    ),
    Case(
        "6",
        "any event with step_num is a mark, whatever its name and _r",
        space(
            host(
                work("Profiled batch", {"step_num": -3}),
                work("train", {"step_num": 8, "_r": 1}, 2 * US),
                work("train", {"step_num": 8}, 4 * US),
            )
        ),
        "host_slices",
        ("name", "category", "raw_category"),
        [(name, "annotation", "step_num") for name in ("Profiled batch -3", "train 8", "train 8")],
    ),
    *(
        Case(
            "6",
            f"{name} {stats} beside a frame is {category}",
            space(host(work("$a.py:1 f", dur=9 * US), work(name, stats, US))),
            "host_slices",
            ("name", "category"),
            [("$a.py:1 f", "python"), (name, category)],
        )
        for name, stats, category in (
            ("load_batch", {}, "annotation"),
            ("load_batch", {"_src": "x"}, "other"),
            ("load_batch", {"_p": 3}, "other"),
            ("$builtins len", {}, "python"),
            ("PjitFunction(step)", {}, "other"),
            ("tsl::Thing::Run", {}, "other"),
            ("Wait for arguments", {}, "other"),
            ("end: dot.3", {}, "other"),
            ("ParseArguments", {}, "other"),
            ("DevicePutWithSharding", {}, "other"),
            ("shard_args", {}, "other"),
            ("Handle inputs", {}, "other"),
            ("AllocateOutputBuffersWithInputReuse", {}, "other"),
            ("H2D Dispatch", {}, "other"),
            ("XLA Modules", {}, "other"),
            ("dot.3", {"hlo_op": "dot.3", "hlo_module": "jit_f"}, "cpu_op"),
        )
    ),
    Case(
        "6",
        "without a frame or a mark on its line, a name is nobody's annotation",
        space(host(work("load_batch"))),
        "host_slices",
        ("category",),
        [("other",)],
    ),
    Case(
        "6",
        "no device is made of what runs on the CPU",
        space(host(work("dot.3", {"hlo_op": "dot.3", "device_ordinal": 3}))),
        "devices",
        ("device",),
        [],
    ),
    Case(
        "6",
        "allocators say what is in use and on which device",
        space(
            host(
                work("MemoryAllocation", {"allocator_name": "GPU_1_bfc", "allocation_bytes": 8, "bytes_allocated": 24}),
                work("MemoryDeallocation", {"index_on_host": 2, "allocation_bytes": 8, "bytes_allocated": 16}, 2 * US),
            )
        ),
        "memory_events",
        ("kind", "device", "size_bytes", "allocated_bytes"),
        [("alloc", 1, 8, 24), ("free", 2, -8, 16)],
    ),
    *(
        Case(
            "7",
            f"{name} of {line} shows who recorded",
            space(host(work(name), line=line)),
            "traces",
            ("recorder", "framework"),
            [who],
        )
        for name, line, who in (
            ("PjitFunction(f)", "python", ("jax", "jax")),
            ("EagerExecute: Add", "python", ("tensorflow", "tensorflow")),
            ("ExecutorState::Process", "tf_Compute/1", ("tensorflow", "tensorflow")),
            ("a", "tf_pytorchxla/1", ("torch_xla", "pytorch")),
            ("PjRtComputationClient::ExecuteComputation", "python", ("torch_xla", "pytorch")),
        )
    ),
    Case(
        "7",
        "the host is named without its port, and its stacks are known by their frames",
        space(host(work("$a.py:1 f")), more=block_field(4, "node1:8431")),
        "traces",
        ("host", "has_stacks", "has_shapes", "rank", "base_ns"),
        [("node1", True, False, None, START_NS)],
    ),
    Case(
        "7",
        "bytes are left out of what an event carries",
        space(host(work("a", {"proto": b"\x0a\x00", "n": 1}))),
        "event_args",
        ("args",),
        [(json.dumps({"n": 1}, separators=(",", ":")),)],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case.section} {case.sentence}" for case in CASES])
def test_a_sentence_holds(case: Case, tmp_path: Path) -> None:
    rows = read(case.content, tmp_path).get(case.table, [])
    assert [tuple(row[name] for name in case.columns) for row in rows] == case.wanted


@pytest.mark.parametrize(("starts", "count"), [([0], None), ([0, 0], None), ([MS, 2 * MS], 2)])
def test_it_is_said_that_a_file_holds_several_recordings(starts: list[int], count: int | None, tmp_path: Path) -> None:
    tasks = [session(START_NS + start) for start in starts]
    rows = read(space(*tasks, gpu(work("k"))), tmp_path)["defects"]
    assert {row["defect"]: row["defect_count"] for row in rows}.get("several-sessions") == count


def kernels(device: int = 0, *, stamps: str = "") -> PlaneMaker:
    """
    host   [launch    ][launch    ] …      each 10 ms
    device   [kernel ]   [kernel ]  …      from 2 to 9 ms
    """
    plane = PlaneMaker(f"/device:GPU:{device}")
    plane.stats = {"device_vendor": "Nvidia"}
    work = [(at * 10 * MS + 2 * MS, 7 * MS, "fusion", {"correlation_id": at + 1}) for at in range(6)]
    plane.line(1, "Stream #1", work, 0)
    if stamps:
        plane.line(-559038737, "Steps", [(at * 10 * MS, 9 * MS, number, {}) for at, number in enumerate(stamps)], 0)
    return plane


def marks(*numbers: int, name: str = "train", ms: float = 9, after_ms: float = 0) -> list[Event]:
    return [
        (int((at * 10 + after_ms) * MS), int(ms * MS), name, {"step_num": number}) for at, number in enumerate(numbers)
    ]


LAUNCHES: list[Event] = [(at * 10 * MS + MS, US, "cuLaunchKernel", {"correlation_id": at + 1}) for at in range(6)]
RUNS: list[Event] = [(at * 10 * MS, 8 * MS, "jit_f(8)", {}) for at in range(6)]
CHIP: tuple[tuple[int, str, list[Event]], ...] = (
    (3, "XLA Ops", [(at, dur, "%fusion", {}) for at, dur, _, _ in RUNS]),
    (2, "XLA Modules", RUNS),
)
PAIRS: list[Event] = [(at * 20 * MS, 19 * MS, str(at + 3), {}) for at in range(3)]
GPU_AT = [(at * 10 + 2, 10) for at in range(5)] + [(52, 7)]


@pytest.mark.check
@pytest.mark.parametrize(
    ("content", "source", "wanted"),
    [
        pytest.param(
            space(host(*marks(3, 4, 5, 9, 10, 11), *LAUNCHES), kernels()),
            "annotation",
            [(0, n, f"train {n}", *at) for n, at in zip((3, 4, 5, 9, 10, 11), GPU_AT, strict=True)],
            id="numbers that jump are the steps' own",
        ),
        pytest.param(
            space(host(*marks(*[7] * 6), *LAUNCHES), kernels()),
            "annotation",
            [(0, n, "train 7", *at) for n, at in enumerate(GPU_AT)],
            id="equal numbers are different steps",
        ),
        pytest.param(
            space(
                host(*marks(*range(6)), *marks(*range(6), name="inner", ms=3, after_ms=0.5), *LAUNCHES).line(
                    8, "other", marks(*range(5)), 3
                ),
                kernels(),
            ),
            "annotation",
            [(0, n, f"train {n}", *at) for n, at in enumerate(GPU_AT)],
            id="steps are the outermost marks of the thread with most of them",
        ),
        pytest.param(
            space(host(*LAUNCHES), kernels(stamps="345678"), kernels(1)),
            "device",
            [(0, n + 3, str(n + 3), *at) for n, at in enumerate(GPU_AT)],
            id="a line of steps holds those of its device where the host marks none",
        ),
        pytest.param(
            space(host(*marks(*range(6)), *LAUNCHES), kernels(stamps="345678")),
            "annotation",
            [(0, n, f"train {n}", *at) for n, at in enumerate(GPU_AT)],
            id="marks of the host go before a line of steps",
        ),
        pytest.param(
            space(host(*LAUNCHES), kernels(stamps="3")), None, [], id="one mark of a device may be cut at both ends"
        ),
        pytest.param(
            space(host(work("a")), tpu(*CHIP)),
            "programs",
            [(0, n, f"jit_f {n}", n * 10, 10 if n < 5 else 8) for n in range(6)],
            id="steps of a TPU without marks are the runs of its program",
        ),
        pytest.param(
            space(host(work("a")), tpu(*CHIP, (9, "Steps", PAIRS))),
            "device",
            [(0, 3, "3", 0, 20), (0, 4, "4", 20, 20), (0, 5, "5", 40, 18)],
            id="steps of a TPU that has a line of them are those",
        ),
    ],
)
def test_steps_are_what_marks_them(
    content: bytes, source: str | None, wanted: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(content)
    with open_run(path, store=tmp_path / "store") as run:
        found = run.sql(
            "SELECT device, step, name, (start_ns - base_ns) // 1000000, (end_ns - start_ns) // 1000000 "
            "FROM attribution.steps JOIN canonical.traces USING (trace_id) ORDER BY ALL"
        ).fetchall()
        ((shown_by,),) = run.sql("SELECT step_source FROM attribution.windows WHERE device = 0").fetchall()
    assert (found, shown_by) == (wanted, source)
