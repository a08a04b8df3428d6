"""Steps of traces that mark none: found where a sequence of launches recurs for sure, and not made up elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from drawn_timeline import tables as drawn_tables
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples
from workloads.workloads import WORKLOADS

from traceanalyzer.attribution.steps.recurring_launches import StretchHashes
from traceanalyzer.run import open_run
from tracesim import in_memory, simulate

pc: Any = pyarrow.compute
WINDOWS = "SELECT step_source, step_count, step_mean_ns FROM windows"


def unmarked(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Return a run without the marks of the profiler and of the optimizer."""
    slices = tables["host_slices"]
    at = slices.schema.get_field_index("name")
    names = pc.replace_substring_regex(slices["name"], "^(ProfilerStep#|Optimizer.step#).*", "removed")
    return tables | {"host_slices": slices.set_column(at, slices.schema.field(at), names)}


@pytest.mark.check
@pytest.mark.parametrize(
    "workload", ["healthy with jitter", "exposed loader", "uneven loader", "launch-bound", "many troubles"]
)
def test_steps_without_marks_are_the_marked_ones(workload: str) -> None:
    tables = simulate(WORKLOADS[workload], 3).canonical_tables()
    ((_, count, mean_ns),) = in_memory.connect_tables(tables).sql(WINDOWS).fetchall()
    assert in_memory.connect_tables(unmarked(tables)).sql(WINDOWS).fetchall() == [("launches", count, mean_ns)]


@pytest.mark.check
@pytest.mark.parametrize("workload", ["launch-bound inference", "decode ahead"])
def test_inference_without_marks_has_no_steps(workload: str) -> None:
    tables = unmarked(simulate(WORKLOADS[workload], 3).canonical_tables())
    assert in_memory.connect_tables(tables).sql(WINDOWS).fetchall() == [(None, 0, None)]


def program(rounds: list[str]) -> dict[str, pa.Table]:
    """Return a drawn run: a letter is a kernel that the host launches, '.' a wait of 50 us for the device."""
    slices, ops, now = ["id thread category name start end"], ["id stream kind start end launch"], 0
    names = []
    for one in rounds:
        for letter in one:
            at, now = now, now + (50 if letter == "." else 10)
            call = "cudaDeviceSynchronize" if letter == "." else "cudaLaunchKernel"
            slices.append(f"{len(slices)} 0 runtime {call} {at} {at + (45 if letter == '.' else 4)}")
            if letter != ".":
                ops.append(f"{len(ops) + 5_000} 7 kernel {at + 5} {at + 9} {len(slices) - 1}")
                names.append(letter)
    made = drawn_tables("\n".join(slices), "\n".join(ops))
    table = made["gpu_ops"]
    at = table.schema.get_field_index("name")
    return made | {"gpu_ops": table.set_column(at, table.schema.field(at), pa.array(names))}


def steps(tables: dict[str, pa.Table]) -> list[tuple[Any, ...]]:
    return in_memory.connect_tables(tables).sql("SELECT op_count FROM attribution.steps ORDER BY step").fetchall()


def test_a_loop_that_waits_for_the_device_has_a_step_a_round() -> None:
    assert steps(program(["abababcd."] * 6)) == [(8,)] * 6


def test_a_round_that_does_more_is_a_step_as_well() -> None:
    # The round that ends with xyz is not followed as the others are: all are cut where each goes from b to c.
    rounds = [*["abababcd."] * 5, "abababcdxyz.", *["abababcd."] * 5]
    assert steps(program(rounds)) == [*[(8,)] * 5, (11,), *[(8,)] * 4, (2,)]


@pytest.mark.check
@pytest.mark.parametrize(
    "loop",
    [
        ["abababcd"] * 6,  # nothing tells rounds from layers
        ["abababcd."] * 3,  # too few to know
        ["ab."] * 20,  # too short to be a step
        ["abababcd.", "cdcdabba.", "abcdabcd.", "ddccbbaa.", "acbdacbd.", "bcdabcda."],  # never the same
        ["a" * 8 + "."] * 6,  # no place in it is like no other
        [*["abababcd."] * 6, "e" * 60],  # most of it lies outside
    ],
)
def test_what_recurs_by_chance_is_no_step(loop: list[str]) -> None:
    assert steps(program(loop)) == []


def test_layers_of_a_real_model_are_no_steps(corpus: Path, tmp_path: Path) -> None:
    with open_run(corpus / "nsys" / "h100x2_training_2026.2.sqlite", store=tmp_path) as run:
        assert run.sql("SELECT DISTINCT step_source FROM windows").fetchall() == [(None,)]


def test_time_steps_of_a_real_solver_are_found(corpus: Path, tmp_path: Path) -> None:
    with open_run(corpus / "nsys" / "a100_cloverleaf_mpi_2024.5.sqlite", store=tmp_path) as run:
        ((source, spread),) = run.sql("SELECT step_source, step_spread FROM windows").fetchall()
        assert source == "launches"
        assert spread < 0.01


@examples()
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.data())
def test_stretches_of_equal_hash_are_equal(kernels: list[int], data: st.DataObject) -> None:
    length = data.draw(st.integers(1, len(kernels)))
    first = np.arange(len(kernels) - length + 1)
    hashes = StretchHashes.of(np.asarray(kernels, np.int64))(first, first + length).tolist()
    stretches = [tuple(kernels[at : at + length]) for at in first.tolist()]
    assert len(set(hashes)) == len(set(stretches))
    assert all(len({h for h, s in zip(hashes, stretches, strict=True) if s == one}) == 1 for one in set(stretches))
