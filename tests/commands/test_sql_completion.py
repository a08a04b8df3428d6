"""The prompt of sql completes tables where one is wanted, and columns of what the statement names."""

from __future__ import annotations

import pytest

from traceanalyzer.commands.sql import completions

TABLES = {"gpu_ops": ["op_id", "name", "dur_ns"], "gpu_op_steps": ["step"], "steps": ["step", "dropped"]}


@pytest.mark.parametrize(
    ("before", "word", "wanted"),
    [
        ("SELECT * FROM ", "gpu_op", ["gpu_op_steps", "gpu_ops"]),
        ("SELECT * FROM ", "", ["gpu_op_steps", "gpu_ops", "steps"]),
        ("select * from gpu_ops join ", "ST", ["steps"]),
        ("SELECT * FROM gpu_ops, ", "st", ["steps"]),
        (".columns ", "gpu_ops", ["gpu_ops"]),
        ("SELECT ", "dro", ["dropped"]),
        ("SELECT name FROM gpu_ops WHERE ", "d", ["DESC", "DISTINCT", "dur_ns"]),
        ("SELECT name FROM gpu_ops WHERE ", "", ["dur_ns", "gpu_op_steps", "gpu_ops", "name", "op_id", "steps"]),
        ("SELECT gpu_ops.name FROM gpu_ops WHERE ", "gpu_ops.o", ["gpu_ops.op_id"]),
        ("SELECT ", "nothing.x", []),
        ("", "", []),
        ("", "sel", ["SELECT"]),
    ],
)
def test_a_word_becomes_what_can_stand_there(before: str, word: str, wanted: list[str]) -> None:
    assert completions(before, word, TABLES) == wanted
