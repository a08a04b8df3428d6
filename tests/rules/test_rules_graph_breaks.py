"""graph-breaks-many against PyTorch: the pieces of a compiled call, as its own profiler records them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiers import needed

from traceanalyzer.rules.rule_set.loading import load_rules
from traceanalyzer.run import open_run

pytestmark = pytest.mark.check
torch = needed("torch")


def broken(x: Any) -> Any:
    x = x + 1
    torch._dynamo.graph_break()  # in a loop nothing would be compiled
    x = x * 2
    torch._dynamo.graph_break()
    x = x - 3
    torch._dynamo.graph_break()
    return x.relu()


def whole(x: Any) -> Any:
    return x.sin() + 1


@pytest.mark.parametrize(("function", "break_count"), [(broken, 3), (whole, 0)])
def test_pieces_of_a_compiled_call_lie_in_each_other(function: Any, break_count: int, tmp_path: Path) -> None:
    row = recorded(torch.compile(function, backend="eager"), tmp_path)
    assert (row["piece_count"], row["call_count"]) == (break_count, 8 if break_count else 0)


def test_a_break_in_each_of_several_layers_is_counted_by_step(tmp_path: Path) -> None:
    def layer(x: Any) -> Any:
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    def layers(x: Any) -> Any:
        for _ in range(5):  # stays in Python, as a call in it breaks
            x = layer(x)
        return x

    row = recorded(torch.compile(layers, backend="eager"), tmp_path)
    assert (row["of_call"], row["piece_count"], row["call_count"]) == (1, 10, 40)


def recorded(compiled: Any, folder: Path) -> dict[str, Any]:
    """Return what the rule selects where four steps call a compiled function twice each."""
    from torch.profiler import ProfilerActivity, profile, record_function

    x = torch.randn(8)
    compiled(x)
    with profile(activities=[ProfilerActivity.CPU]) as recording:
        for step in range(4):
            with record_function(f"ProfilerStep#{step}"):
                compiled(x)
                compiled(x)
    recording.export_chrome_trace(str(folder / "trace.json"))
    (rule,) = (rule for rule in load_rules() if rule.id == "graph-breaks-many")
    with open_run(folder / "trace.json", store=folder / "store", attribution=False) as run:
        (row,) = run.connection.sql(rule.select).to_arrow_table().to_pylist()
    return dict(row)
