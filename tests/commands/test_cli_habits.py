"""What people try on any command line: help and version as words, completion, man, a format from a file's name."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from generate import MANUAL_PAGE

import traceanalyzer
from traceanalyzer.cli import SYNONYMS, cli, main
from traceanalyzer.commands import COMPLETION_VARIABLE
from traceanalyzer.commands.help import manual_page
from traceanalyzer.commands.record import PROFILERS
from traceanalyzer.commands.top import WHAT

SAMPLE = "sample_traces/slow_loader"


@pytest.fixture(scope="module")
def stored(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A sample run and its store, as arguments."""
    return [str(root / SAMPLE), "--store", str(tmp_path_factory.mktemp("store"))]


def test_help_and_version_are_also_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    as_word = capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == as_word
    assert main(["help", "rules", "show"]) == 0
    as_word = capsys.readouterr().out
    assert main(["rules", "show", "--help"]) == 0
    assert capsys.readouterr().out == as_word
    assert main(["help"]) == 0
    assert "What limits a run:" in capsys.readouterr().out


def test_help_of_a_command_that_is_not_there_names_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "diagnoze"]) == 2
    assert "did you mean 'diagnose'?" in capsys.readouterr().err
    assert main(["help", "sql", "select"]) == 2
    assert "no command is called 'select'" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_asks_this_program(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert f"{COMPLETION_VARIABLE}={shell}_complete" in capsys.readouterr().out


# What each shell is asked to do when the words of $1 and on are typed, and TAB is pressed.
_BASH = """
    eval "$(traceanalyzer completion bash)"
    try() {
        COMPREPLY=(); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _traceanalyzer_completion traceanalyzer; echo "${COMPREPLY[@]}"
    }
"""
_ZSH = """
    compdef() { : }
    eval "$(traceanalyzer completion zsh)"
    _describe() { print -r -- "${${completions_with_descriptions[@]}%%:*}" }
    try() { words=("$@"); CURRENT=$#; _traceanalyzer_completion }
"""
_FISH = """
    traceanalyzer completion fish | source
    function try; complete -C "$argv" | string split -f 1 \\t; end
"""


@pytest.mark.check
@pytest.mark.parametrize(
    ("command", "script"),
    [(["bash"], _BASH), (["zsh", "-f"], _ZSH), (["fish", "--no-config"], _FISH)],
    ids=["bash", "zsh", "fish"],
)
def test_a_shell_completes_commands_and_names(command: list[str], script: str, tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    program = tmp_path / "traceanalyzer"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m traceanalyzer "$@"\n')
    program.chmod(0o700)
    asks = """
        try traceanalyzer diag
        try traceanalyzer metrics show kernel_su
        try traceanalyzer rules show dataloader-b
        try traceanalyzer whatif run42 --remove host.dat
    """
    done = subprocess.run(
        [*command, "-c", script + asks],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.stdout.split() == ["diagnose", "kernel_summary", "dataloader-bound", "host.dataloader"]


def test_the_manual_page_has_every_command_and_option() -> None:
    page = manual_page(cli, "traceanalyzer")

    def check(group: click.Group, path: str) -> None:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if isinstance(command, click.Group):
                check(command, f"{path} {name}")
                continue
            assert f".SS {path} {name} ".replace("-", r"\-") in page
            for option in (option for option in command.params if isinstance(option, click.Option)):
                assert option.opts[0].replace("-", r"\-") in page

    check(cli, "traceanalyzer")


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_the_manual_page_is_roff_without_warnings() -> None:
    page = manual_page(cli, "traceanalyzer")
    done = subprocess.run(["groff", "-man", "-ww", "-z"], input=page, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_the_manual_page_that_is_installed_is_the_one_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man"]) == 0
    assert capsys.readouterr().out == MANUAL_PAGE.read_text(encoding="utf-8")


@pytest.mark.check
@pytest.mark.parametrize(
    ("command", "name", "begins"),
    [
        (["diagnose"], "report.md", "# slow"),
        (["diagnose"], "REPORT.JSON", "{"),
        (["diagnose"], "report.txt", "slow_loader  "),
        (["diagnose", "--format", "json"], "report.md", "{"),
        (["info"], "info.json", "{"),
        (["sql", "SELECT 1 AS x"], "x.csv", "x\n1\n"),
        (["sql", "SELECT 1 AS x"], "x.parquet", "PAR1"),
        (["whatif", "--remove", "host"], "x.markdown", "# slow"),
    ],
)
def test_the_name_of_a_file_says_its_format(
    command: list[str], name: str, begins: str, stored: list[str], tmp_path: Path
) -> None:
    first, *more = command
    assert main([first, *stored, *more, "-q", "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes().startswith(begins.encode())


def test_a_format_that_a_command_does_not_write_is_an_error_and_writes_nothing(
    stored: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", *stored, "-o", str(tmp_path / "report.parquet")]) == 2
    assert "this command writes no parquet" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.check
def test_a_share_may_be_given_in_percent(stored: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    def fired(value: str) -> list[str]:
        assert main(["diagnose", *stored, "--set", f"dataloader-bound.min_share={value}", "--format", "json"]) == 0
        findings = json.loads(capsys.readouterr().out)["findings"]
        return [finding["rule"] for finding in findings]

    assert fired("50%") == fired("0.5")
    assert "dataloader-bound" in fired("50%")
    assert "dataloader-bound" not in fired("70 %")


@pytest.mark.check
@pytest.mark.parametrize("value", ["%", "half%", "110%", "-1%"])
def test_a_percentage_that_is_none_or_out_of_range_is_an_error(
    value: str, stored: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", *stored, "--set", f"dataloader-bound.min_share={value}"]) == 2
    assert "dataloader-bound.min_share" in capsys.readouterr().err


@pytest.mark.check
def test_what_has_a_unit_takes_no_percentage(stored: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", *stored, "--set", "dataloader-bound.min_ms=50%"]) == 2
    assert "'50%' is no float" in capsys.readouterr().err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def prompt(stored: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Prompt:
    """Types lines at the prompt of `sql` and gives what it prints."""
    return Prompt(stored, monkeypatch, capsys)


class Prompt:
    """Runs `traceanalyzer sql RUN` at a terminal that types lines."""

    def __init__(self, stored: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._stored, self._monkeypatch, self._capsys = stored, monkeypatch, capsys
        self.asked: list[str] = []

    def __call__(self, *lines: str) -> tuple[list[str], str]:
        typed = iter([*lines, ".quit"])

        def read(prompt: str) -> str:
            self.asked.append(prompt)
            return next(typed)

        self._monkeypatch.setattr("builtins.input", read)
        self._monkeypatch.setattr(sys, "stdin", _Terminal())
        assert main(["sql", *self._stored]) == 0
        out, err = self._capsys.readouterr()
        return out.splitlines()[1:], err


@pytest.mark.check
def test_the_prompt_ignores_an_empty_line(prompt: Prompt) -> None:
    assert prompt("", "   ", ";", "SELECT 1 AS x;") == (["x", "─", "1"], "")
    assert prompt.asked == ["sql> "] * 5


@pytest.mark.check
def test_the_prompt_answers_every_statement_of_a_line(prompt: Prompt) -> None:
    assert prompt("SELECT 1 AS x; SELECT 2 AS y;") == (["x", "─", "1", "y", "─", "2"], "")
    assert prompt("SELECT 'a;b' AS x;")[0] == ["x", "───", "a;b"]


@pytest.mark.check
def test_the_prompt_shows_a_mistake_as_the_command_does_and_goes_on(
    prompt: Prompt, stored: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in ("SELECT * FROM gpu_opz", "SELEC 1", "SELECT CAST(name AS INTEGER) FROM gpu_ops"):
        assert main(["sql", *stored, wrong]) == 2
        as_command = capsys.readouterr().err
        rows, as_prompt = prompt(f"{wrong};", "SELECT 1 AS x;")
        assert as_prompt.replace(";", "") == as_command
        assert as_prompt.startswith("error: query: ")
        assert rows == ["x", "─", "1"]


def test_help_lists_commands_by_what_people_want(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    titles = ("What limits a run:", "Two runs:", "Own questions:", "Recording and other programs:", "Stores:")
    assert [line for line in out.splitlines() if line in titles] == list(titles)
    assert not {"version", "help", "man", "completion", "part"} & set(cli.list_commands(None))


@pytest.mark.parametrize("former", [["ingest"], ["part"], ["config", "show"], ["baseline", "write"], ["man"], ["help"]])
def test_a_former_command_still_works(former: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*former, "--help"]) == 0
    assert f"Usage: traceanalyzer {' '.join(former)}" in capsys.readouterr().out


@pytest.mark.parametrize("now", [["store", "ingest"], ["store", "part"], ["rules", "settings"]])
def test_a_command_has_its_place_below_another(now: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*now, "--help"]) == 0
    assert f"Usage: traceanalyzer {' '.join(now)}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "command"),
    [("report", "diagnose"), ("compare", "diff"), ("summary", "diagnose"), ("kernels", "top"), ("Kernel", "top")],
)
def test_a_word_that_people_try_has_a_hint(word: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word, "run"]) == 2
    assert f"hint: `traceanalyzer {command}" in capsys.readouterr().err


def test_every_hint_names_a_command_and_options_that_there_are() -> None:
    for words in SYNONYMS.values():
        first, *more = words.split()
        command = cli.get_command(None, first)
        assert command is not None, words
        if isinstance(command, click.Group) and more:
            assert command.get_command(click.Context(command), more[0]) is not None, words
            continue
        known = {name for option in command.params for name in option.opts}
        assert {word for word in more if word.startswith("-")} <= known, words


def test_top_takes_the_word_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "kernel"]) == 2
    assert "Missing argument 'RUN'" in capsys.readouterr().err


def test_a_report_is_no_pdf(stored: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", *stored, "-o", str(tmp_path / "report.pdf")]) == 2
    assert "this command writes no pdf" in capsys.readouterr().err


@pytest.mark.check
def test_a_command_that_fails_says_why_also_when_quiet(stored: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", *stored, "--fail-on", "low", "-q", "--brief"]) == 1
    assert "failed on low or worse" in capsys.readouterr().err


@pytest.mark.check
def test_a_diagnosis_in_a_debugger_is_one_line(stored: list[str]) -> None:
    run, _, store = stored
    with traceanalyzer.open(run, store=store) as opened:
        assert len(repr(opened.diagnose())) < 200


@pytest.mark.parametrize("command", ["diagnose", "diff"])
def test_each_option_of_a_long_help_stands_in_a_section(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    sections = capsys.readouterr().out.split("\n\n")
    titles = ["What is analyzed", "The report", "Rules and settings", "Exit status", "Where and how it runs"]
    named = dict.fromkeys(f"{title}:" for title in titles)
    assert [section.split("\n")[0] for section in sections if section.split("\n")[0] in named] == list(named)
    first, *words = sections[-1].split()
    # No option but that for help is left.
    assert first == "Other:" and words[-6:] == ["--help", "Show", "this", "message", "and", "exit."] and len(words) <= 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["top", "RUN"], "is a run; what to list comes first, as in `top kernels RUN`"),
        (["top", "foo"], "Invalid value for 'WHAT': 'foo' is not one of"),
        (["record", "foo"], "Invalid value for 'PROFILER': 'foo' is not one of"),
    ],
)
def test_a_word_that_is_none_of_a_list_is_an_error_that_names_the_list(
    arguments: list[str], said: str, stored: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([stored[0] if word == "RUN" else word for word in arguments]) == 2
    assert said in capsys.readouterr().err


def test_the_help_names_every_choice_that_stands_for_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    for command, choices in (("record", PROFILERS), ("top", WHAT)):
        assert main([command, "--help"]) == 0
        said = set(re.findall(r"\w+", capsys.readouterr().out))
        assert set(choices) <= said
