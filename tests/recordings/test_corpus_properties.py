"""What holds of the samples holds of real traces: the properties of `test_properties`, each trace diagnosed once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import rewritten_trace as rewritten
from rewritten_trace import Document
from test_properties import (
    SAME,
    SHIFTS_US,
    Found,
    assert_alike_but_for,
    diagnosed,
    diagnosis_of,
    fired,
    numbers,
    quality,
    same,
)

# The smallest ones: each is diagnosed eight times.
TRACES = (
    "kineto/triton_example",
    "kineto/cuda_event_sync_multi_stream",
    "kineto/mi250_rocm6",
    "kineto/cuda_sync_events_2023",
    "more/h100_small_transformer",
    "kineto/mi210_gpu_only",
    "kineto/mi300_vllm_full_graph",
    "more/mi300_sglang_decode",
    "kineto/distributed_info_without_rank",
    "kineto/no_distributed_info",
    "more/a4000_shift_vit",
)
every_trace = pytest.mark.parametrize("name", TRACES)


def of_name(name: str, items: list[Any]) -> Any:
    """Return one of some variants, by the trace's place: each trace tries one, all traces together try all."""
    return items[TRACES.index(name) % len(items)]


@pytest.fixture(scope="module")
def document(corpus: Path) -> Callable[[str], Document]:
    """The events of a trace."""
    return lambda name: rewritten.read(corpus / f"{name}.json.gz")


@pytest.fixture(scope="module")
def plain(document: Callable[[str], Document], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Found]:
    """The diagnosis of a trace as it is."""
    return cache(lambda name: diagnosis_of(document(name), tmp_path_factory.mktemp("plain") / "as_it_is"))


@every_trace
@pytest.mark.parametrize("change", ["graph id 0", "correlations"])
def test_the_same_in_other_ids_is_diagnosed_alike(
    name: str, change: str, document: Callable[[str], Document], plain: Callable[[str], Found], tmp_path: Path
) -> None:
    if change == "correlations":
        change = of_name(name, ["correlations permuted", "correlations from one"])
    same(diagnosis_of(SAME[change](document(name)), tmp_path / "changed"), plain(name))


@every_trace
def test_the_name_of_the_file_changes_no_number(
    name: str, document: Callable[[str], Document], plain: Callable[[str], Found], tmp_path: Path
) -> None:
    folder = rewritten.written_as([document(name)], tmp_path / "run", of_name(name, [*rewritten.NAMES]))
    found = diagnosed(folder, tmp_path / "store")
    assert numbers(found) == numbers(plain(name))
    said = document(name).get("distributedInfo", {}).get("rank")
    assert [trace["rank"] for trace in found["traces"]] == [said]


@every_trace
def test_files_that_are_no_recordings_change_no_number(
    name: str, document: Callable[[str], Document], plain: Callable[[str], Found], tmp_path: Path
) -> None:
    folder = rewritten.write(document(name), tmp_path / "run" / "rank0.json.gz").parent
    add = of_name(name, [rewritten.add_captures, partial(rewritten.add_no_recordings, document=document(name))])
    names = add(folder)
    found = diagnosed(folder, tmp_path / "store")
    assert len(found["traces"]) == 1
    assert numbers(found) == numbers(plain(name))
    assert sorted(file["file"] for file in found["left_out"]) == sorted(name for name in names if name != "config.json")


@every_trace
def test_a_damaged_record_changes_no_other_number(
    name: str, document: Callable[[str], Document], plain: Callable[[str], Found], tmp_path: Path
) -> None:
    trace = document(name)
    found = _lonely_kernel(trace)
    if found is None:
        pytest.skip("no kernel runs alone between two others")
    at, spared_us = found
    damage = of_name(name, [*rewritten.DAMAGES])
    changed = diagnosis_of(rewritten.damaged(trace, at, damage), tmp_path / "damaged")
    assert_alike_but_for(changed, plain(name), int(spared_us * 1_000) + 1)


def _lonely_kernel(trace: Document) -> tuple[int, float] | None:
    """Return the number of the kernel nearest to the middle that no other operation of its device overlaps.

    With it comes the time from the end of the operation before it to the start of the next.
    """
    kernels = [
        (event["ts"], event["dur"], at, (event["pid"], event["tid"]))
        for at, event in enumerate(trace["traceEvents"])
        if rewritten.is_operation(event) and event.get("dur", 0) > 0
    ]
    found = [item for item in _alone(sorted(kernels)) if trace["traceEvents"][item[0]]["cat"].lower() == "kernel"]
    return found[len(found) // 2] if found else None


def _alone(operations: list[tuple[float, float, int, tuple[object, object]]]) -> Iterator[tuple[int, float]]:
    reached = 0.0
    for before, own, after in zip(operations, operations[1:], operations[2:], strict=False):
        reached = max(reached, before[0] + before[1])
        # Only the next operation of its stream shows that a duration is wrong.
        one_device = before[3][0] == own[3][0] and own[3] == after[3]
        if one_device and reached <= own[0] and own[0] + own[1] <= after[0]:
            yield own[2], after[0] - reached


@every_trace
def test_clocks_apart_are_named_and_nothing_is_concluded(
    name: str, document: Callable[[str], Document], plain: Callable[[str], Found], tmp_path: Path
) -> None:
    trace = document(name)
    kinds = {event.get("cat") for event in trace["traceEvents"]}
    if not (kinds & rewritten.RUNTIME_CALLS and kinds & rewritten.OPERATIONS):
        pytest.skip("no two clocks are in the trace")
    shift = of_name(name, [*SHIFTS_US])
    found = diagnosis_of(rewritten.with_device_clock(trace, SHIFTS_US[shift]), tmp_path / "shifted")
    assert fired(found) <= fired(plain(name))
    # Whether recording frames delayed kernels is not concluded either.
    assert quality(found) > quality(plain(name)) - {"tq-profiler-overhead"}


EXPORTS = ("nsys/rtx3080_tiny_2026.1", "nsys/cuda_graph_2025.5", "more/simplex_3090", "nsys/h100x2_2026.2")
every_export = pytest.mark.parametrize("name", EXPORTS)
Change = Callable[[sqlite3.Connection], object]


@pytest.fixture(scope="module")
def exported(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Found]:
    """The diagnosis of an Nsight export, changed and under a name."""

    @cache
    def found(name: str, *changes: Change, file: str = "report.sqlite") -> Found:
        folder = tmp_path_factory.mktemp("export")
        rewritten.export(corpus / f"{name}.sqlite", folder / "run" / file, *changes)
        return diagnosed(folder / "run", folder / "store")

    return found


@pytest.mark.check
@every_export
@pytest.mark.parametrize("change", [rewritten.permute_correlations, rewritten.add_graph_id_zero])
def test_an_export_with_other_ids_is_diagnosed_alike(name: str, change: Change, exported: Callable[..., Found]) -> None:
    same(exported(name, change), exported(name))


@pytest.mark.check
@every_export
def test_the_name_of_an_export_changes_no_number(name: str, exported: Callable[..., Found]) -> None:
    other = ["report_31337.sqlite", "2026-11-27_10-30.sqlite", "iteration_20.sqlite", "node7.1767190000.sqlite"]
    found = exported(name, file=other[EXPORTS.index(name)])
    assert numbers(found) == numbers(exported(name))
    assert [trace["rank"] for trace in found["traces"]] == [trace["rank"] for trace in exported(name)["traces"]]


@pytest.mark.check
@pytest.mark.parametrize("name", [*EXPORTS, "nsys/cuda_2026.1"])  # its program waits only for events
@pytest.mark.parametrize("shift", SHIFTS_US)
def test_clocks_apart_in_an_export_are_named_and_nothing_is_concluded(
    name: str, shift: str, exported: Callable[..., Found]
) -> None:
    found = exported(name, partial(rewritten.move_devices, shift_ns=int(SHIFTS_US[shift] * 1e3)))
    assert fired(found) <= fired(exported(name))
    assert quality(found) > quality(exported(name))


@pytest.mark.check
@pytest.mark.parametrize("share", [0.02, -0.02])
@pytest.mark.parametrize("name", ["nsys/sync_per_launch_2022.4", "more/cupy_transit_search_3060"])
def test_a_clock_that_drifts_in_an_export_is_named_and_nothing_is_concluded(
    name: str, share: float, exported: Callable[..., Found]
) -> None:
    found = exported(name, partial(rewritten.drift_devices, share=share))
    assert fired(found) <= {"dominant-kernel"}  # a share of the device's time alone
    assert "clocks-contradict" in quality(found)


@pytest.mark.check
@pytest.mark.parametrize("name", EXPORTS[2:])  # the others have few kernels, and each is much of the time
@pytest.mark.parametrize("damage", rewritten.EXPORT_DAMAGES)
def test_a_damaged_row_of_an_export_changes_no_other_number(
    name: str, damage: str, exported: Callable[..., Found]
) -> None:
    spared_ns: list[int] = []
    found = exported(name, lambda database: spared_ns.append(rewritten.damage_kernel(database, damage)))
    assert_alike_but_for(found, exported(name), spared_ns[0] + 1)


@pytest.mark.check
@pytest.mark.parametrize(
    ("file", "other"),
    [
        ("xla/jax_train_default.xplane.pb", "iteration_20.xplane.pb"),
        ("xla/tf_keras.xplane.pb", "2026_11_27_10_30_00.xplane.pb"),
        ("amd/mi300_vllm_results.db", "31337_results.db"),
        ("amd/mi350_small_results.json.gz", "node7_4242_results.json.gz"),
        ("amd/matmul_result.rpd", "trace_20.rpd"),
    ],
)
def test_names_and_unfinished_files_change_no_number_of_other_formats(
    file: str, other: str, corpus: Path, tmp_path: Path
) -> None:
    data = (corpus / file).read_bytes()
    for folder, name in (("plain", Path(file).name), ("other", other)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(data)
    (tmp_path / "other" / f"{other}.tmp").write_bytes(data[:9_000])
    found = diagnosed(tmp_path / "other", tmp_path / "store")
    assert numbers(found) == numbers(diagnosed(tmp_path / "plain", tmp_path / "plain_store"))
    assert [trace["rank"] for trace in found["traces"]] == [None]
    assert [left["file"] for left in found["left_out"]] == [f"{other}.tmp"]
