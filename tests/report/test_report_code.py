"""Code to paste fits the screen where its language allows it, stays the same program, and keeps every word whole."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

import pytest

from traceanalyzer.report.renderers.page import fitted
from traceanalyzer.rules.rule_set.loading import load_rules

WIDTHS = range(60, 201)
LEADERS = {"#", "//", "\\"}


def codes() -> Iterator[tuple[str, str, str]]:
    """Give the rule, the language and the text of every snippet that ships."""
    for rule in load_rules():
        for fix in rule.fixes:
            if fix.code:
                yield rule.id, fix.lang, fix.code


CODES = list(codes())


def words(code: str) -> list[str]:
    return sorted(word for word in re.findall(r"[^\s()\[\]{}]+", code) if word not in LEADERS)


def without_comments(code: str) -> str:
    return "".join(re.sub(r"//[^\n]*", "", code).split())


def syntax(code: str) -> str | None:
    try:
        return ast.dump(ast.parse(code))
    except SyntaxError:  # a part of a program
        return None


@pytest.mark.sampled
@pytest.mark.parametrize("width", WIDTHS)
def test_no_word_of_a_fix_is_broken_at_any_width(width: int) -> None:
    for rule, lang, code in CODES:
        assert words("\n".join(fitted(code, lang, width))) == words(code), rule


@pytest.mark.parametrize("width", [60, 72, 80, 100, 120])
def test_folded_code_is_the_same_program(width: int) -> None:
    for rule, lang, code in CODES:
        folded = "\n".join(fitted(code, lang, width))
        if lang == "python":
            assert syntax(folded) == syntax(code), rule
        elif lang == "bash":
            assert shlex.split(folded.replace("\\\n", ""), comments=True) == shlex.split(code, comments=True), rule
        elif lang == "cpp":
            assert without_comments(folded) == without_comments(code), rule


def test_code_that_fits_is_untouched() -> None:
    for _, lang, code in CODES:
        assert fitted(code, lang, 300) == code.rstrip("\n").split("\n")


def test_a_comment_goes_above_its_code_before_the_code_is_folded() -> None:
    code = "x = f(a, b)  # what this is about"
    assert fitted(code, "python", 20) == ["# what this is about", "x = f(a, b)"]


def test_python_folds_inside_brackets_first() -> None:
    assert fitted("y = f(first, second)", "python", 14) == ["y = f(first,", "      second)"]
    assert fitted("y = function(first)", "python", 15) == ["y = function(", "    first)"]
    assert fitted("total = first + second", "python", 16) == ["total = first \\", "    + second"]


def test_code_that_cannot_be_folded_stays_whole() -> None:
    assert fitted("module.function()", "python", 12) == ["module.function()"]


def test_quotes_stay_on_one_line() -> None:
    assert fitted("f('one two three', four)", "python", 18) == ["f('one two three',", "  four)"]
    assert fitted("echo 'one two three' four", "bash", 10) == ["echo \\", "    'one two three' \\", "    four"]


def test_a_language_that_is_not_known_is_left_alone() -> None:
    assert fitted("key: a long value", "yaml", 8) == ["key: a long value"]
