"""Profiles of XLA in canonical tables, on small files made field by field and on a recorded one of an H200."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from xspace import MS, START_NS, US, PlaneMaker, Ref, Tables, block_field, number_field, read, space

RECORDED = Path(__file__).parents[1] / "data" / "device" / "jax_gpu" / "trainer.xplane.pb"
DETAILS = Ref("regs:64 static_shared:0 dynamic_shared:49152 grid:264,1,1 block:128,1,1 occ_pct:50")
COPY = Ref("kind_src:pinned kind_dst:device size:1048576 dest:0 async:1")


def gpu_plane() -> PlaneMaker:
    plane = PlaneMaker("/device:GPU:0")
    plane.stats = {"device_vendor": "Nvidia", "gpu_device_name": "NVIDIA H100 80GB HBM3", "core_count": 132}
    kernel = {"correlation_id": 7, "context_id": "$$3", "kernel_details": DETAILS, "hlo_op": Ref("fusion.1")}
    plane.line(
        13,
        "Stream #13(Compute,Memset)",
        [
            (2 * MS, MS, "fusion_1", kernel),
            (
                3 * MS,
                5 * US,
                "Memset 3",
                {"correlation_id": 9, "Memset_details": Ref("kind:device num_bytes:64 async:1")},
            ),
            (4 * MS, MS, "node", {"correlation_id": 10, "cuda_graph_id": 6, "cuda_graph_node_id": 1}),
        ],
    )
    plane.line(14, "Stream #14(MemcpyH2D)", [(MS, 60 * US, "MemcpyH2D", {"correlation_id": 8, "memcpy_details": COPY})])
    plane.line(
        0, "Stream #0", [(0, 1000, "Memory Device", {"MemoryResidency_details": Ref("kind:device num_bytes:64")})]
    )
    plane.line(2**32 - 3, "CUPTI overhead", [(6 * MS, MS, "BUFFER_FLUSH", {})])
    plane.line(999, "_counters_", [(MS, 0, "power_mw", {"power_mw": 350000.5})])
    return plane.line(-559038737, "Steps", [(MS, 5 * MS, "7", {})])


def host_plane() -> PlaneMaker:
    plane = PlaneMaker("/host:CPU")
    launches: list[tuple[int, int, str, dict[str, Any]]] = [
        (100 * US, 6 * US, "cuMemcpyHtoDAsync_v2", {"correlation_id": 8, "device_id": 44}),
        (200 * US, 6 * US, "cuLaunchKernel", {"correlation_id": 7}),
        (300 * US, 6 * US, "cuMemsetD32Async", {"correlation_id": 9}),
        (400 * US, 6 * US, "cuGraphLaunch (CudaGraph:5)", {"correlation_id": 10}),
        (150 * US, 0, "MemoryAllocation", {"allocator_name": "GPU_0_bfc", "allocation_bytes": 256, "addr": -5}),
    ]
    plane.line(4242, "py_xla_execute/4242", launches)
    python = [
        (50 * US, 900 * US, "train", {"_r": 1, "step_num": 7}),
        (60 * US, 20 * US, "load_batch", {}),
        (70 * US, 5 * US, "$loader.py:3 read", {}),
        (90 * US, 500 * US, "PjitFunction(step)", {"_pt": 5, "_p": 2**63 + 1}),
    ]
    return plane.line(-77, "python", python)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    warning = block_field(3, "Detected GPU events dropped on node1: 12 events dropped because buffers were full;")
    content = space(gpu_plane(), host_plane(), more=warning + block_field(4, "node1:8431"))
    return read(content, tmp_path_factory.mktemp("made"))


def test_work_is_what_lies_on_streams_and_no_bookkeeping(tables: Tables) -> None:
    work = [(op["stream"], op["kind"], op["name"], op["start_ns"], op["dur_ns"]) for op in tables["gpu_ops"]]
    at = START_NS + 1000
    assert work == [
        (13, "kernel", "fusion_1", at + 2_000_000, 1_000_000),
        (13, "memset", "Memset 3", at + 3_000_000, 5_000),
        (13, "kernel", "node", at + 4_000_000, 1_000_000),
        (14, "memcpy", "MemcpyH2D", at + 1_000_000, 60_000),
    ]


def test_work_is_linked_by_its_correlation_alone_and_to_the_step_it_was_launched_in(tables: Tables) -> None:
    slices = {row["slice_id"]: row for row in tables["host_slices"]}
    launches = [(op["name"], slices[op["launch_id"]]["name"], op["link_source"]) for op in tables["gpu_ops"]]
    assert launches == [
        ("fusion_1", "cuLaunchKernel", "time"),
        ("Memset 3", "cuMemsetD32Async", "time"),
        ("node", "cuGraphLaunch (CudaGraph:5)", "time"),
        ("MemcpyH2D", "cuMemcpyHtoDAsync_v2", "time"),
    ]
    assert {slices[op["annotation_id"]]["name"] for op in tables["gpu_ops"]} == {"train 7"}


def test_details_of_launches_and_copies_are_columns(tables: Tables) -> None:
    kernel, memset, node, copy = tables["gpu_ops"]
    assert (kernel["grid_x"], kernel["block_x"], kernel["registers_per_thread"], kernel["shared_memory_bytes"]) == (
        264,
        128,
        64,
        49152,
    )
    assert (kernel["hlo_op"], kernel["context"], node["graph_id"], node["graph_node_id"]) == ("fusion.1", 3, 6, 1)
    assert (copy["copy_kind"], copy["size_bytes"], copy["src_kind"], copy["dst_kind"]) == (
        "HtoD",
        1048576,
        "pinned",
        "device",
    )
    assert (memset["size_bytes"], memset["dst_kind"]) == (64, "device")


def test_slices_of_the_host_have_the_category_that_their_names_and_values_show(tables: Tables) -> None:
    found = {row["name"]: (row["category"], row["raw_category"]) for row in tables["host_slices"]}
    assert found == {
        "cuMemcpyHtoDAsync_v2": ("driver", None),
        "cuLaunchKernel": ("driver", None),
        "cuMemsetD32Async": ("driver", None),
        "cuGraphLaunch (CudaGraph:5)": ("driver", None),
        "train 7": ("annotation", "step_num"),
        "load_batch": ("annotation", None),
        "$loader.py:3 read": ("python", None),
        "PjitFunction(step)": ("other", None),
    }


def test_what_is_no_work_has_tables_of_its_own(tables: Tables) -> None:
    assert [(row["name"], row["category"]) for row in tables["async_slices"]] == [
        ("Memory Device", "memory"),
        ("BUFFER_FLUSH", "span"),
        ("7", "derived"),
    ]
    assert [(row["name"], row["value"]) for row in tables["counters"]] == [("power_mw", 350000.5)]
    (allocation,) = tables["memory_events"]
    assert (allocation["kind"], allocation["device"], allocation["size_bytes"]) == ("alloc", 0, 256)
    assert [(row["flow_id"], row["category"], row["phase"]) for row in tables["flows"]] == [(str(2**63 + 1), "5", "s")]


def test_values_of_events_are_json_with_references_resolved(tables: Tables) -> None:
    args = {row["event_id"]: json.loads(row["args"]) for row in tables["event_args"]}
    kernel = tables["gpu_ops"][0]
    assert args[kernel["op_id"]] == {
        "correlation_id": 7,
        "context_id": "$$3",
        "kernel_details": DETAILS,
        "hlo_op": "fusion.1",
    }


def test_the_trace_and_its_device_are_described(tables: Tables) -> None:
    (trace,) = tables["traces"]
    assert {key: trace[key] for key in ("format", "recorder", "framework", "vendor", "host", "base_ns")} == {
        "format": "xplane",
        "recorder": "jax",
        "framework": "jax",
        "vendor": "nvidia",
        "host": "node1",
        "base_ns": START_NS,
    }
    assert [(row["device"], row["name"], row["sm_count"]) for row in tables["devices"]] == [
        (0, "NVIDIA H100 80GB HBM3", 132)
    ]
    assert [(row["defect"], row["severity"], row["defect_count"]) for row in tables["defects"]] == [
        ("command-buffer", "note", 1),
        ("events-dropped", "loss", 12),
    ]


def test_an_operation_of_a_tpu_is_timed_by_the_clock_of_its_device(tmp_path: Path) -> None:
    """The event lasts 9 ms by the host's clock; the device measured 2 ms."""
    plane = PlaneMaker("/device:TPU:0")
    clock = {"device_offset_ps": 7 * MS, "device_duration_ps": 2 * MS}
    plane.line(3, "XLA Ops", [(5 * MS, 9 * MS, "%all-reduce.1 = f32[8]", clock), (20 * MS, MS, "%add.1", {})], 0)
    plane.line(4, "Async XLA Ops", [(5 * MS, 9 * MS, "%copy-start", {})], 0)
    plane.name_stats["%all-reduce.1 = f32[8]"] = {"hlo_category": Ref("all-reduce"), "flops": 8}
    tables = read(space(plane), tmp_path)
    at = START_NS
    assert [(op["kind"], op["stream"], op["is_comm"], op["start_ns"], op["dur_ns"]) for op in tables["gpu_ops"]] == [
        ("op", None, True, at + 7_000_000, 2_000_000),
        ("op", None, False, at + 20_000_000, 1_000_000),
    ]
    assert [(row["defect"], row["example"]) for row in tables["defects"]] == [("device-clock-mapped", "7.0 ms")]
    first = json.loads(tables["event_args"][0]["args"])
    assert first == {**clock, "hlo_category": "all-reduce", "flops": 8}


def test_neighbours_stay_neighbours_in_whole_nanoseconds(tmp_path: Path) -> None:
    plane = PlaneMaker("/device:GPU:0")
    plane.line(1, "Stream #1", [(1_500, 1_000, "a", {}), (2_500, 600, "b", {})])
    at = START_NS + 1000
    work = [(op["start_ns"], op["dur_ns"]) for op in read(space(plane), tmp_path)["gpu_ops"]]
    assert work == [(at + 1, 1), (at + 2, 1)]


def test_a_line_that_counts_from_1970_is_not_moved(tmp_path: Path) -> None:
    plane = PlaneMaker("/device:GPU:0")
    plane.line(1, "Stream #1", [(1_000, 1_000, "a", {})], START_NS).line(2, "Stream #2", [(0, 1_000, "b", {})], 5)
    tables = read(space(plane), tmp_path)
    assert [op["start_ns"] for op in tables["gpu_ops"]] == [START_NS + 1, START_NS + 5]
    assert [row["defect"] for row in tables["defects"]] == ["mixed-clock-base"]


def test_fields_are_defaults_ids_are_of_planes_and_what_is_odd_is_counted(tmp_path: Path) -> None:
    def event(*fields: bytes) -> bytes:
        return block_field(4, b"".join(fields))

    line = (
        event(number_field(2, 5 * US), number_field(3, 7 * US))  # no name: id 0
        + event(number_field(1, 99), number_field(2, 20 * US), number_field(3, US))
        + event(number_field(1, 1), number_field(5, 12), number_field(3, 30 * US))
        + event(number_field(1, 1), number_field(2, -3 * US), number_field(3, 2 * US))
        + event(number_field(1, 1), number_field(2, 40 * US), number_field(3, -1))
        + event(number_field(1, 1), number_field(2, 50 * US), number_field(3, 2**62))
        + event(
            number_field(1, 1),
            number_field(2, 60 * US),
            block_field(4, number_field(1, 3) + block_field(8, gzip.compress(b"long text", mtime=0))),
            block_field(4, number_field(1, 3) + block_field(5, "second")),
            number_field(77, 1),
        )
        + block_field(2, "Stream #7(Compute)")
        + number_field(3, 1000)
        + number_field(1, 7)
        + block_field(99, b"later version")
    )
    plane = (
        block_field(3, line)
        + block_field(4, number_field(1, 0) + block_field(2, block_field(2, "name of id zero")))
        + block_field(4, number_field(1, 1) + block_field(2, number_field(1, 1) + block_field(2, b"bad \xff kernel")))
        + block_field(5, number_field(1, 3) + block_field(2, number_field(1, 3) + block_field(2, "note")))
        + block_field(2, "/device:GPU:0")
    )
    tables = read(block_field(1, plane) + block_field(123, b"later"), tmp_path)
    assert [(op["name"], op["start_ns"], op["dur_ns"]) for op in tables["gpu_ops"]] == [
        ("name of id zero", 6_000, 7_000),
        ("?99", 21_000, 1_000),
        ("bad \ufffd kernel", -2_000, 2_000),
        ("bad \ufffd kernel", 41_000, 0),
        ("bad \ufffd kernel", 61_000, 0),
    ]
    assert json.loads(tables["event_args"][0]["args"]) == {"note": "long text"}
    assert {row["defect"]: row["defect_count"] for row in tables["defects"]} == {
        "aggregated-events": 1,
        "bad-duration": 1,
        "invalid-utf8": 1,
        "negative-duration": 1,
        "unknown-clock": 1,
        "unknown-name": 1,
    }


def test_values_whose_names_are_lost_are_counted(tmp_path: Path) -> None:
    plane = PlaneMaker("/device:GPU:0").line(7, "Stream #7(Compute)", [(0, US, "k", {"correlation_id": 5})] * 2)
    plane.stat_names.clear()
    tables = read(space(plane), tmp_path)
    assert [op["correlation"] for op in tables["gpu_ops"]] == [None, None]
    assert ("unknown-name", 1) in [(row["defect"], row["defect_count"]) for row in tables["defects"]]


def test_the_recorded_profile_of_an_h200_is_read_whole(tmp_path: Path) -> None:
    tables = read(RECORDED, tmp_path)
    (trace,) = tables["traces"]
    assert (trace["recorder"], trace["producer"], trace["event_count"]) == ("jax", "jax 0.11.2, jaxlib 0.11.2", 218)
    assert [(op["kind"], op["graph_id"]) for op in tables["gpu_ops"]] == [("kernel", 8)] * 30
    assert sum(op["dur_ns"] for op in tables["gpu_ops"]) == 785_654
    assert [row["name"] for row in tables["host_slices"] if row["raw_category"]] == [f"train {n}" for n in range(5)]


@pytest.mark.parametrize(
    ("kernel", "stats", "recorder"),
    [
        ("fusion_1", {"hlo_module": Ref("jit_train_step")}, "jax"),
        ("fusion_1", {"name": "pmap(f)/add", "hlo_module": Ref("pmap_f")}, "jax"),
        ("fusion_1", {"hlo_module": Ref("SyncTensorsGraph.12")}, "torch_xla"),
        ("fusion_1", {"hlo_module": Ref("cluster_0__XlaCompiledKernel")}, "tensorflow"),
        ("void tensorflow::functor::Fill<float>(int)", {}, "tensorflow"),
        ("my_kernel", {}, None),
    ],
)
def test_without_events_of_the_host_the_recorder_is_the_framework_whose_programs_ran(
    kernel: str, stats: dict[str, Any], recorder: str | None, tmp_path: Path
) -> None:
    """As where JAX records with host_tracer_level=0."""
    plane = PlaneMaker("/device:GPU:0").line(13, "Stream #13(Compute)", [(MS, MS, kernel, stats)])
    plane.stats = {"device_vendor": "Nvidia"}
    (trace,) = read(space(plane), tmp_path)["traces"]
    assert trace["recorder"] == recorder
