"""What a project decides about the rules is applied, has an end where it silences, and is told in every report."""

from __future__ import annotations

import datetime
import io
import json
import os
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from fixture_runs import open_fixture

from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.attribution.columns import HOST_CODE
from traceanalyzer.attribution.host.host_states import NEUTRAL, own_states
from traceanalyzer.cli import main
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import formats
from traceanalyzer.rules.diagnosis.diagnosing import diagnose
from traceanalyzer.rules.evaluation.sandbox import readers
from traceanalyzer.rules.rule_set.loading import load_rules
from traceanalyzer.run import open_run
from traceanalyzer.settings.settings import (
    MAX_FILE_BYTES,
    NO_SETTINGS,
    Settings,
    Suppression,
    locate_settings,
    read_settings,
)
from tracesim import simulate

LOADER_OR_SYNC = {"steps": 6, "kernels": 120, "kernel_us": 60, "loader_us": 9000, "item_per_step": 1}
FAR = datetime.date(2999, 12, 31)
PAST = datetime.date(2001, 1, 1)
RULES = load_rules()


def diagnosed(project: Settings, **options: Any) -> Diagnosis:
    con = open_fixture(LOADER_OR_SYNC, {}, readers(RULES))
    return diagnose(con, RULES, run_name="run", project=project, **options)


def problems(diagnosis: Diagnosis) -> list[str]:
    return [finding.rule for finding in diagnosis.findings if finding.kind == "finding"]


def settings(folder: Path, text: str) -> Settings:
    file = folder / "traceanalyzer.toml"
    file.write_text(text)
    return read_settings(file)


def report(diagnosis: Diagnosis) -> str:
    stream = io.StringIO()
    formats.write_diagnosis(diagnosis, "terminal", stream)
    return " ".join(stream.getvalue().split())


def test_the_nearest_file_above_the_run_counts(tmp_path: Path) -> None:
    run = tmp_path / "project" / "runs" / "run42"
    run.mkdir(parents=True)
    assert locate_settings(run).read() == NO_SETTINGS
    (tmp_path / "traceanalyzer.toml").write_text("[rules.a]\nparams = {x = 1}")
    (tmp_path / "project" / "traceanalyzer.toml").write_text("[rules.a]\nparams = {x = 2}")
    assert locate_settings(run).read().params == {"a.x": 2}
    trace = run / "rank0.json"
    trace.touch()
    assert locate_settings(trace).read().params == {"a.x": 2}


@pytest.fixture
def run_in_project(tmp_path: Path) -> Path:
    """The folder of a run in a folder of a project, with one small trace."""
    run = tmp_path / "project" / "run42"
    run.mkdir(parents=True)
    simulate(LOADER_OR_SYNC).write_kineto(run / "trace.json")
    return run


def test_a_file_in_the_run_itself_needs_trust(run_in_project: Path) -> None:
    own, above = run_in_project / "traceanalyzer.toml", run_in_project.parent / "traceanalyzer.toml"
    own.write_text("no settings at all: it is not even read")
    for root in (run_in_project, run_in_project / "trace.json"):
        found = locate_settings(root)
        assert (found.path, found.ignored) == (None, (own,))
        assert locate_settings(root, trust=True).path == own
    above.write_text("[rules.a]\nparams = {x = 1}")
    assert locate_settings(run_in_project).read().params == {"a.x": 1}
    assert locate_settings(run_in_project).ignored == (own,)


@pytest.mark.parametrize("spoil", ["link", "file", "folder"])
def test_a_file_above_that_others_can_change_needs_trust(run_in_project: Path, spoil: str, tmp_path: Path) -> None:
    folder = run_in_project.parent
    file = folder / "traceanalyzer.toml"
    if spoil == "link":
        (tmp_path / "elsewhere").write_text("")
        file.symlink_to(tmp_path / "elsewhere")
    else:
        file.write_text("")
        (file if spoil == "file" else folder).chmod(0o777)
    assert locate_settings(run_in_project).ignored == (file,)
    assert locate_settings(run_in_project, trust=True).path == file


def test_a_file_above_of_another_user_needs_trust(run_in_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = run_in_project.parent / "traceanalyzer.toml"
    file.write_text("")
    assert locate_settings(run_in_project).path == file
    if os.geteuid() == 0:
        os.chown(file, 1234, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert locate_settings(run_in_project).ignored == (file,)


def test_a_pipe_is_no_settings_file(run_in_project: Path) -> None:
    os.mkfifo(run_in_project.parent / "traceanalyzer.toml")
    assert locate_settings(run_in_project, trust=True).path is None


@pytest.mark.check
def test_every_command_says_which_file_it_does_not_use(
    run_in_project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "[rules.dataloader-bound]\nenabled = false\nreason = 'no loader'\n[names]\n'host.io' = ['x']"
    own = run_in_project / "traceanalyzer.toml"
    own.write_text(text)
    run = [str(run_in_project), "--store", str(tmp_path / "store")]

    def asked(*arguments: str) -> tuple[str, str]:
        assert main(list(arguments)) == 0
        said = capsys.readouterr()
        return said.out, said.err

    commands = (
        ["diagnose", *run],
        ["sql", *run, "SELECT 1"],
        ["info", *run],
        ["metrics", "export", *run, str(tmp_path)],
    )
    for command in (*commands, ["rules", "explain", "dataloader-bound", *run]):
        out, err = asked(*command)
        assert f"note: {own}" in err
        assert "--trust" in err
        assert "switched off" not in out
        if command[0] != "rules":
            assert asked(*command, "-q")[1] == ""
    assert asked("diagnose", *run, "--no-settings")[1] == ""
    for layout in ("terminal", "markdown"):
        out, err = asked("diagnose", *run, "--trust", "--format", layout)
        assert err == ""
        assert "switched off: no loader" in out
        # Markdown escapes underscores, and long paths are folded.
        assert str(own) in "".join(out.replace("\\", "").split())
    overrides = json.loads(asked("diagnose", *run, "--trust", "--format", "json")[0])["overrides"]
    assert {override["origin"] for override in overrides} == {str(own)}


def test_every_kind_of_setting_is_read(tmp_path: Path) -> None:
    read = settings(
        tmp_path,
        """
        rule_paths = ["ours"]
        [rules.dataloader-bound]
        params = { min_share = 0.1 }
        reason = "PERF-41"
        [rules.comm-blocking]
        enabled = false
        reason = "no fast network"
        [[suppress]]
        rule = "sync-in-step"
        rank = 3
        reason = "PERF-52"
        until = 2999-12-31
        """,
    )
    assert read.rule_paths == (tmp_path / "ours",)
    assert read.params == {"dataloader-bound.min_share": 0.1}
    assert read.switched_off == {"comm-blocking": "no fast network"}
    assert read.suppressions == (Suppression("sync-in-step", "PERF-52", FAR, rank=3),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rule_path = []", "did you mean 'rule_paths'?"),
        ("[rules.a]\nenabled = false", "rules.a needs a reason"),
        ("[rules.a]\nparam = {}", "did you mean 'params'?"),
        ('[[suppress]]\nrule = "a"\nuntil = 2999-01-01', "suppress[0] needs a reason"),
        ('[[suppress]]\nrule = "a"\nreason = "b"', "must be a day"),
        ('[[suppress]]\nrule = "a"\nreason = "b"\nuntil = 2999-01-01T10:00:00', "must be a day"),
        ("[rules.a", "cannot be read"),
        ("x = " + "[" * 50_000, "nests too deeply"),
        ("x = " + "9" * 5_000, "cannot be read"),
        ("#" * (MAX_FILE_BYTES + 1), "is larger than 1,000,000 bytes"),
    ],
)
def test_a_mistake_is_told_with_the_place_and_what_to_do(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError) as raised:
        settings(tmp_path, text)
    assert told in raised.value.what
    assert raised.value.where == str(tmp_path / "traceanalyzer.toml")


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError) as raised:
        settings(tmp_path, "x = 1\n[rules.a]\nenabled = false\n[[suppress]]\n")
    assert all(word in raised.value.what for word in ("unknown key: x", "rules.a needs", "suppress[0] needs"))


@pytest.mark.check
def test_a_rule_that_does_not_exist_is_told() -> None:
    with pytest.raises(TraceAnalyzerError) as raised:
        diagnosed(Settings(switched_off={"dataloader-bond": "because"}))
    assert "dataloader-bound" in (raised.value.hint or "")


@pytest.mark.check
def test_a_rule_that_is_switched_off_is_not_asked_and_is_told() -> None:
    diagnosis = diagnosed(Settings(switched_off={"dataloader-bound": "being replaced"}))
    assert problems(diagnosis) == ["sync-in-step"]
    assert "dataloader-bound" not in {outcome.rule for outcome in diagnosis.outcomes}
    assert "dataloader-bound switched off: being replaced" in report(diagnosis)


@pytest.mark.check
def test_the_command_line_wins_over_the_file_and_both_are_told() -> None:
    project = Settings(
        Path("traceanalyzer.toml"), params={"dataloader-bound.min_share": 0.9, "sync-in-step.min_share": 0.9}
    )
    assert problems(diagnosed(project)) == []
    diagnosis = diagnosed(project, params={"dataloader-bound.min_share": 0.2})
    assert problems(diagnosis) == ["dataloader-bound"]
    told = {(override.rule, override.what, override.origin) for override in diagnosis.overrides}
    assert told == {
        ("dataloader-bound", "min_share = 0.2 instead of 0.05", "--set"),
        ("sync-in-step", "min_share = 0.9 instead of 0.01", "traceanalyzer.toml"),
    }


@pytest.mark.sampled
@pytest.mark.parametrize("number", ["nan", "inf", "-nan", "true"])
def test_a_number_of_the_file_that_is_none_is_an_error(number: str, tmp_path: Path) -> None:
    project = settings(tmp_path, f"[rules.dataloader-bound]\nparams = {{min_share = {number}}}")
    with pytest.raises(TraceAnalyzerError, match="is no float"):
        diagnosed(project)


@pytest.mark.check
def test_a_suppressed_finding_keeps_its_time_and_leaves_the_order_of_fixes() -> None:
    diagnosis = diagnosed(Settings(suppressions=(Suppression("dataloader-bound", "PERF-41", FAR),)))
    assert problems(diagnosis) == ["sync-in-step"]
    (silenced,) = diagnosis.suppressed
    whole = next(f for f in diagnosed(NO_SETTINGS).findings if f.rule == "dataloader-bound")
    assert (silenced.rule, silenced.owned_ns, silenced.marginal_order) == (whole.rule, whole.owned_ns, None)
    outcome = next(outcome for outcome in diagnosis.outcomes if outcome.rule == "dataloader-bound")
    assert (outcome.state, outcome.reason) == ("fired", "suppressed")
    assert "until 2999-12-31: PERF-41" in report(diagnosis)


@pytest.mark.check
def test_a_suppression_ends_on_its_day_and_says_so() -> None:
    diagnosis = diagnosed(Settings(suppressions=(Suppression("dataloader-bound", "PERF-41", PAST),)))
    assert problems(diagnosis)[0] == "dataloader-bound"
    assert "no longer suppressed" in report(diagnosis)


@pytest.mark.check
def test_a_suppression_of_another_rank_silences_nothing() -> None:
    diagnosis = diagnosed(Settings(suppressions=(Suppression("dataloader-bound", "PERF-41", FAR, rank=7),)))
    assert problems(diagnosis)[0] == "dataloader-bound"
    assert "suppressed, and not found" in report(diagnosis)


@pytest.mark.check
def test_names_of_the_project_stand_for_causes_and_are_told(tmp_path: Path) -> None:
    step = [
        {"annot": {"name": "our_pipeline.fetch"}, "do": [{"py": 9_000}]},
        {"forward": 40, "do": [{"kernel": {"us": 80}}]},
    ]
    simulate({"steps": 6, "program": step}).write_kineto(tmp_path / "trace.json")

    def told(**options: Any) -> tuple[list[str], Diagnosis]:
        with open_run(tmp_path, store=tmp_path / "store", trust=True, **options) as run:
            diagnosis = run.diagnose()
            return problems(diagnosis), diagnosis

    assert "dataloader-bound" not in told()[0]
    settings(tmp_path, "[names]\n'host.dataloader' = ['our_pipeline']\n")
    found, diagnosis = told()
    assert found[0] == "dataloader-bound"
    assert [(o.kind, o.what) for o in diagnosis.overrides] == [
        ("names", "host.dataloader wherever a name matches our_pipeline")
    ]
    assert "host.dataloader wherever a name matches our_pipeline" in report(diagnosis)
    # Both attributions are in the store: asking without the names again reads the first one.
    assert "dataloader-bound" not in told(options=AttributionOptions(names=()))[0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[names]\nhost.datalaoder = ['x']", "did you mean 'host.dataloader'?"),
        ("[names]\n'host.io' = ['(']", "'(' is no regular expression of RE2: missing )"),
        ("[names]\n'host.io' = ['(?=save)']", "is no regular expression of RE2: invalid perl operator: (?="),
        pytest.param(
            f"[names]\n'host.io' = {['x'] * 60_000}", "has 60,000 patterns, and a cause may have 1,000", id="too_many"
        ),
        ("[names]\n'host.io' = [3]", "must be a pattern or a list of them"),
        ("[names]\n'host.sync' = ['x']", "no cause that names stand for"),
    ],
)
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(TraceAnalyzerError) as caught:
        settings(tmp_path, text)
    assert what in str(caught.value)


@pytest.mark.check
def test_no_pattern_takes_longer_than_its_names_are_long(tmp_path: Path) -> None:
    step = [
        {"annot": {"name": "a" * 50_000 + "!"}, "do": [{"py": 9_000}]},
        {"forward": 4, "do": [{"kernel": {"us": 80}}]},
    ]
    simulate({"steps": 6, "program": step}).write_kineto(tmp_path / "trace.json")

    def seconds(names: tuple[tuple[str, str], ...]) -> float:
        started = time.monotonic()
        with open_run(tmp_path, store=tmp_path / "store", options=AttributionOptions(names=names)):
            return time.monotonic() - started

    assert seconds(()) < 60
    assert seconds((("host.io", "^(a+)+$"),)) < 2


def test_the_first_of_a_projects_names_that_matches_counts() -> None:
    own = (("host.io", "^save$"), ("host.gc", "sa"), ("host.io", "."))
    with duckdb.connect() as con:
        assert own_states(con, own, ["save", "save_all", "load", ""]) == [
            *(HOST_CODE[cause] for cause in ("host.io", "host.gc", "host.io")),
            NEUTRAL,
        ]
        assert own_states(con, None, ["save"]) == [NEUTRAL]


def test_a_cause_without_quotes_is_read_alike(tmp_path: Path) -> None:
    assert settings(tmp_path, "[names]\nhost.io = 'save_all'").names == (("host.io", "save_all"),)
