"""A rule file of a stranger: whatever it holds is a mistake with its line, within two seconds, and others are read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_rules_files import GOOD, write

from traceanalyzer.rules.rule_file.document import MAX_DEPTH, MAX_FILE_BYTES
from traceanalyzer.rules.rule_file.model import MAX_WIDTH, Mistake, template_fields
from traceanalyzer.rules.rule_file.sql_text import words
from tracesim.rule_lint import lint

pytestmark = pytest.mark.check  # what is broken or hostile takes minutes

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)


@pytest.fixture(scope="module", autouse=True)
def _rules_that_ship_are_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Leave what only the first call of a process pays out of the two seconds."""
    lint([write(tmp_path_factory.mktemp("good"), GOOD)])


@pytest.fixture(autouse=True)
def _in_two_seconds() -> Iterator[None]:
    started_s = time.process_time()
    yield
    assert time.process_time() - started_s < 2


def mistakes_of(folder: Path, text: str) -> list[Mistake]:
    return lint([write(folder, text)])


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (BOMB, None, "more than 10,000 values, aliases written out"),
        ("id: x\na: &a [*a]\n", 2, "more than 10,000 values, aliases written out"),
        ("id: x\nwhen: " + "[" * 50_000, 2, f"nest more than {MAX_DEPTH} levels deep"),
        ("id: x\nwhen: " + "{a: " * 50_000, 2, f"nest more than {MAX_DEPTH} levels deep"),
        ("id: x\nwhen:\n  " + "- " * 50_000, 3, f"nest more than {MAX_DEPTH} levels deep"),
        ("id: x\nwhy: " + "because " * 1_250_000, 1, f"the file is larger than {MAX_FILE_BYTES:,} bytes"),
        ("id: x\nwhy: " + "because " * 100_000, 2, "a text of more than 50,000 characters"),
        ("id: x\nwhy: " + "1:" * 400_000 + "1", 2, "a text of more than 50,000 characters"),
    ],
    ids=["aliases", "recursion", "lists", "mappings", "blocks", "10 MB", "text", "base 60"],
)
def test_a_file_that_costs_too_much_is_a_mistake_with_its_line(
    tmp_path: Path, text: str, line: int | None, what: str
) -> None:
    (mistake,) = mistakes_of(tmp_path, text)
    assert mistake.what.startswith("limit reached: ")
    assert what in mistake.what
    assert line in (None, mistake.line)


def test_a_file_that_costs_too_much_does_not_hide_the_mistakes_of_others(tmp_path: Path) -> None:
    write(tmp_path, "[" * 50_000, "deep.yaml")
    write(tmp_path, GOOD.replace("title:", "titel:"))
    told = " ".join(mistake.what for mistake in lint([tmp_path]))
    assert "limit reached" in told
    assert "titel" in told


def test_a_few_aliases_are_read(tmp_path: Path) -> None:
    text = GOOD.replace(
        "tables: {bound: [{bound_share: 0.5, bound_ns: 5, window_ns: 10, step_count: 4}]}", "tables: &t {bound: []}"
    )
    assert lint([write(tmp_path, text.replace("tables: {bound", "tables: *t  # {bound"))]) == []


def test_a_key_that_is_a_list_is_a_mistake(tmp_path: Path) -> None:
    assert any(item.what == "a key is one word" for item in mistakes_of(tmp_path, GOOD + "? [a, b]\n: 1\n"))


def test_a_pipe_in_a_folder_of_rules_is_no_rule(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    write(tmp_path, GOOD)
    assert lint([tmp_path]) == []


@pytest.mark.parametrize(
    "spec", [".900000000f", ">999999999", "0>41d", ".41f", ",.900000000f copy|copies", "9" * 5000], ids=lambda s: s[:14]
)
def test_a_number_wider_than_people_read_is_a_mistake(tmp_path: Path, spec: str) -> None:
    mistakes = mistakes_of(tmp_path, GOOD.replace("{bound_share:.0%}", f"{{bound_share:{spec}}}"))
    assert [(item.line, item.what) for item in mistakes if "template" in item.what] == [
        (14, f"malformed template: '{{bound_share}}' may be at most {MAX_WIDTH} characters wide, with as many decimals")
    ]


@pytest.mark.parametrize("spec", [f">{MAX_WIDTH}", ".1f", "012.3f", ".0f 100 copies|1000 copies"])
def test_a_width_that_people_read_is_none(spec: str) -> None:
    assert template_fields(f"{{x:{spec}}}") == [("x", spec)]


@pytest.mark.parametrize("code", ["-" * 40_000 + "1", "a." * 20_000 + "a", "1" + "+1" * 20_000, "(" * 40_000])
def test_a_snippet_that_nests_too_deep_is_a_mistake(tmp_path: Path, code: str) -> None:
    text = GOOD.replace("DataLoader(dataset, num_workers=8)", f"'{code}'")
    assert any("the snippet is no Python" in item.what for item in mistakes_of(tmp_path, text))


@pytest.mark.parametrize(
    "condition",
    ["bound_share " + "a" * 45_000, "'" * 45_001, " ".join(f"$a{i}$" for i in range(6_000)), "NOT " * 10_000 + "true"],
    ids=["name", "quotes", "dollars", "depth"],
)
def test_a_condition_without_end_is_a_mistake(tmp_path: Path, condition: str) -> None:
    assert mistakes_of(tmp_path, GOOD.replace("bound_share >= $min_share", f"|\n  {condition}"))


def test_a_text_between_dollars_is_one_word_and_a_lone_tag_is_none() -> None:
    assert list(words("$a$x 'y$a$z$b$")) == [
        ("text", "$a$x 'y$a$"),
        ("name", "z"),
        ("other", "$"),
        ("name", "b"),
        ("other", "$"),
    ]
