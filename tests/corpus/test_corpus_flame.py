"""Stacks, flames and modules of real traces, against numbers of independent scripts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_metrics import expected, expected_names, run_of, table

from traceanalyzer.run import Run

__all__ = ["run_of"]
NAMES = expected_names("flame") or ["none"]


@pytest.mark.parametrize("name", NAMES)
def test_device_flame_of_real_traces(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("flame", name)
    rows = table(run_of(name), "SELECT stack, value FROM flame WHERE kind = 'device'")
    linked = sorted(f"{row['stack']} {row['value']}" for row in rows if not row["stack"].startswith("(not linked);"))
    assert len(linked) == numbers["stacks"]
    assert hashlib.sha256("\n".join(linked).encode()).hexdigest() == numbers["folded_sha256"]
    assert sum(int(line.rpartition(" ")[2]) for line in linked) == numbers["device_ns_linked"]
    unlinked = [row["value"] for row in rows if row["stack"].startswith("(not linked);")]
    assert sum(unlinked) == numbers["device_ns_unlinked"]


@pytest.mark.parametrize("name", NAMES)
def test_host_time_without_the_slices_inside(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    rows = table(
        run_of(name),
        "SELECT name, CAST(sum(host_self_ns) AS BIGINT) AS ns FROM call_tree "
        "WHERE category IN ('cpu_op', 'annotation', 'python', 'runtime', 'driver') GROUP BY name",
    )
    found = {row["name"]: row["ns"] for row in rows}
    wanted = {row["name"]: row["ns"] for row in expected("flame", name)["host_self_ns"]}
    assert {key: found.get(key) for key in wanted} == wanted


@pytest.mark.parametrize("name", NAMES)
def test_modules_of_real_traces(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("flame", name)
    rows = table(
        run_of(name),
        "SELECT module, CAST(sum(call_count) AS BIGINT) AS calls, "
        # A module inside itself is part of what the outer call counts.
        "CAST(sum(forward_ns + recomputed_ns) FILTER (WHERE NOT list_contains(string_split(coalesce(parent_path, ''), "
        "'/'), module)) AS BIGINT) AS device_ns FROM modules GROUP BY module",
    )
    assert len(rows) == numbers["module_count"]
    assert sum(row["calls"] for row in rows) == numbers["module_call_count"]
    found = {f"nn.Module: {row['module']}": row["device_ns"] for row in rows}
    wanted = {row["name"]: row["ns"] for row in numbers["device_ns_inclusive_by_module"]}
    assert {key: found.get(key) for key in wanted} == wanted
