"""Writing a rule: a start that lints and waits for its problem, and mistakes and conditions that are told in full."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from fixture_runs import open_fixture

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import formats
from traceanalyzer.report.screens.rule import explanation_sections
from traceanalyzer.rules import builtin_folder, rule_files
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.diagnosis.explaining import Explanation, explain
from traceanalyzer.rules.rule_file.model import Claims, Rule
from traceanalyzer.rules.rule_file.new_rule import new_rule, rule_schema
from traceanalyzer.rules.rule_file.sql_text import and_parts
from traceanalyzer.rules.rule_set.loading import load_rules, read_rules, rule_called
from tracesim.rule_lint import lint
from tracesim.rule_tests import RuleTestResult, run_rule_test

RULES = {rule.id: rule for rule in load_rules()}
LOADER = {"steps": 6, "kernels": 100, "kernel_us": 60, "loader_us": 9000}


def run_rule_tests(rules: Sequence[Rule]) -> list[RuleTestResult]:
    """Return the result of every inline test of the rules, in their order."""
    return [run_rule_test(rule, test) for rule in rules for test in rule.tests]


def explained(rule: str, sim: Mapping[str, object]) -> Explanation:
    (found,) = explain(open_fixture(sim, {}), RULES[rule], RULES[rule].values())
    return found


@pytest.mark.check
def test_a_new_rule_passes_its_lint_and_fails_its_first_test_with_a_reason(tmp_path: Path) -> None:
    file = new_rule("slow-thing", tmp_path / "ours")
    assert lint([file]) == []
    first, *others = run_rule_tests(read_rules([file]))
    assert first.failures == (
        "state is 'clear', expected 'fired'",
        "bound_share >= $min_share does not hold: bound_share = 0, min_share = 0.03",
    )
    assert "write the smallest" in first.test
    assert all(result.passed for result in others)


def test_a_folder_without_rule_files_is_refused_and_either_suffix_is_one(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("id: mine\n", encoding="utf-8")
    with pytest.raises(TraceAnalyzerError, match="holds no rule file"):
        load_rules([tmp_path])
    (tmp_path / "mine.txt").rename(tmp_path / "mine.yml")
    assert rule_files([tmp_path]) == [tmp_path / "mine.yml"]


def test_a_new_rule_replaces_no_file_and_has_an_id_that_can_be_typed(tmp_path: Path) -> None:
    new_rule("slow-thing", tmp_path)
    with pytest.raises(TraceAnalyzerError, match="exists already"):
        new_rule("slow-thing", tmp_path)
    with pytest.raises(TraceAnalyzerError, match="no id"):
        new_rule("Slow Thing", tmp_path)


@pytest.mark.check
@pytest.mark.parametrize(
    ("old", "new", "key", "told"),
    [
        (
            "bound_share >= $min_share",
            "bound_ns >= $min_share",
            "when:",
            "'bound_ns' is in ns and 'min_share' in share",
        ),
        ("{bound_share:.0%}", "{bound_share:.2f}", "message:", "written as a bare number"),
        ("{ms_per_step:.1f} ms", "{step_ms:.0%}", "message:", "written as a percentage"),
        ("default: 0.03, min: 0, max: 1", "default: 3", "  min_share:", "'min_share' is a share, 0 to 1"),
        ("bound_share >= $min_share", "bound_shares >= $min_share", "when:", "bound_shares"),
        ("bound_share >= $min_share", "bound_share >= 0.03", "  min_share:", "'min_share' is not used"),
        ("why: Say why this costs time.", "whi: Say why.", "whi:", "unknown key: whi"),
        ("state: clear", "state: fired", '  - name: "fires on', "no test expects 'clear'"),
        (
            'has the problem"\n    sim: {steps: 5',
            'has the problem"\n    sim: {step: 5',
            '  - name: "fires on',
            "sim: unknown key in the scenario 'step'",
        ),
    ],
)
def test_lint_tells_the_line_and_the_mistake(old: str, new: str, key: str, told: str, tmp_path: Path) -> None:
    file = new_rule("slow-thing", tmp_path)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    mistakes = lint([file])
    found = [mistake for mistake in mistakes if told in mistake.what]
    line = next(i for i, text in enumerate(file.read_text().splitlines(), 1) if text.startswith(key))
    assert [mistake.line for mistake in found] == [line], [str(mistake) for mistake in mistakes]


OPS = """ops: |
  SELECT trace_id, op_id, dur_ns  -- the long ones
  FROM kernel_class /* all
  classes */ WHERE dur_ns > $min_share * 1e6 AND name <> 'selected_ops -- no comment'
op_saving: SELECT trace_id, op_id, dur_ns AS saving_ns FROM selected_ops
claims:
  compute_ops: (trace_id, op_id) IN (SELECT (trace_id, op_id) FROM selected_ops)
"""


@pytest.mark.parametrize(
    ("old", "new", "key", "mistake"),
    [
        ("", "", "", None),
        ("op_id, dur_ns  --", "dur_ns  --", "  SELECT trace_id", "must return op_id, trace_id"),
        ("dur_ns > $min_share", "long_ns > $min_share", "  classes */", "long_ns"),
        ("AS saving_ns FROM selected_ops", "AS saving_ns FROM chosen_ops", "op_saving:", "chosen_ops"),
    ],
)
def test_a_rule_says_once_which_operations_it_is_about(
    old: str, new: str, key: str, mistake: str | None, tmp_path: Path
) -> None:
    file = new_rule("slow-thing", tmp_path)
    text = re.sub(r"claims:.*\n", OPS.replace(old, new), file.read_text())
    assert "selected_ops" in text
    file.write_text(text)
    found = [(one.line, one.what) for one in lint([file])]
    if mistake is None:
        assert found == []
    else:
        line = next(i for i, text in enumerate(file.read_text().splitlines(), 1) if text.startswith(key))
        ((place, what),) = found
        assert place == line
        assert mistake in what


@pytest.mark.parametrize(("columns", "mistake"), [("*", None), ("trace_id, device", "must return device, row_id")])
def test_a_rule_says_once_which_rows_of_the_ledger_it_is_about(
    columns: str, mistake: str | None, tmp_path: Path
) -> None:
    file = new_rule("slow-thing", tmp_path)
    rows = f"""rows: SELECT {columns} FROM ledger_rows WHERE dur_ns > $min_share * 1e6
claims:
  causes: [host.python]
  where: (trace_id, device, row_id) IN (SELECT (trace_id, device, row_id) FROM selected_rows)
"""
    file.write_text(re.sub(r"claims:.*\n", rows, file.read_text()))
    found = [one.what for one in lint([file])]
    assert found == [] if mistake is None else mistake in " ".join(found)


def test_lint_tells_all_mistakes_of_a_rule_at_once(tmp_path: Path) -> None:
    file = new_rule("slow-thing", tmp_path)
    text = file.read_text().replace("bound_share >= $min_share", "bound_ns >= $min_ms").replace("{bound_share:.0%}", "")
    file.write_text(text)
    told = "\n".join(str(mistake) for mistake in lint([file]))
    assert "min_ms" in told
    assert "'min_share' is not used" in told


@pytest.mark.check
@pytest.mark.parametrize("command", [["rules", "lint"], ["rules", "list", "--rules"]], ids=["lint", "load"])
def test_each_mistake_has_its_line_and_its_hint_another(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = new_rule("slow-thing", tmp_path)
    key = "odd\\nerror: forged\\nhint: forged"
    file.write_text(file.read_text().replace("bound_share >= $min_share", "bound_shares >= 1") + f'"{key}": 1\n')
    assert main([*command, str(tmp_path)]) != 0
    captured = capsys.readouterr()
    lines = (captured.out + captured.err).splitlines()
    assert "\\x0a" not in "".join(lines)
    assert any(line.strip().startswith("hint: did you mean") for line in lines)
    assert [line.strip()[: len(str(file))] for line in lines if "forged" in line] == [str(file)]


@pytest.mark.check
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("kernels: 60}", "kernel: 60}", ["cannot run", "did you mean 'kernels'?"]),
        ("expect: {state: clear}", "expect: {state: clear, bound: 1}", ["expects 'bound', which the select does not"]),
        (
            "SELECT bound.*\n  FROM bound\n",
            "SELECT bound.*\n  FROM bound\n  WHERE device > 9\n",
            ["expects 'bound_ns', and there is no row", "no-row"],
        ),
        ("sim: {steps: 5, kernels: 60}", "tables: {gpu_ops: [{op_id: 1$i}]}", ["cannot run", "'1$i'"]),
        ("sim: {steps: 5, kernels: 60}", "tables: {gpu_ops: [3]}", ["cannot run", "takes rows such as", "not 3"]),
        ("sim: {steps: 5, kernels: 60}", "tables: {gpu_ops: kernels}", ["cannot run", "takes rows such as", "not 'k'"]),
    ],
    ids=["misspelt scenario", "column that is not there", "column of no row", "no number", "no row", "no list"],
)
def test_a_failing_test_says_what_to_mend(old: str, new: str, told: list[str], tmp_path: Path) -> None:
    file = new_rule("slow-thing", tmp_path)
    text = file.read_text()
    assert old in text
    text = text.replace(old, new).replace("expect: {state: clear}", "expect: {state: clear, bound_ns: 0}")
    file.write_text(text)
    failures = "\n".join(failure for result in run_rule_tests(read_rules([file])) for failure in result.failures)
    assert [words for words in told if words not in failures] == []


@pytest.mark.check
def test_the_schema_for_editors_knows_every_rule_that_ships(root: Path, golden: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    file = root / "docs" / "rule.schema.json"
    text = json.dumps(rule_schema(), indent=2) + "\n"
    if golden:
        file.write_text(text)
    assert file.read_text() == text, "run `make golden`"
    jsonschema.validators.validator_for(rule_schema()).check_schema(rule_schema())
    validator = jsonschema.validators.validator_for(rule_schema())(rule_schema())
    for path in rule_files([builtin_folder()]):
        validator.validate(yaml.load(path.read_text(), yaml.CSafeLoader))


def test_the_schema_refuses_a_key_that_no_rule_has() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    rule = yaml.safe_load((builtin_folder() / "launching" / "launch-bound.yaml").read_text())
    with pytest.raises(jsonschema.ValidationError, match="titel"):
        jsonschema.validate({**rule, "titel": "x"}, rule_schema())


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("a > 1 AND b < $c", ["a > 1", "b < $c"]),
        ("a BETWEEN 1 AND 2 AND b", ["a BETWEEN 1 AND 2", "b"]),
        ("(a AND b) AND c = 'x AND y'", ["(a AND b)", "c = 'x AND y'"]),
        ("a OR b AND c", ["a OR b AND c"]),
        ("CASE WHEN a AND b THEN c END AND d", ["CASE WHEN a AND b THEN c END", "d"]),
        ("a > 1 -- not b\nAND c  -- the end", ["a > 1", "c"]),
        ("a /* AND b */ AND c", ["a", "c"]),
        ("a /* b /* OR c */ d */ AND e", ["a", "e"]),
        ("a = '-- no  comment' AND b = 'it''s /*' AND c", ["a = '-- no  comment'", "b = 'it''s /*'", "c"]),
        ('"a AND b" > 1 AND c', ['"a AND b" > 1', "c"]),
        ("-- (why\na\nAND b", ["a", "b"]),
    ],
)
def test_a_condition_is_cut_where_and_joins_its_parts(condition: str, parts: list[str]) -> None:
    assert and_parts(condition) == parts


@pytest.mark.check
def test_an_explanation_shows_each_condition_with_its_values() -> None:
    found = explained("dataloader-bound", LOADER)
    assert found.verdict.state == "fired"
    assert all(seen.holds for seen in found.when)
    assert set(found.when[0].values) == {"bound_share", "min_share"}
    assert [seen.holds for seen in found.fixes] == [True, False, False, False, False, False, False, False]


COMMENTED = """bound_share >= $min_share -- worth it; AND 'nothing' else
AND /* in most steps, or (a few)
of them */ ms_per_step >= $min_ms -- '-- the end"""


@pytest.mark.check
def test_comments_in_a_condition_change_neither_the_verdict_nor_the_explanation() -> None:
    loader = rule_called("dataloader-bound", load_rules())
    plain, told = (
        explain(open_fixture(LOADER, {}), replace(loader, when=when), loader.values())[0]
        for when in ("bound_share >= $min_share AND ms_per_step >= $min_ms", COMMENTED)
    )
    assert told.verdict.state == plain.verdict.state == "fired"
    assert told.when == plain.when
    assert [seen.text for seen in told.when] == ["bound_share >= $min_share", "ms_per_step >= $min_ms"]


@pytest.mark.check
@pytest.mark.parametrize("part", ["select", "op_saving", "where", "compute_ops", "evidence"])
def test_a_comment_at_the_end_of_any_sql_of_a_rule_swallows_nothing(part: str) -> None:
    rule = rule_called("fp32-matmul-no-tensor-core", load_rules())
    con = open_fixture({"steps": 6, "kernels": 40, "kernel_us": 400, "precision": "fp32", "item_per_step": 1}, {})

    def ending(end: str) -> Rule:
        claims = rule.claims
        if part == "where":
            return replace(rule, claims=Claims(("host.dataloader", "host.sync"), where="TRUE" + end))
        if part == "compute_ops":
            return replace(rule, claims=replace(claims, compute_ops=f"{claims.compute_ops}{end}"))
        if part == "evidence":
            evidence = tuple(replace(item, select=item.select + end) for item in rule.evidence)
            return replace(rule, evidence=evidence)
        text = rule.select if part == "select" else rule.op_saving
        return replace(rule, **{part: f"{text}{end}"})  # type: ignore[arg-type]

    (found,) = diagnose(con, [ending("  -- the end")]).findings
    assert (found,) == diagnose(con, [ending("")]).findings
    assert found.owned_ns


FOLDED = """when: >
  bound_share >= 0.5  -- half of it
  AND bound_share < 0
"""


@pytest.mark.check
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (FOLDED, True),
        (FOLDED.replace(">\n", "|\n", 1), False),
        (FOLDED.replace("-- half of it", "/* half of it */"), False),
        (FOLDED.replace("-- half of it", "").replace("< 0", "< 0  -- never"), False),
        ("when: bound_share >= 0.5  -- half of it\n  AND bound_share < 0\n", True),
    ],
    ids=["folded", "kept", "in marks", "at the end", "plain"],
)
def test_lint_tells_a_comment_that_swallows_the_rest_of_folded_text(tmp_path: Path, text: str, wrong: bool) -> None:
    file = new_rule("my-rule", tmp_path)
    lines = file.read_text().split("\nwhen: ")
    file.write_text(f"{lines[0]}\n{text}{lines[1].partition(chr(10))[2]}")
    told = [str(mistake) for mistake in lint([file]) if "swallows" in str(mistake)]
    assert bool(told) == wrong
    assert all("half of it" in item for item in told)


def test_a_parameter_that_only_a_comment_names_is_not_used(tmp_path: Path) -> None:
    file = new_rule("my-rule", tmp_path)
    text = file.read_text()
    assert "$min_share" in text
    file.write_text(text.replace("$min_share", "0.05 /* $min_share */"))
    assert any("'min_share' is not used" in str(mistake) for mistake in lint([file]))


WAITS_CONDITION = "waits_per_step >= CASE step_count WHEN 0 THEN $min_waits_in_window ELSE $min_per_step END"


@pytest.mark.check
def test_an_explanation_runs_a_select_whose_fix_would_save_nothing() -> None:
    found = explained("sync-in-step", LOADER)
    assert found.verdict.state == "clear"
    assert {seen.text: seen.holds for seen in found.when}[WAITS_CONDITION] is False
    assert found.verdict.row["waits_per_step"] == 0


@pytest.mark.check
def test_an_explanation_of_a_rule_that_could_not_look_says_what_is_missing() -> None:
    found = explained("fsdp-prefetch", {**LOADER, "steps_marked": False, "mode": "inference"})
    assert [name for name, there, _ in found.requirements if not there] == ["steps"]
    stream = io.StringIO()
    formats.render(explanation_sections([found]), "terminal", stream)
    assert "Skipped. missing-capability:steps" in " ".join(stream.getvalue().split())


@pytest.mark.check
def test_an_explanation_tells_what_other_ranks_hide() -> None:
    late = {"rank": 3, "kernel_scale": 4.0}
    waiting = {"rank": 0, "item_per_step": 1, "loader_us": 6_000}
    job = {"ranks": 4, "steps": 6, "kernels": 40, "comm_us": 400, "comm_blocking": True, "faults": [late, waiting]}
    rule = rule_called("dataloader-bound", load_rules())
    found = explain(open_fixture(job, {}), rule, rule.values())[0]
    assert (found.verdict.state, found.verdict.reason) == ("clear", "hidden-by-other-ranks")
    assert (found.verdict.bound_share or 0) > 0.4
    stream = io.StringIO()
    formats.render(explanation_sections([found]), "terminal", stream)
    assert "Every condition holds, but it saves 45.3 % here and 0.0 % of the run" in stream.getvalue()


@pytest.mark.check
def test_an_explanation_of_a_rule_about_the_run_stands_once() -> None:
    job = {"ranks": 2, "steps": 8, "kernels": 40, "comm_us": 400, "comm_blocking": True}
    rule = rule_called("rank-compute-imbalance", load_rules())
    (found,) = explain(open_fixture(job, {}), rule, rule.values())
    assert (found.verdict.scope.trace, found.verdict.state) == (None, "clear")
    assert [name for name, there, _ in found.requirements if not there] == []
    assert found.when[0].values["bound_share"] < 0.04


def test_rows_of_an_attribution_table_that_does_not_exist_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="no attribution table is called 'stepps'"):
        open_fixture(None, {"attribution.stepps": [{"step": 1}]})
