"""What assistants, notebooks and pipelines get of a hostile run: no text raw, no markup of a stranger, no secret."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hta_crosscheck import crosscheck
from test_hostile_sweep import NAME, RAW, SECRET, STEERING, run_folder  # noqa: F401
from tiers import needed

import traceanalyzer as ta
from traceanalyzer.cli import main
from traceanalyzer.serving.answers import MOST_CHARACTERS, Answers, served_folders
from traceanalyzer.serving.server import TOOLS, ToolFailedError, explained

pytestmark = pytest.mark.check  # what is broken or hostile takes minutes

MARKUP = "<script>alert(1)</script>"
QUESTIONS: dict[str, Callable[[Answers, str], str]] = {
    "runs": lambda answers, run: answers.runs(),
    "diagnose": lambda answers, run: answers.diagnose(run, verbose=True),
    "diagnose as JSON": lambda answers, run: answers.diagnose(run, as_json=True),
    "diff": lambda answers, run: answers.diff([run], [run], verbose=True),
    "top": lambda answers, run: answers.top(run, "kernels"),
    "sql": lambda answers, run: answers.sql(run, "FROM host_slices"),
    "the name of a column": lambda answers, run: answers.sql(run, f'SELECT 1 AS "{NAME}"'),
    "a name that is no number": lambda answers, run: answers.sql(run, "SELECT CAST(name AS INTEGER) FROM host_slices"),
    "a query of a stranger": lambda answers, run: answers.sql(run, f'SELECT "{STEERING}" FROM host_slices'),
    "a long error": lambda answers, run: answers.sql(run, "SELECT error(repeat(name, 9000)) FROM host_slices"),
    "no such rule": lambda answers, run: answers.rules(NAME, run),
    "no such metric": lambda answers, run: answers.metrics(NAME),
    "no such top": lambda answers, run: answers.top(run, NAME),
    "no such run": lambda answers, run: answers.diagnose(f"{run}/{NAME}"),
}


def assert_harmless(shown: str) -> None:
    found = RAW.search(shown)
    assert found is None, repr(shown[max(0, found.start() - 200) :][:400])
    assert SECRET not in shown, shown[max(0, shown.index(SECRET) - 200) :][:400]
    assert not any(line.startswith("error: forged") for line in shown.splitlines())


class Asked(Answers):
    """Answers to one of the questions by its name."""

    def ask(self, question: str, run: str) -> str:
        return QUESTIONS[question](self, run)


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_answer_to_an_assistant_has_a_text_raw(run_folder: Path, question: str) -> None:  # noqa: F811
    answers = Asked(served_folders([run_folder.parent]))
    try:
        answer = explained("ask", answers, {"question": question, "run": run_folder.name})
    except ToolFailedError as error:
        answer = str(error)
    assert answer
    assert_harmless(answer)
    assert len(answer) <= MOST_CHARACTERS


def test_every_tool_is_asked() -> None:
    assert {question.split()[0] for question in QUESTIONS} >= set(TOOLS) - {"metrics", "rules"}


NOTEBOOK: dict[str, Callable[[ta.Run, ta.Diagnosis], str]] = {
    "run": lambda run, diagnosis: run._repr_html_(),
    "diagnosis": lambda run, diagnosis: diagnosis._repr_html_(),
    "diff": lambda run, diagnosis: ta.diff(str(run.root), str(run.root))._repr_html_(),
    "slices": lambda run, diagnosis: run.table("host_slices")._repr_html_(),
    "threads": lambda run, diagnosis: run.table("threads")._repr_html_(),
    "what if": lambda run, diagnosis: run.whatif("host.python")._repr_html_(),
    "ledger": lambda run, diagnosis: ta.charts.ledger(diagnosis)._repr_svg_(),
}


@pytest.mark.parametrize("shown", NOTEBOOK)
def test_nothing_in_a_notebook_is_raw_or_markup_of_a_stranger(run_folder: Path, shown: str) -> None:  # noqa: F811
    with ta.open_run(run_folder) as run:
        markup = NOTEBOOK[shown](run, run.diagnose())
    assert MARKUP[:7] not in markup
    assert_harmless(markup)


@pytest.mark.parametrize("format_", ["junit", "sarif", "html", "markdown"])
def test_no_report_for_pipelines_and_pages_is_raw(run_folder: Path, tmp_path: Path, format_: str) -> None:  # noqa: F811
    out, said = io.StringIO(), io.StringIO()
    target = tmp_path / "report"
    with redirect_stdout(out), redirect_stderr(said):
        assert main(["diagnose", str(run_folder), "--format", format_, "-o", str(target)]) in (0, 3)
    text = target.read_text(encoding="utf-8")
    assert_harmless(text + out.getvalue() + said.getvalue())
    assert "script>alert" not in text.replace("&lt;script&gt;alert", "").replace("\\<script\\>", "")
    if format_ == "junit":
        ElementTree.fromstring(text)
    if format_ == "sarif":
        json.loads(text)


MORE_COMMANDS = {
    "top kernels": ["top", "kernels", "RUN"],
    "top operators": ["top", "operators", "RUN"],
    "a part": ["part", "RUN", "--index", "0", "--of", "1", "--store", "STORE"],
    "diff": ["diff", "RUN", "RUN", "-v"],
    "diff as Markdown": ["diff", "RUN", "RUN", "--format", "markdown"],
    "diff as JSON": ["diff", "RUN", "RUN", "--format", "json"],
    "a page of diff": ["diff", "RUN", "RUN", "--format", "html", "-o", "FILE"],
    "memory": ["memory", "RUN"],
    "settings": ["config", "show", "RUN"],
}


@pytest.mark.parametrize("command", MORE_COMMANDS)
def test_no_other_command_has_a_text_raw(run_folder: Path, tmp_path: Path, command: str) -> None:  # noqa: F811
    places = {"RUN": str(run_folder), "STORE": str(tmp_path / "store"), "FILE": str(tmp_path / "file")}
    out, said = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(said):
        code = main([places.get(word, word) for word in MORE_COMMANDS[command]])
    file = tmp_path / "file"
    shown = out.getvalue() + said.getvalue() + (file.read_text(encoding="utf-8") if file.exists() else "")
    assert code in (0, 1, 2, 3), shown
    assert "internal error" not in shown, shown
    assert shown
    assert_harmless(shown)
    assert file.exists() is ("FILE" in MORE_COMMANDS[command])
    assert not file.exists() or MARKUP not in shown


def test_crosscheck_takes_streams_that_are_no_numbers(tmp_path: Path) -> None:
    needed("hta")
    odd = '{"device": 0, "stream": "odd one", "correlation": 1}'
    launched = '{"device": 0, "stream": 7, "correlation": 1}'
    texts = [
        f'{{"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "ts": 30, "dur": 1, "args": {odd}}}',
        f'{{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 50, "args": {odd}}}',
        f'{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 5, "args": {launched}}}',
    ]
    path = tmp_path / "trace.json"
    path.write_text(f'{{"schemaVersion": 1, "traceEvents": [{",".join(texts)}]}}')
    with ta.open(path, store=tmp_path / "store") as run:
        assert crosscheck(run)
