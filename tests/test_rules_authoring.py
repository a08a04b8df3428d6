"""Writing a rule: a start that lints and waits for its problem, and mistakes and conditions that are told in full."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import explanation
from traceanalyzer.rules import explain, lint, load_rules, read_rules, rule_called, run_rule_tests
from traceanalyzer.rules.authoring import new_rule, rule_schema
from traceanalyzer.rules.explaining import Explanation, and_parts
from traceanalyzer.rules.fixtures import open_fixture
from traceanalyzer.rules.loading import builtin_folder

RULES = {rule.id: rule for rule in load_rules()}
LOADER = {"steps": 6, "kernels": 100, "kernel_us": 60, "loader_us": 9000}


def explained(rule: str, sim: Mapping[str, object]) -> Explanation:
    (found,) = explain(open_fixture(sim, {}), RULES[rule], RULES[rule].values())
    return found


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


def test_a_new_rule_replaces_no_file_and_has_an_id_that_can_be_typed(tmp_path: Path) -> None:
    new_rule("slow-thing", tmp_path)
    with pytest.raises(TraceAnalyzerError, match="exists already"):
        new_rule("slow-thing", tmp_path)
    with pytest.raises(TraceAnalyzerError, match="no id"):
        new_rule("Slow Thing", tmp_path)


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


def test_lint_tells_all_mistakes_of_a_rule_at_once(tmp_path: Path) -> None:
    file = new_rule("slow-thing", tmp_path)
    text = file.read_text().replace("bound_share >= $min_share", "bound_ns >= $min_ms").replace("{bound_share:.0%}", "")
    file.write_text(text)
    told = "\n".join(str(mistake) for mistake in lint([file]))
    assert "min_ms" in told
    assert "'min_share' is not used" in told


def test_the_schema_for_editors_knows_every_rule_that_ships(root: Path, golden: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    file = root / "docs" / "rule.schema.json"
    text = json.dumps(rule_schema(), indent=2) + "\n"
    if golden:
        file.write_text(text)
    assert file.read_text() == text, "run `make golden`"
    for path in builtin_folder().glob("*.yaml"):
        jsonschema.validate(yaml.safe_load(path.read_text()), rule_schema())


def test_the_schema_refuses_a_key_that_no_rule_has() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    rule = yaml.safe_load((builtin_folder() / "launch-bound.yaml").read_text())
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
    ],
)
def test_a_condition_is_cut_where_and_joins_its_parts(condition: str, parts: list[str]) -> None:
    assert and_parts(condition) == parts


def test_an_explanation_shows_each_condition_with_its_values() -> None:
    found = explained("dataloader-bound", LOADER)
    assert found.verdict.state == "fired"
    assert all(seen.holds for seen in found.when)
    assert set(found.when[0].values) == {"bound_share", "min_share"}
    assert [seen.holds for seen in found.fixes] == [True, False]


def test_an_explanation_runs_a_select_whose_fix_would_save_nothing() -> None:
    found = explained("sync-in-step", LOADER)
    assert found.verdict.state == "clear"
    assert {seen.text: seen.holds for seen in found.when}["waits_per_step >= $min_per_step"] is False
    assert found.verdict.row["waits_per_step"] == 0


def test_an_explanation_of_a_rule_that_could_not_look_says_what_is_missing() -> None:
    found = explained("comm-small-messages", {**LOADER, "steps_marked": False, "mode": "inference"})
    assert [name for name, there, _ in found.requirements if not there] == ["steps"]
    stream = io.StringIO()
    explanation.write([found], stream)
    assert "It could not look. missing-capability:steps" in " ".join(stream.getvalue().split())


def test_an_explanation_tells_what_other_ranks_hide() -> None:
    late = {"rank": 3, "kernel_scale": 4.0}
    waiting = {"rank": 0, "item_per_step": 1, "loader_us": 6_000}
    job = {"ranks": 4, "steps": 6, "kernels": 40, "comm_us": 400, "comm_blocking": True, "faults": [late, waiting]}
    rule = rule_called("dataloader-bound", load_rules())
    found = explain(open_fixture(job, {}), rule, rule.values())[0]
    assert (found.verdict.state, found.verdict.reason) == ("clear", "hidden-by-other-ranks")
    assert (found.verdict.bound_share or 0) > 0.4
    stream = io.StringIO()
    explanation.write([found], stream)
    assert "Every condition holds, and yet it saves 45.3 % here and 0.0 % of the run" in stream.getvalue()


def test_an_explanation_of_a_rule_about_the_run_stands_once() -> None:
    job = {"ranks": 2, "steps": 8, "kernels": 40, "comm_us": 400, "comm_blocking": True}
    rule = rule_called("rank-compute-imbalance", load_rules())
    (found,) = explain(open_fixture(job, {}), rule, rule.values())
    assert (found.verdict.place.trace, found.verdict.state) == (None, "clear")
    assert [name for name, there, _ in found.requirements if not there] == []
    assert found.when[0].values["bound_share"] < 0.04
