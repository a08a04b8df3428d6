"""Ties change no number: SQL of rules chooses by a total order, so that the same run gives the same diagnosis."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from traceanalyzer.rules.evaluation.sandbox import read_query, readers
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim import in_memory

# What depends on the order in which DuckDB's threads meet rows; each has a form that does not.
_UNORDERED = {
    "mode": (re.compile(r"\bmode\((?![^\n]*ORDER BY)"), "mode(x ORDER BY x)"),
    "arg_max, arg_min": (re.compile(r"\barg_(?:max|min)\w*\([^()]*?, *[\w.]+\)"), "arg_max(x, (y, x))"),
    "first, last": (re.compile(r"\b(?:first|last)\((?![^\n]*ORDER BY)"), "min(x), or arg_min(x, (y, x))"),
    "list, string_agg": (
        re.compile(r"(?<!_)\b(?:list|string_agg|array_agg)\((?![^\n]*ORDER BY)"),
        "list(x ORDER BY x)",
    ),
}
# An argument that is sorted afterwards, or unique in its group.
_SORTED = ("list_sort(list(", "arg_max(used_bytes, step)", "arg_min(used_bytes, step)")


@pytest.mark.check
@pytest.mark.parametrize("construct", _UNORDERED)
def test_no_sql_of_a_rule_leaves_a_choice_to_the_order_of_rows(construct: str) -> None:
    pattern, instead = _UNORDERED[construct]
    texts = {rule.id: "\n".join(readers([rule])[1:]) for rule in load_rules()}
    found = [
        f"{rule}: {line.strip()}"
        for rule, text in texts.items()
        for line in text.splitlines()
        if pattern.search(line) and not any(part in line for part in _SORTED)
    ]
    assert found == [], f"write {instead}"


def test_the_operator_of_a_kernel_is_that_of_its_longest_call(root: Path) -> None:
    calls = [("aten::mm", 5, 10), ("aten::bmm", 7, 20), ("aten::mm", 7, 30), ("aten::addmm", 7, 20)]
    sql = read_query("longest_kernels").replace("TRUE /* compute_ops */", "TRUE")
    rows = set()
    for order in (calls, calls[::-1]):
        with in_memory.connect_tables({}) as con:
            con.execute("CREATE TEMP TABLE kernel_class AS FROM main.kernel_class LIMIT 0")
            for operator, dur_ns, start_ns in order:
                op_id = calls.index((operator, dur_ns, start_ns))
                con.execute(
                    "INSERT INTO kernel_class (trace_id, device, op_id, name, operator, start_ns, dur_ns, wall_ns)"
                    " VALUES (0, 0, ?, 'gemm', ?, ?, ?, ?)",
                    [op_id, operator, start_ns, dur_ns, dur_ns],
                )
            described = con.execute(sql, {"trace_id": 0, "device": 0})
            names = [column[0] for column in described.description or ()]
            rows.add(dict(zip(names, described.fetchall()[0], strict=True))["operator"])
    assert rows == {"aten::bmm"}
