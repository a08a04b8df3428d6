"""Budgets, exceptions and exit codes, as a pipeline sees them."""

from __future__ import annotations

import datetime
import json
import re
import sys
from pathlib import Path

import pytest
from drawn_summaries import MS, capture, finding
from report_schemas import junit_root, sarif_results

from traceanalyzer.cli import main
from traceanalyzer.comparison.comparing import compare
from traceanalyzer.comparison.gate import Check, check_diff, check_run
from traceanalyzer.comparison.summary import Summary, text_of
from traceanalyzer.settings.budgets import Budget, read_budgets

TODAY = datetime.date(2026, 11, 23)
BASE = [capture((ms,) * 4, waits_ms={"host.dataloader": 10}) for ms in (100.0, 100.4, 99.8)]
SLOWER = [capture((ms,) * 4, waits_ms={"host.dataloader": 18}) for ms in (108.0, 108.3, 107.9)]


def checked(limit: Budget, base: list[Summary], new: list[Summary]) -> Check:
    (check,) = check_diff(compare(base, new), [limit], ["budget"]).checks
    return check


@pytest.mark.parametrize(
    ("budget", "state"),
    [
        (Budget("step", "slower", 0.03), "failed"),
        (Budget("step", "slower", 0.09), "passed"),
        (Budget("step", "max_ms", 105.0), "failed"),
        (Budget("step", "max_ms", 109.0), "passed"),
        (Budget("compute_share", "min", 0.85), "failed"),
        (Budget("compute_share", "min", 0.80), "passed"),
        (Budget("ledger.host.dataloader", "max_share", 0.1), "failed"),
        (Budget("ledger.host.dataloader", "max_ms", 18.5), "passed"),
        (Budget("ledger.host.dataloader", "more", 0.05), "failed"),
        (Budget("ledger.host.op", "more", 0.0), "passed"),
        (Budget("kernel.sgemm*", "slower", 0.0), "passed"),
        (Budget("kernel.sgemm*", "more_launches", 0.0), "passed"),
        (Budget("kernel.sgemm*", "max_ms", 19.0), "failed"),
        (Budget("kernel.flash*", "more_launches", 0.0), "not judged"),
        (Budget("findings", "new", "high"), "passed"),
        (Budget("findings", "any", "critical"), "passed"),
    ],
)
def test_each_budget_is_judged_by_what_it_names(budget: Budget, state: str) -> None:
    assert checked(budget, BASE, SLOWER).state == state


def test_a_relative_budget_is_unsure_where_only_the_estimate_is_beyond_it() -> None:
    assert checked(Budget("step", "slower", 0.03), BASE[:1], SLOWER[:1]).state == "unsure"
    wide = [capture((ms,) * 4) for ms in (95.0, 120.0)]
    assert checked(Budget("step", "slower", 0.03), BASE[:2], wide).state == "unsure"


def test_more_launches_and_new_findings_exceed_their_budgets() -> None:
    more = [capture(kernels={"sgemm_128x64": (164, 80)})]
    assert checked(Budget("kernel.sgemm*", "more_launches", 0.0), [capture()], more).measured == 1.0
    new = [capture(findings=[finding()])]
    base = [capture(outcomes={"dataloader-bound": "clear"})]
    assert checked(Budget("findings", "new", "high"), base, new).state == "failed"
    assert checked(Budget("findings", "new", "critical"), base, new).state == "passed"
    assert checked(Budget("findings", "any", "high"), base, new).state == "failed"


def test_a_blocked_side_is_not_judged() -> None:
    blocked = [capture((50.0,) * 4, blocked="thinned")]
    for budget in (Budget("step", "slower", 0.03), Budget("step", "max_ms", 135.0), Budget("findings", "new", "high")):
        assert checked(budget, BASE, blocked).state == "not judged"


def test_a_run_without_time_keeps_relative_budgets_against_itself() -> None:
    empty = capture(devices=(), kernels={}, has_steps=False)
    for subject, limit in (("step", "slower"), ("ledger.compute", "more")):
        assert checked(Budget(subject, limit, 0.0), [empty], [empty]).state == "passed"


def test_a_single_run_keeps_absolute_budgets() -> None:
    budgets = [Budget("step", "max_ms", 99.0), Budget("step", "slower", 0.03), Budget("compute_share", "min", 0.5)]
    checks = check_run(capture(), budgets).checks
    assert [(check.name, check.state) for check in checks] == [
        ("step.max_ms", "failed"),
        ("compute_share.min", "passed"),
    ]


SETTINGS = """\
[budgets]
step = { max_ms = 135, slower = "3%" }
compute_share = { min = 0.85 }
"ledger.host.dataloader" = { max_share = 0.02, more = "1%" }
"kernel.flash_fwd*" = { slower = "5%", more_launches = 0 }
findings = { new = "high", any = "critical" }

[[budget_exception]]
budget = "step"
slower = "6%"
reason = "longer sequences: PERF-88"
until = 2027-01-31
"""


def read(text: str, today: datetime.date = TODAY) -> tuple[dict[str, Budget], list[str]]:
    import tomllib

    values = tomllib.loads(text)
    found, mistakes = read_budgets(values.get("budgets", {}), values.get("budget_exception", []), text, today)
    return {budget.name: budget for budget in found}, mistakes


def test_budgets_and_an_exception_are_read() -> None:
    budgets, mistakes = read(SETTINGS)
    assert mistakes == []
    assert (budgets["step.max_ms"].value, budgets["step.slower"].value) == (135.0, 0.06)
    assert budgets["step.slower"].exception == "longer sequences: PERF-88, until 2027-01-31"
    assert budgets["ledger.host.dataloader.more"].value == 0.01
    assert budgets["kernel.flash_fwd*.more_launches"].is_relative
    assert budgets["findings.any"].value == "critical"


def test_an_exception_ends_with_its_day() -> None:
    assert read(SETTINGS, datetime.date(2027, 1, 31))[0]["step.slower"].value == 0.06
    assert read(SETTINGS, datetime.date(2027, 2, 1))[0]["step.slower"].value == 0.03


def test_buckets_may_be_written_as_tables() -> None:
    budgets, mistakes = read("[budgets.ledger.host.dataloader]\nmax_share = 0.02\n")
    assert (list(budgets), mistakes) == (["ledger.host.dataloader.max_share"], [])


def test_every_mistake_is_told_with_its_line() -> None:
    text = """\
[budgets]
stepp = { max_ms = 1 }
step = { slower = 3, max_s = 2 }
"ledger.host.dataloder" = { more = "1%" }
compute_share = { min = 85 }
findings = { new = "awful" }
kernel = { slower = "5%" }

[[budget_exception]]
budget = "step"
slower = "6%"
"""
    _, mistakes = read(text)
    assert [mistake.partition(":")[0] for mistake in mistakes] == [
        *("line 2", "line 3", "line 3", "line 4", "line 5", "line 6", "line 7", "line 9", "line 9", "line 9")
    ]
    assert "did you mean 'step'" in mistakes[0]
    assert 'such as "3%"' in mistakes[1]
    assert "did you mean 'host.dataloader'" in mistakes[3]
    assert "share from 0 to 1" in mistakes[4]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with summaries of a base, the same, a slower and a blocked side, in which commands run."""
    sides = {
        "base": BASE,
        "slower": SLOWER,
        "single": [capture((104.0, 105.0, 104.5, 104.1))],
        "blocked": [capture((104.0,) * 4, blocked="Most events were removed (tq-thinned)")],
    }
    for name, side in sides.items():
        (tmp_path / f"{name}.json").write_text(text_of(side), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> int:
    return main(["diff", *arguments])


def test_exit_codes_of_a_gate(files: Path) -> None:
    assert run("base.json", "slower.json") == 0
    assert run("base.json", "slower.json", "--fail-on", "slower") == 1
    assert run("slower.json", "base.json", "--fail-on", "slower") == 0
    assert run("base.json", "base.json", "--fail-on", "any") == 0
    assert run("base.json", "blocked.json", "--fail-on", "slower") == 3
    assert run("blocked.json", "blocked.json", "--fail-on", "any") == 0
    assert run("base.json", "missing.json") == 2


def test_what_a_gate_does_where_it_is_unsure(files: Path) -> None:
    (files / "one.json").write_text(text_of(BASE[:1]), encoding="utf-8")
    unsure = ("one.json", "single.json", "--fail-on", "slower")
    assert run(*unsure) == 3
    assert run(*unsure, "--unsure", "pass") == 0
    assert run(*unsure, "--unsure", "fail") == 1
    assert run("base.json", "blocked.json", "--fail-on", "slower", "--unsure", "pass") == 3


def test_budgets_of_the_current_folder_gate_summaries(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("base.json", "slower.json", "--fail-on", "budget") == 2
    assert "there are no budgets" in capsys.readouterr().err
    (files / "traceanalyzer.toml").write_text('[budgets]\nstep = { slower = "3%" }\n', encoding="utf-8")
    assert run("base.json", "slower.json", "--fail-on", "budget") == 1
    assert "failed: step.slower: +8.0 % (at least +7." in capsys.readouterr().err
    assert run("base.json", "base.json", "--fail-on", "budget") == 0


def test_wrong_budgets_are_an_error_with_file_and_lines(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "traceanalyzer.toml").write_text("[budgets]\nstepp = { max_ms = 1 }\nstep = { slower = 3 }\n")
    assert run("base.json", "slower.json", "--fail-on", "budget") == 2
    error = capsys.readouterr().err
    assert "traceanalyzer.toml" in error and "line 2: " in error and "line 3: " in error


def test_wrong_options_say_what_is_expected(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in (("--min-effect", "2"), ("--also", "junit"), ("--also", "yaml=x"), ("--rank", "7")):
        assert run("base.json", "slower.json", *option) == 2, option
    assert "is no percentage below 100 %" in capsys.readouterr().err


def test_one_pass_writes_several_formats_and_appends_to_the_step_summary(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = files / "step_summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    also = ("--also", f"markdown={summary}", "--also", "json=diff.json", "-o", "diff.txt")
    assert run("base.json", "slower.json", *also) == 0
    assert summary.read_text(encoding="utf-8").startswith("before\n<!-- traceanalyzer -->\n")
    assert json.loads((files / "diff.json").read_text(encoding="utf-8"))["judgement"]["verdict"] == "slower"
    assert "slower" in (files / "diff.txt").read_text(encoding="utf-8")
    assert not list(files.glob("*.part"))


def test_the_suffix_of_its_file_names_the_format_of_a_comparison(files: Path) -> None:
    for name, begin in (("diff.md", "<!-- traceanalyzer -->"), ("diff.json", "{"), ("diff.html", "<!doctype html>")):
        assert run("base.json", "slower.json", "-o", name) == 0
        assert (files / name).read_text(encoding="utf-8").lower().startswith(begin), name


def test_a_page_of_a_comparison_does_not_fill_a_terminal(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("base.json", "slower.json", "--format", "html") == 2
    printed = capsys.readouterr()
    assert "a page is for a browser" in printed.err
    assert printed.out == ""


@pytest.mark.check
def test_diagnose_keeps_absolute_budgets(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder = tmp_path / "project" / "run"
    run_folder.mkdir(parents=True)
    name = "rank0.json.gz"
    (run_folder / name).write_bytes((root / "sample_traces" / "slow_loader" / name).read_bytes())
    settings = tmp_path / "project" / "traceanalyzer.toml"
    command = ["diagnose", str(run_folder), "--store", str(tmp_path / "store"), "--budgets"]
    assert main(command) == 2
    assert "no budget for a single run was found" in capsys.readouterr().err
    settings.write_text("[budgets]\nstep = { max_ms = 40 }\ncompute_share = { min = 0.2 }\n", encoding="utf-8")
    assert main(command) == 1
    assert "failed: step.max_ms: 46." in capsys.readouterr().err
    settings.write_text("[budgets]\nstep = { max_ms = 60 }\n", encoding="utf-8")
    assert main(command) == 0


@pytest.mark.check
def test_a_quiet_diagnosis_says_each_budget_and_each_finding_that_failed(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_folder = tmp_path / "project" / "run"
    run_folder.mkdir(parents=True)
    name = "rank0.json.gz"
    (run_folder / name).write_bytes((root / "sample_traces" / "slow_loader" / name).read_bytes())
    settings = tmp_path / "project" / "traceanalyzer.toml"
    settings.write_text("[budgets]\nstep = { max_ms = 40 }\ncompute_share = { min = 0.1 }\n", encoding="utf-8")
    command = ["diagnose", str(run_folder), "--store", str(tmp_path / "store"), "--budgets", "-q"]
    outputs = {ending: tmp_path / f"report.{ending}" for ending in ("md", "xml", "sarif")}
    also = ["--also", f"junit={outputs['xml']}", "--also", f"sarif={outputs['sarif']}"]
    assert main([*command, "--fail-on", "high", "-o", str(outputs["md"]), *also]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line.split(":")[0] for line in printed.err.splitlines()] == ["failed on high or worse", "failed"]
    assert re.search(r"failed: step\.max_ms: 46\.\d\d ms; the limit: at most ", printed.err)
    root_element = junit_root(outputs["xml"].read_text("utf-8"))
    cases = {case.attrib["name"]: case for case in root_element.iter("testcase")}
    assert cases["step.max_ms"].find("failure") is not None
    assert cases["compute_share.min"].find("failure") is None
    (step,) = root_element.iter("property")
    assert step.attrib["name"] == "step time in seconds" and float(step.attrib["value"]) > 0.04
    assert {case.attrib["time"] for case in cases.values()} == {"0"}
    broken, *findings = sarif_results(outputs["sarif"].read_text("utf-8"))
    assert broken["ruleId"] == "budget"
    assert broken["message"]["text"].startswith("step.max_ms: 46.")
    assert findings
    assert all(item["message"]["text"].count("up to") <= 1 for item in findings)
    assert main([*command, "-o", str(outputs["md"])]) == 1
    assert capsys.readouterr().err.startswith("failed: step.max_ms: 46.")


@pytest.mark.check
def test_settings_that_are_not_used_are_named_where_a_quiet_command_needs_them(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "rank0.json.gz"
    (tmp_path / name).write_bytes((root / "sample_traces" / "slow_loader" / name).read_bytes())
    (tmp_path / "traceanalyzer.toml").write_text("[budgets]\nstep = { max_ms = 40 }\n", encoding="utf-8")
    assert main(["diagnose", str(tmp_path), "--store", str(tmp_path / "store"), "--budgets", "-q"]) == 2
    assert f"hint: --trust uses {tmp_path / 'traceanalyzer.toml'}" in capsys.readouterr().err


def test_new_time_is_given_in_the_unit_of_the_budget() -> None:
    check = checked(Budget("step", "max_ms", 105.0), BASE, SLOWER)
    assert check.measured == pytest.approx(sum((108.0, 108.3, 107.9)) / 3, abs=1 / MS)
