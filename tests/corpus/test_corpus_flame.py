"""Stacks, flames and modules of real traces, against numbers of independent scripts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_metrics import expected, expected_names, run_of, table

from traceanalyzer.run import Run

__all__ = ["run_of"]
NAMES = expected_names("flame") or ["none"]
_HOST = "('cpu_op', 'annotation', 'python', 'runtime', 'driver')"


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
    # Of stacks that are equally heavy any may be first, and of a long one the innermost frames are written.
    heaviest = max((row["value"] for row in rows if not row["stack"].startswith("(not linked);")), default=None)
    assert heaviest == numbers["heaviest_stack_ns"]
    if heaviest is not None:
        ending = ";".join(numbers["heaviest_stack"])
        assert [row for row in rows if row["value"] == heaviest and row["stack"].endswith(ending)]


# In 2021 steps and data loaders were written as operators. They are annotations, so operators lie below none.
_STEPS = "ProfilerStep#"


@pytest.mark.parametrize("name", NAMES)
def test_device_time_by_owner(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    numbers = expected("flame", name)
    rows = table(
        run_of(name),
        """
        SELECT
            coalesce(operators.name, '(no operator)') AS deepest,
            coalesce(outer_operators.name, '(no operator)') AS outermost,
            coalesce(CASE WHEN owners.module_link = 'stack' THEN modules.name END, '(no module)') AS module,
            owners.at_id IS NULL AS is_unlinked,
            ops.dur_ns
        FROM op_owners AS owners
        JOIN gpu_ops AS ops USING (trace_id, op_id)
        LEFT JOIN host_slices AS operators
               ON operators.trace_id = owners.trace_id AND operators.slice_id = owners.operator_id
        LEFT JOIN host_slices AS outer_operators
               ON outer_operators.trace_id = owners.trace_id AND outer_operators.slice_id = owners.outer_operator_id
        LEFT JOIN host_slices AS modules
               ON modules.trace_id = owners.trace_id AND modules.slice_id = owners.module_id
        """,
    )
    assert sum(row["is_unlinked"] for row in rows) == numbers["device_ops_unlinked"]
    for owner, key in (
        ("deepest", "device_ns_by_deepest_operator"),
        ("outermost", "device_ns_by_outermost_operator"),
        ("module", "device_ns_by_innermost_module"),
    ):
        found: Counter[str] = Counter()
        for row in rows:
            if not row["is_unlinked"]:
                found[row[owner]] += row["dur_ns"]
        wanted = {row["name"]: row["ns"] for row in numbers[key]}
        if any(name.startswith(_STEPS) for name in wanted):
            assert found.total() == numbers["device_ns_linked"]
            continue
        assert {name: found[name] for name in wanted} == wanted
        assert sorted(found.values(), reverse=True)[: len(wanted)] == sorted(wanted.values(), reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_host_time_without_the_slices_inside(corpus: Path, run_of: Callable[[str], Run], name: str) -> None:
    rows = table(
        run_of(name),
        f"SELECT name, CAST(sum(host_self_ns) AS BIGINT) AS ns FROM call_tree WHERE category IN {_HOST} GROUP BY name",
    )
    found = {row["name"]: row["ns"] for row in rows}
    wanted = {row["name"]: row["ns"] for row in expected("flame", name)["host_self_ns"]}
    assert {key: found.get(key) for key in wanted} == wanted
    outermost = (
        "SELECT CAST(coalesce(sum(host_sum_ns), 0) AS BIGINT) AS ns FROM call_tree "
        f"WHERE parent_stack_id IS NULL AND category IN {_HOST}"
    )
    assert table(run_of(name), outermost) == [{"ns": expected("flame", name)["host_ns_of_outermost_frames"]}]


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
    calls = {f"nn.Module: {row['module']}": row["calls"] for row in rows}
    assert sum(calls.values()) == numbers["module_call_count"]
    assert numbers["module_calls"] in (calls, len(calls))  # where there are many, only their number is written
    found = {f"nn.Module: {row['module']}": row["device_ns"] for row in rows}
    wanted = {row["name"]: row["ns"] for row in numbers["device_ns_inclusive_by_module"]}
    assert {key: found.get(key) for key in wanted} == wanted
