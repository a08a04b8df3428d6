"""The table `bound`: one file says what its columns are, and everything that fills or shows it goes by their names."""

from __future__ import annotations

import pickle
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.cli import main
from traceanalyzer.rules.evaluation import interventions
from traceanalyzer.rules.evaluation.interventions import DeviceBound, Intervention, write_bound
from traceanalyzer.schema import TableSchema, rule_tables

BOUND = rule_tables()["bound"]
WINDOW = {
    "trace": "a.json",
    "rank": 1,
    "device": 2,
    "trace_id": 0,
    "window_ns": 1000,
    "step_count": 4,
    "step_spread": 0.1,
    "launch_link_share": 1.0,
    "mode": "training",
}
DEVICE = DeviceBound(WINDOW, Intervention(savings={7: 30}), bound_ns=100, run_ns=50)


def test_the_key_of_an_intervention_of_many_savings_is_small_and_knows_them_in_any_order() -> None:
    savings = {op_id: op_id % 7 for op_id in range(10_000)}
    key = Intervention(savings=savings).key
    assert len(pickle.dumps(key)) < 1_000
    assert Intervention(savings=dict(reversed(savings.items()))).key == key
    others = [{}, savings | {5: 6}, {op_id: saving for op_id, saving in savings.items() if op_id}]
    assert len({key, *(Intervention(savings=other).key for other in others)}) == 4


_SAVINGS = st.dictionaries(st.integers(0, 12), st.integers(0, 5))


@given(_SAVINGS, _SAVINGS)
def test_savings_are_joined_and_left_out_op_by_op(first: dict[int, int], second: dict[int, int]) -> None:
    joined = Intervention(savings=first).joined(Intervention(savings=second)).savings
    assert dict(joined) == {op: max(first.get(op, 0), second.get(op, 0)) for op in first | second}
    rest = Intervention(savings=first).without(Intervention(savings=second)).savings
    assert dict(rest) == {op: ns for op, ns in first.items() if op not in second}
    assert all(joined[op] >= ns and (op in rest) == (op not in second) for op, ns in first.items())


def test_a_row_has_the_columns_that_the_file_documents() -> None:
    assert list(DEVICE.row({})) == [column.name for column in BOUND.columns]


def test_the_table_is_filled_by_the_names_of_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    turned = TableSchema(BOUND.name, BOUND.comment, BOUND.columns[::-1], BOUND.sql)
    monkeypatch.setattr(interventions, "rule_tables", lambda: {"bound": turned})
    con = duckdb.connect()
    con.execute(BOUND.sql)
    write_bound(con, [DEVICE.row({})])
    columns = "trace, rank, device, bound_ns, bound_share, run_share, saving_sum_ns, per"
    assert con.execute(f"SELECT {columns} FROM bound").fetchall() == [("a.json", 1, 2, 100, 0.1, 0.05, 30, "a step")]


def test_metrics_list_and_show_name_the_table_and_who_can_read_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "list"]) == 0
    assert "  bound  " in capsys.readouterr().out
    assert main(["metrics", "show", "bound"]) == 0
    shown = capsys.readouterr().out
    assert "Only the SQL of that rule can read it" in " ".join(shown.split())
    assert all(f"  {column.name} " in shown for column in BOUND.columns)


@pytest.mark.parametrize("table", ["ledger_rows", "windows", "gpu_ops", "attribution.replay_events"])
def test_metrics_show_names_the_tables_below_the_metrics(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "show", table]) == 0
    assert "trace_id" in capsys.readouterr().out


def test_the_readme_of_rules_does_not_repeat_the_columns(root: Path) -> None:
    text = (root / "rules" / "README.md").read_text(encoding="utf-8")
    assert "`traceanalyzer metrics show bound`" in " ".join(text.split())
    assert "resolved_share" not in text
