"""What a rule's author is told: every mistake of every file, with its line and a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.rules.rule_file.model import Mistake, RuleFilesError
from traceanalyzer.rules.rule_set.loading import check_settings, load_rules, read_rules
from tracesim.rule_lint import lint

GOOD = """\
id: slow-loader
title: The loader is slow
requires: [steps]
params:
  min_share: {default: 0.05, min: 0, max: 1, why: less is noise}
  min_count: {default: 3, why: fewer is chance}
select: SELECT * FROM bound
abstain:
  - when: step_count < $min_count
    reason: insufficient-steps
    detail: "only {step_count} steps"
when: bound_share >= $min_share
claims: host.dataloader
message: "up to {bound_share:.0%} shorter"
why: because
fixes:
  - text: use workers
    code: DataLoader(dataset, num_workers=8)
references: [https://example.org/]
tests:
  - name: fires
    tables: {bound: [{bound_share: 0.5, bound_ns: 5, window_ns: 10, step_count: 4}]}
    expect: {state: fired}
  - name: is clear
    tables: {bound: [{bound_share: 0.0, bound_ns: 0, window_ns: 10, step_count: 4}]}
    expect: {state: clear}
  - name: abstains
    tables: {bound: [{bound_share: 0.5, bound_ns: 5, window_ns: 10, step_count: 1}]}
    expect: {state: abstained, reason: insufficient-steps}
"""


def write(folder: Path, text: str, name: str = "slow-loader.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def mistakes_of(folder: Path, *changes: tuple[str, str]) -> list[Mistake]:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return lint([write(folder, text)])


def test_a_good_rule_has_no_mistakes(tmp_path: Path) -> None:
    assert mistakes_of(tmp_path) == []


def test_a_status_is_one_of_two(tmp_path: Path) -> None:
    assert mistakes_of(tmp_path, ("title:", "status: experimental\ntitle:")) == []
    (mistake,) = mistakes_of(tmp_path, ("title:", "status: experimentel\ntitle:"))
    assert mistake.what == "'status' must be one of stable, experimental"
    assert mistake.hint is not None
    assert "experimental" in mistake.hint


def test_a_rule_whose_query_never_ends_is_loaded_and_is_left_to_fail_alone(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE numbers AS (SELECT 1 AS n UNION ALL SELECT n FROM numbers)\n  "
    select = f"select: |\n  {endless}SELECT bound.* FROM bound, (SELECT count(*) FROM numbers)\n"
    path = write(tmp_path, GOOD.replace("select: SELECT * FROM bound\n", select))
    assert [rule.id for rule in read_rules([path])] == ["slow-loader"]


def test_a_rule_beside_the_built_in_ones_is_loaded(tmp_path: Path) -> None:
    assert "slow-loader" in {rule.id for rule in load_rules([write(tmp_path, GOOD)])}


def test_a_rule_replaces_the_built_in_one_of_its_id(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("slow-loader", "dataloader-bound"), "dataloader-bound.yaml")
    found = {rule.id: rule for rule in load_rules([path])}
    assert found["dataloader-bound"].title == "The loader is slow"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "new", "line", "what", "hint"),
    [
        ("SELECT * FROM bound", "SELECT * FROM bond", 7, "Table with name bond does not exist", "bound"),
        ("when: bound_share >=", "when: bound_shar >=", 12, '"bound_shar" not found', "bound_share"),
        ("{bound_share:.0%}", "{bound_shre:.0%}", 14, "no column or parameter is called 'bound_shre'", "bound_share"),
        ("claims: host.dataloader", "claims: host.dataloadr", 13, "unknown cause: host.dataloadr", "host.dataloader"),
        ("claims: host.dataloader", "claims: edge.tail", 13, "unknown cause: edge.tail", None),
        ("requires: [steps]", "requires: [stepz]", 3, "unknown capability: stepz", "steps"),
        ("title:", "titel:", 2, "unknown key: titel", "title"),
        ("< $min_count", "< $min_cont", 9, "no parameter or column is called $min_cont", None),
        ("only {step_count}", "only {stepcount}", 11, "no column or parameter is called 'stepcount'", "step_count"),
        ("{bound_share:.0%}", "{trace:.0%}", 14, "does not fit", None),
        ("{bound_share:.0%}", "{bound_share.real}", 14, "is not a column name", None),
        ("num_workers=8)", "num_workers=", 18, "the snippet is no Python", "lang"),
        ("[https://example.org/]", "[http://example.org/]", 19, "a reference is an https address", None),
        ("SELECT * FROM bound", "SELECT 1; SELECT 2", 7, "exactly one SELECT", None),
        ("SELECT * FROM bound", "CREATE TABLE x (y INT)", 7, "exactly one SELECT", None),
        ("SELECT * FROM bound", "SELECT bound_share, step_count FROM bound", 7, "must return the column 'trace'", None),
        ("less is noise", "less, and that is noise", 5, "unknown key: and that is noise", "quotes"),
        ("state: fired", "state: fire", 23, "needs a state", None),
        ("when: bound", "clear_without: gpu_opz\nwhen: bound", 12, "Table with name gpu_opz does not exist", "gpu_ops"),
        ("title:", "scope: trace\ntitle:", 2, "a rule of kind 'finding' has no scope 'trace'", None),
    ],
)
def test_a_mistake_is_told_with_its_line_and_a_suggestion(
    tmp_path: Path, old: str, new: str, line: int, what: str, hint: str | None
) -> None:
    found = [mistake for mistake in mistakes_of(tmp_path, (old, new)) if what in mistake.what]
    assert [mistake.line for mistake in found] == [line]
    assert hint is None or hint in (found[0].hint or "")


def test_a_mistake_inside_a_block_of_sql_is_told_with_the_line_of_the_sql(tmp_path: Path) -> None:
    block = "select: |\n  SELECT\n      *,\n      nothing AS x\n  FROM bound"
    assert [m.line for m in mistakes_of(tmp_path, ("select: SELECT * FROM bound", block))] == [10]


def test_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("FROM bound", "FROM bond").replace("[steps]", "[stepz]"))
    write(tmp_path, GOOD.replace("slow-loader", "other").replace("claims: host", "claims: hst"), "other.yaml")
    with pytest.raises(RuleFilesError) as error:
        read_rules([tmp_path])
    assert {mistake.path.name for mistake in error.value.mistakes} == {"slow-loader.yaml", "other.yaml"}
    assert len(error.value.mistakes) == 3


@pytest.mark.check
def test_one_round_tells_what_is_missing_and_what_is_wrong_in_the_rest(tmp_path: Path) -> None:
    found = mistakes_of(
        tmp_path,
        ("title: The loader is slow\n", ""),
        ("when: bound_share >= $min_share\n", ""),
        (", why: less is noise", ""),
        ("claims: host.dataloader", "claims: host.dataloadr"),
        ("FROM bound", "FROM bound WHERE bound_shar > $min_share"),
        ("only {step_count}", "only {step_count!r}"),
    )
    told = [mistake.what.removeprefix("slow-loader: ").splitlines()[0] for mistake in found]
    assert told[:2] == ["the key 'title' is missing", "the key 'when' is missing"]
    assert told[2].startswith("the parameter 'min_share' needs a default and why")
    assert "bound_shar" in told[3]
    assert "may only carry a format" in told[4]
    assert told[5:] == ["unknown cause: host.dataloadr"]


@pytest.mark.check
def test_what_a_missing_part_would_have_used_is_no_second_mistake(tmp_path: Path) -> None:
    without = [("when: bound_share >= $min_share\n", ""), ('message: "up to {bound_share:.0%} shorter"\n', "")]
    tests = GOOD[GOOD.index("tests:") :]
    assert [m.what for m in mistakes_of(tmp_path, *without, (tests, ""))] == [
        "the key 'when' is missing",
        "the key 'message' is missing",
        "the key 'tests' is missing",
    ]


@pytest.mark.check
def test_a_file_that_is_no_yaml_is_one_mistake_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path, "id: [broken", "broken.yaml")
    write(tmp_path, GOOD.replace("[steps]", "[stepz]"))
    assert [mistake.path.name for mistake in lint([tmp_path])] == ["broken.yaml", "slow-loader.yaml"]


@pytest.mark.check
@pytest.mark.parametrize("text", ["", "- a list", "just text", "\x00", "a: &a [*a]\nid: x"])
def test_whatever_the_file_holds_is_told_without_a_traceback(tmp_path: Path, text: str) -> None:
    assert lint([write(tmp_path, text)]) != []


@pytest.mark.check
def test_a_key_written_twice_is_a_mistake(tmp_path: Path) -> None:
    assert any("key written twice: why" in m.what for m in mistakes_of(tmp_path, ("why: because", "why: a\nwhy: b")))


@pytest.mark.check
def test_two_files_with_one_id_are_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    write(tmp_path, GOOD)
    write(tmp_path / "more", GOOD)
    assert any("is taken by" in mistake.what for mistake in lint([tmp_path]))


@pytest.mark.check
def test_an_unused_parameter_and_a_missing_test_are_told_by_lint_alone(tmp_path: Path) -> None:
    text = GOOD.replace("step_count < $min_count", "step_count < 3").replace("{state: clear}", "{state: fired}")
    path = write(tmp_path, text)
    assert [m.what for m in lint([path])] == ["the parameter 'min_count' is not used", "no test expects 'clear'"]
    assert [rule.id for rule in read_rules([path])] == ["slow-loader"]


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="no such rule file"):
        load_rules([tmp_path / "none.yaml"])


@pytest.mark.check
@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("slow-lader.min_share", "0.1", "no such rule"),
        ("slow-loader.min_shar", "0.1", "no parameter 'min_shar'"),
        ("slow-loader.min_share", "much", "is no float"),
        ("slow-loader.min_share", "1.5", "out of range"),
        ("slow-loader.min_count", "2.5", "is no int"),
        ("slow-loader.min_share", "nan", "is no float"),
        ("slow-loader.min_share", "inf", "is no float"),
        ("slow-loader.min_count", "nan", "is no int"),
    ],
)
def test_a_setting_is_checked_by_name_type_and_range(tmp_path: Path, key: str, value: str, what: str) -> None:
    with pytest.raises(TraceAnalyzerError, match=what):
        check_settings(read_rules([write(tmp_path, GOOD)]), {key: value})


def test_a_setting_takes_the_type_of_its_default(tmp_path: Path) -> None:
    rules = read_rules([write(tmp_path, GOOD)])
    checked = check_settings(rules, {"slow-loader.min_share": "0.1", "slow-loader.min_count": "4"})
    assert checked == {"slow-loader": {"min_share": 0.1, "min_count": 4}}
