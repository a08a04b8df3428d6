"""Fixes stand where they fit, and take from the trace the names of what they are about that can be pasted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.evaluation.scopes import read_scopes
from traceanalyzer.rules.evaluation.verdicts import Question, evaluate
from traceanalyzer.rules.rule_file.document import read_document
from traceanalyzer.rules.rule_file.model import Mistake, RuleFix, with_trace_names
from traceanalyzer.rules.rule_file.parsing import parse_rule
from traceanalyzer.rules.rule_set.loading import load_rules
from tracesim.rule_tests import rule_workspace

LOADER = next(rule for rule in load_rules(tests=False) if rule.id == "dataloader-bound")
COMMAND = RuleFix("Profile NAME.", "ncu --kernel-name regex:NAME -o kernel PROGRAM", "bash", names={"NAME": "kernel"})
RULE = """
id: a-rule
title: Something is slow
when: TRUE
message: Something is slow.
why: It is.
references: https://example.org
fixes:
  - {fix}
"""


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        ("add", "add"),
        ("_Z3addiPfS_", "add"),
        ("_ZN3lib4scanILi4EfEEvPT0_", "scan"),
        (None, "NAME"),
        ("5-9", "5-9"),
        ("5-9; rm", "NAME"),
        ("--step", "NAME"),
        ("two words", "NAME"),
        ("x; rm -rf ~", "NAME"),
        ("$(id)", "NAME"),
        ("a" * 500, "NAME"),
    ],
)
def test_a_fix_takes_names_that_can_be_pasted(kernel: str | None, named: str) -> None:
    fix = with_trace_names(COMMAND, {"kernel": kernel})
    assert fix.code == f"ncu --kernel-name regex:{named} -o kernel PROGRAM"
    assert fix.text == f"Profile {named}."


@pytest.mark.parametrize(
    ("run", "code"),
    [
        ("runs/a", "traceanalyzer top lines runs/a"),
        ("my runs/$(id)", "traceanalyzer top lines 'my runs/$(id)'"),
        ("", "traceanalyzer top lines RUN"),
    ],
)
def test_a_command_of_the_shell_is_about_this_run(run: str, code: str) -> None:
    assert with_trace_names(RuleFix("", "traceanalyzer top lines RUN", "bash"), {}, run).code == code


def test_python_keeps_a_word_of_its_own() -> None:
    assert with_trace_names(RuleFix("", "RUN = 1", "python"), {}, "runs/a").code == "RUN = 1"


def test_a_name_replaces_whole_words_only() -> None:
    fix = RuleFix("", "RENAME(NAME, NAMES)", names={"NAME": "kernel"})
    assert with_trace_names(fix, {"kernel": "add"}).code == "RENAME(add, NAMES)"


@pytest.mark.parametrize(
    ("fix", "what"),
    [
        ("{text: Do it., code: f(x)}", None),
        ("{text: Do it., names: {NAME: kernel}}", "the fix does not hold the word 'NAME'"),
        ("{text: Do it., names: [NAME]}", "'names' must be a mapping of words in the fix to columns"),
        ("text: Do it.\n    code: f(x)  # for some x", "YAML takes '# for some x' for a comment of the file"),
        ("text: Do it.\n    code: f(x)\n    # a comment of the file", None),
        ("text: Do it.\n    code: |\n      f(x)  # for some x", None),
        ('text: Do it.\n    code: "f(x)  # for some x"', None),
    ],
)
def test_mistakes_in_a_fix_are_found(tmp_path: Path, fix: str, what: str | None) -> None:
    file = tmp_path / "a-rule.yaml"
    file.write_text(RULE.replace("{fix}", fix))
    assert [mistake.what for mistake in mistakes_of(file)] == ([] if what is None else [what])


def mistakes_of(file: Path) -> list[Mistake]:
    return parse_rule(read_document(file), tests=False)[1]


@pytest.mark.parametrize(
    ("conditions", "order"),
    [
        (["is_pytorch", "NOT is_pytorch"], (1,)),
        (["is_pytorch", "is_pytorch"], ()),
        (["is_pytorch", "is_pytorch", None], (2,)),
        (["is_pytorch", "is_jax"], (1,)),
        (["is_jax", "NOT is_pytorch"], (1,)),
    ],
    ids=["one fits", "none fits", "one has no condition", "one may fit", "one fits and one may"],
)
def test_a_fix_whose_condition_does_not_hold_is_not_shown(conditions: list[str | None], order: tuple[int, ...]) -> None:
    fixes = tuple(RuleFix(f"Do this about {at}.", when=when) for at, when in enumerate(conditions))
    select = "SELECT bound.*, FALSE AS is_pytorch, CAST(NULL AS BOOLEAN) AS is_jax FROM bound"
    rule = replace(LOADER, select=select, when="TRUE", abstain=(), lower=(), fixes=fixes)
    with rule_workspace(
        None, {"bound": [{"bound_share": 0.5, "bound_ns": 5, "window_ns": 10}]}, readers=readers([rule])
    ) as con:
        run = read_scopes(con, with_capabilities=False)
        (verdict,) = evaluate(con, rule, run, rule.values(), Question(None, assume_requirements=True))
    assert (verdict.state, verdict.fix_order) == ("fired", order)
