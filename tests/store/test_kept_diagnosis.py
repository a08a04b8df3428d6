"""A diagnosis is made once: as long as nothing that it depends on changes, it is read from the store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from traceanalyzer.diagnosis import LIMIT_REACHED, Diagnosis, Outcome
from traceanalyzer.pipeline.deriving import keep_diagnosis, kept_diagnosis
from traceanalyzer.rules.diagnosis import diagnosing
from traceanalyzer.run import Run, open_run
from traceanalyzer.settings.settings import NO_SETTINGS, read_settings
from traceanalyzer.store.store import Store
from tracesim import simulate

SCENARIO = {"steps": 4, "kernels": 10, "loader_us": 3000}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    simulate(SCENARIO).write_kineto(folder / "rank0.json")
    return folder


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """The runs whose diagnosis was made, not read, since the test began."""
    runs: list[Run] = []
    make = Run._diagnose

    def counted(run: Run, *arguments: object) -> Diagnosis:
        runs.append(run)
        return make(run, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Run, "_diagnose", counted)
    return runs


def answers(trace: Path) -> list[Path]:
    return sorted((trace / ".traceanalyzer" / "answers").iterdir())


def test_the_second_diagnosis_is_read_and_equal(trace: Path, made: list[Run]) -> None:
    with open_run(trace) as run:
        first = run.diagnose()
    with open_run(trace) as run:
        assert run.diagnose() == first
    assert len(made) == 1
    assert any(finding.evidence for finding in first.findings)


def of_device(run: Run, device: str) -> Run:
    return replace(run, found=replace(run.found, request=replace(run.found.request, device=device)))


@pytest.mark.check
def test_what_it_depends_on_makes_it_again(trace: Path, made: list[Run], tmp_path: Path) -> None:
    rule = tmp_path / "launch-bound.yaml"
    rule.write_text((Path(diagnosing.__file__).parents[3] / "rules" / "launching" / "launch-bound.yaml").read_text())
    settings = tmp_path / "other" / "traceanalyzer.toml"
    settings.parent.mkdir()
    settings.write_text('[rules.launch-bound]\nenabled = false\nreason = "known"\n')
    questions: list[Callable[[Run], Diagnosis]] = [
        lambda run: run.diagnose(),
        lambda run: run.diagnose(params={"dataloader-bound.min_share": 0.5}),
        lambda run: run.diagnose([rule]),
        lambda run: run.diagnose(settings=read_settings(settings)),
        lambda run: of_device(run, "NVIDIA H100 80GB HBM3:132").diagnose(settings=NO_SETTINGS),
    ]
    for count, ask in enumerate(questions, 1):
        for _ in range(2):
            with open_run(trace) as run:
                ask(run)
        assert len(made) == count
    rule.write_text(rule.read_text() + "\n# a change\n")
    with open_run(trace) as run:
        run.diagnose([rule])
    assert len(made) == len(questions) + 1


@pytest.mark.check
def test_a_changed_trace_is_diagnosed_again(trace: Path, made: list[Run]) -> None:
    with open_run(trace) as run:
        before = run.diagnose()
    simulate({**SCENARIO, "loader_us": 9000}).write_kineto(trace / "rank0.json")
    with open_run(trace) as run:
        assert run.diagnose().ledgers != before.ledgers
    assert len(made) == 2


@pytest.mark.check
@pytest.mark.parametrize("harm", ["changed", "swapped", "emptied", "linked"])
def test_an_answer_that_somebody_touched_is_not_believed(trace: Path, made: list[Run], harm: str) -> None:
    with open_run(trace) as run:
        first = run.diagnose()
        run.diagnose(params={"dataloader-bound.min_share": 0.5})
    for file in answers(trace):
        content = file.read_bytes()
        if harm == "changed":
            file.write_bytes(content.replace(b"dataloader-bound", b"dataloader-fine!") + b" ")
        elif harm == "emptied":
            file.write_bytes(b"")
        elif harm == "linked":
            elsewhere = trace.parent / file.name
            file.rename(elsewhere)
            file.symlink_to(elsewhere)
    if harm == "swapped":
        files = answers(trace)
        contents = [file.read_bytes() for file in files]
        for file, content in zip(files, contents[1:] + contents[:1], strict=True):
            file.write_bytes(content)
    with open_run(trace) as run:
        assert run.diagnose() == first
    assert len(made) == 3


@pytest.mark.check
def test_a_diagnosis_that_a_limit_cut_is_made_again(trace: Path, made: list[Run]) -> None:
    with open_run(trace) as run:
        whole = run.diagnose()
        store = Store(run.store)
    cut = Outcome("launch-bound", "x", "abstained", reason=LIMIT_REACHED)
    keep_diagnosis(store, "cut", replace(whole, outcomes=(*whole.outcomes, cut)))
    keep_diagnosis(store, "whole", whole)
    assert kept_diagnosis(store, "cut") is None
    assert kept_diagnosis(store, "whole") == whole


@pytest.mark.check
def test_old_answers_make_room(trace: Path) -> None:
    with open_run(trace) as run:
        store = Store(run.store)
    for number in range(40):
        store.answers.keep(f"question {number}", str(number).encode())
    assert len(answers(trace)) == 32
    assert store.answers.get("question 39") == b"39"


@pytest.mark.check
def test_a_warm_diagnosis_starts_neither_duckdb_nor_arrow(trace: Path) -> None:
    asked = [sys.executable, "-m", "traceanalyzer", "diagnose", str(trace)]
    cold = subprocess.run(asked, capture_output=True, text=True, check=True)
    program = (
        "import sys; from traceanalyzer.cli import main; main();"
        "print(sorted({'duckdb', 'pyarrow', 'numpy', 'yaml'} & set(sys.modules)), file=sys.stderr)"
    )
    warm = subprocess.run([sys.executable, "-c", program, *asked[3:]], capture_output=True, text=True, check=True)
    assert warm.stdout == cold.stdout
    assert warm.stderr == "[]\n"
