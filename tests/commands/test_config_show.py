"""`config show`: every setting that holds, and from where; mistakes are errors, and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from traceanalyzer.cli import main

SETTINGS = """
rule_paths = []

[names]
"host.io" = ["our_reader"]

[devices]
name = "NVIDIA A100"

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
until = 2001-01-01
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run below a project's settings."""
    (tmp_path / "traceanalyzer.toml").write_text(SETTINGS)
    folder = tmp_path / "run42"
    folder.mkdir()
    return folder


def shown(run: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, tuple[str, str | None, str]]:
    assert main(["config", "show", str(run), "--format", "json", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    return {item["name"]: (item["value"], item["default"], item["origin"]) for item in document["settings"]}


def test_every_setting_has_its_value_its_default_and_its_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(run.parent / "traceanalyzer.toml")
    of_file = {name: found for name, found in shown(run, capsys).items() if found[2] == file}
    assert of_file == {
        "names.host.io": ("our_reader", None, file),
        "devices.name": ("NVIDIA A100", None, file),
        "rules.dataloader-bound.params.min_share": ("0.1", "0.05", file),
        "rules.comm-blocking.enabled": ("false", "true", file),
        "suppress.sync-in-step": ("rank 3, ended on 2001-01-01", None, file),
    }
    assert list(run.iterdir()) == []


def test_options_and_variables_are_named_as_origins(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(run, capsys, "--device", "NVIDIA H200:132")
    assert found["devices.name"] == ("NVIDIA H200, 132 SMs", None, "--device")
    assert found["XDG_CACHE_HOME"][2] == "environment"


def test_a_file_that_does_not_count_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "traceanalyzer.toml").write_text("")
    assert main(["config", "show", str(run)]) == 0
    out = capsys.readouterr().out
    assert "run42/traceanalyzer.toml" in "".join(out.split())
    assert "--trust uses the nearest" in " ".join(out.split())
    assert "min_share" not in "".join(shown(run, capsys, "--trust"))


def test_without_a_file_defaults_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", str(tmp_path)]) == 0
    assert "no traceanalyzer.toml is in force: the defaults apply" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("[rules.no-such-rule]\nenabled = false\nreason = 'a'", "no such rule: no-such-rule"),
        ("[rules.dataloader-bound]\nparams = { min_share = 7 }", "7 is out of range"),
        ("[devices]\nname = 'NVIDIA H100'", "fits models with different peaks"),
        ("[rule", "cannot be read"),
    ],
)
def test_a_mistake_in_the_settings_is_an_error(
    text: str, mistake: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.parent / "traceanalyzer.toml").write_text(text)
    assert main(["config", "show", str(run)]) == 2
    assert mistake in capsys.readouterr().err


def test_a_run_that_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", str(tmp_path / "absent")]) == 2
    assert "no such file or folder" in capsys.readouterr().err
