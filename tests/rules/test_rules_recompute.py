"""recompute-with-headroom: what it takes for computed again is what the costs of operators take for it."""

from __future__ import annotations

from typing import Any

from corpus_metrics import run_of, table

from traceanalyzer.rules.rule_set.loading import load_rules

__all__ = ["run_of"]

MATCHING = """
WITH again AS ({again})
SELECT costs.is_recomputed, again.op_id IS NOT NULL AS is_claimed, count(*) AS kernels
FROM gpu_ops AS ops
JOIN modelled_ops AS owned USING (trace_id, op_id)
JOIN operator_costs AS costs
  ON costs.trace_id = owned.trace_id AND costs.slice_id = owned.slice_id
LEFT JOIN again
       ON again.trace_id = ops.trace_id AND again.op_id = ops.op_id
WHERE ops.kind = 'kernel' AND costs.operator = '{operator}'
GROUP BY ALL
ORDER BY ALL
"""


def kernels_of(operator: str, run: Any) -> list[dict[str, Any]]:
    (rule,) = (rule for rule in load_rules(tests=False) if rule.id == "recompute-with-headroom")
    return table(run, MATCHING.format(again=rule.op_saving, operator=operator))


def test_frames_of_checkpoints_hold_the_convolutions_that_run_again(run_of: Any, corpus: Any) -> None:
    """The metric knows them by wrappers in the backward pass, and never looks at frames."""
    run = run_of("mi300_resnet_ddp_checkpoint")
    assert kernels_of("aten::convolution", run) == [
        {"is_recomputed": False, "is_claimed": False, "kernels": 306},
        {"is_recomputed": True, "is_claimed": True, "kernels": 291},
    ]


def test_the_backward_pass_itself_runs_once(run_of: Any, corpus: Any) -> None:
    rows = kernels_of("aten::convolution_backward", run_of("mi300_resnet_ddp_checkpoint"))
    assert [row["is_claimed"] for row in rows] == [False]
