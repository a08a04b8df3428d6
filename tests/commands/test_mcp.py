"""The tools for assistants: what the commands say, of runs in the served folders alone, in answers of bounded size."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from traceanalyzer.cli import main
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report import formats
from traceanalyzer.run import open_run
from traceanalyzer.serving.answers import MOST_CHARACTERS, Answers, bounded, served_folders

pytestmark = pytest.mark.check  # what is broken or hostile takes minutes

SLOW = "slow_loader"


@pytest.fixture(scope="module")
def served(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run to serve, beside a run that is not served."""
    above = tmp_path_factory.mktemp("data")
    for folder, sample in (("served", SLOW), ("private", "healthy")):
        shutil.copytree(
            root / "sample_traces" / sample, above / folder / sample, ignore=shutil.ignore_patterns(".trace*")
        )
    return above / "served"


@pytest.fixture(scope="module")
def answers(served: Path) -> Answers:
    """The answers about the served folder."""
    return Answers(served_folders([served]))


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_diagnosis_is_the_report_and_writes_nothing_beside_the_run(answers: Answers, served: Path) -> None:
    before = contents(served.parent)
    told = answers.diagnose(SLOW)
    assert contents(served.parent) == before
    with open_run(served / SLOW) as run:
        stream = io.StringIO()
        formats.write_diagnosis(run.diagnose(), "markdown", stream)
    shutil.rmtree(served / SLOW / ".traceanalyzer")
    assert told == stream.getvalue()
    assert "up to" in told


def test_a_json_diagnosis_is_the_report_for_programs(answers: Answers, root: Path) -> None:
    import jsonschema

    document = json.loads(answers.diagnose(SLOW, as_json=True))
    jsonschema.validate(document, json.loads((root / "docs" / "diagnosis.schema.json").read_text()))
    assert document["findings"][0]["rule"] == "dataloader-bound"
    assert any(outcome["state"] == "abstained" for outcome in document["outcomes"])


def test_the_store_lies_in_the_users_cache(answers: Answers, served: Path) -> None:
    with answers._opened(SLOW) as (run, _):
        assert run.store.is_relative_to(os.environ["XDG_CACHE_HOME"])
    assert not (served / SLOW / ".traceanalyzer").exists()


def test_top_and_rules_say_what_the_commands_say(
    answers: Answers, served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", "kernels", str(served / SLOW), "--store", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(answers.top(SLOW, "kernels")) == json.loads(capsys.readouterr().out)
    assert "kernels_by_step" in answers.metrics()
    assert "idle_ns" in answers.metrics("kernels_by_step")
    assert "dataloader-bound" in answers.rules()
    assert "min_share" in answers.rules("dataloader-bound")
    assert "fires" in answers.rules("dataloader-bound", SLOW)


def test_sql_answers_rows_and_says_where_there_are_more(answers: Answers) -> None:
    query = "SELECT step, count(*) AS n FROM gpu_op_steps GROUP BY step ORDER BY step"
    whole = json.loads(answers.sql(SLOW, query))
    assert (whole["columns"], whole["is_complete"]) == (["step", "n"], True)
    first = json.loads(answers.sql(SLOW, query, limit=2))
    assert (first["rows"], first["is_complete"], first["row_count"]) == (whole["rows"][:2], False, 2)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('{private}')",
        "SELECT * FROM '{private}'",
        "SELECT * FROM glob('{folder}/*')",
        "COPY (SELECT 1) TO '{folder}/x.csv'",
        "ATTACH '{folder}/x.db'",
        "SET enable_external_access = true",
        "SELECT 1; SELECT 2",
        "CREATE TABLE t AS SELECT 1",
        "INSTALL httpfs",
    ],
)
def test_sql_reads_no_file_and_changes_nothing(query: str, answers: Answers, served: Path) -> None:
    private = next((served.parent / "private").rglob("*.json.gz"))
    before = contents(served.parent)
    with pytest.raises(TraceAnalyzerError):
        answers.sql(SLOW, query.format(private=private, folder=served))
    assert contents(served.parent) == before


def test_sql_without_end_ends(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    from traceanalyzer.rules.evaluation import sandbox

    monkeypatch.setattr(sandbox, "TOTAL_TIMEOUT_S", 0.2)
    with pytest.raises(TraceAnalyzerError, match="limit reached"):
        answers.sql(SLOW, "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT range, repeat('x', 500) AS name FROM range(1000)",
        "SELECT repeat('x', 10000000) AS name",
        "SELECT list_transform(range(20), lambda i: repeat('ä', 100000)) AS names",
    ],
)
def test_an_answer_of_sql_isbounded_and_still_json(query: str, answers: Answers) -> None:
    told = answers.sql(SLOW, query, limit=1000)
    assert len(told) <= MOST_CHARACTERS
    document = json.loads(told)
    assert document["row_count"] == len(document["rows"])
    assert not document["is_complete"] or "cut: " in told


def test_a_long_text_is_cut_behind_a_line_and_says_so() -> None:
    text = "\n".join(f"line {number}" for number in range(MOST_CHARACTERS))
    cut = bounded(text)
    assert len(cut) <= MOST_CHARACTERS
    body, _, last = cut.rpartition("\n\n")
    assert text.startswith(f"{body}\n")
    assert f"{len(text):,} characters" in last
    assert bounded("short") == "short"
    assert len(bounded("x" * (MOST_CHARACTERS + 1))) <= MOST_CHARACTERS


@pytest.fixture
def traps(served: Path, tmp_path: Path) -> Iterator[Path]:
    """Links in the served folder: to a run outside, and runs with a file, a folder or a log from outside."""
    private = served.parent / "private" / "healthy"
    (served / "linked_run").symlink_to(private)
    (served / "linked_file").mkdir()
    shutil.copy(next((served / SLOW).glob("*.json.gz")), served / "linked_file" / "rank0.json.gz")
    (served / "linked_file" / "rank1.json.gz").symlink_to(next(private.glob("*.json.gz")))
    (served / "linked_folder").mkdir()
    (served / "linked_folder" / "part").symlink_to(private)
    (served / "linked_deep" / "part").mkdir(parents=True)
    (served / "linked_deep" / "part" / "rank0.json.gz").symlink_to(next(private.glob("*.json.gz")))
    (served / "linked_log.sqlite").write_bytes(b"SQLite format 3\0")
    (served / "linked_log.sqlite-wal").symlink_to(next(private.glob("*.json.gz")))
    yield served
    for trap in served.glob("linked_*"):
        shutil.rmtree(trap) if trap.is_dir() and not trap.is_symlink() else trap.unlink()


@pytest.mark.parametrize(
    "name",
    [
        "linked_run",
        "linked_file",
        "linked_folder",
        "linked_deep",
        "linked_log.sqlite",
        "../private/healthy",
        "slow_loader/../../private/healthy",
        "{above}/private/healthy",
        "/",
        "/etc/passwd",
        "..",
        "absent",
        "slow_loader\0",
    ],
)
def test_nothing_outside_the_served_folders_is_read(name: str, traps: Path) -> None:
    answers = Answers(served_folders([traps]))
    with pytest.raises(TraceAnalyzerError) as caught:
        answers.diagnose(name.format(above=traps.parent))
    assert caught.value.hint is not None


def test_links_within_the_served_folders_are_followed(served: Path, tmp_path: Path) -> None:
    link = tmp_path / "way_in"
    link.symlink_to(served)
    answers = Answers(served_folders([link]))
    assert "dataloader-bound" in answers.diagnose(str(link / SLOW))


def test_folders_that_are_none_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", str(tmp_path / "absent")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(["mcp"]) == 2


def test_without_the_extra_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-packages" not in entry])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    for name in [name for name in sys.modules if name.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["mcp", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "error: mcp: the extra `mcp` is not installed\nhint: pip install 'gpu-traceanalyzer[mcp]'\n"
    )


def asked(served: Path, question: Callable[[Client], Coroutine[Any, Any, None]], errors: Path) -> None:
    """Start the program as a client does, ask it something over stdio, and see it end without a word of its own."""
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "traceanalyzer", "mcp", str(served)],
        env={
            name: os.environ[name] for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "PYTHONPATH") if name in os.environ
        },
    )

    async def session() -> None:
        from mcp import stdio_client

        with errors.open("w") as log:
            async with Client(stdio_client(program, errlog=log)) as client:
                await question(client)

    asyncio.run(session())
    assert errors.read_text() == ""


def test_a_real_client_gets_the_same_answers_over_stdio(served: Path, answers: Answers, tmp_path: Path) -> None:
    async def question(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"runs", "diagnose", "diff", "top", "sql", "metrics", "rules"}
        for tool in tools.values():
            assert tool.description
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
            told = await client.call_tool(tool.name, wanted[tool.name])
            assert not told.is_error, told.content
            assert text(told) == getattr(answers, tool.name)(**wanted[tool.name])

    wanted: dict[str, dict[str, Any]] = {
        "runs": {},
        "diagnose": {"run": SLOW, "verbose": True},
        "diff": {"base": [SLOW], "new": [SLOW]},
        "top": {"run": SLOW, "what": "operators", "by": "idle"},
        "sql": {"run": SLOW, "query": "SELECT trace, bucket, dur_ns FROM time_ledger ORDER BY ALL"},
        "metrics": {"name": "time_ledger"},
        "rules": {"rule": "dataloader-bound", "run": SLOW},
    }
    asked(served, question, tmp_path / "errors.txt")


def test_a_run_beside_itself_is_the_same(answers: Answers) -> None:
    document = json.loads(answers.diff([SLOW], [SLOW], as_json=True))
    assert document["delta_ns"] == 0 and document["base_ns"] == document["new_ns"] > 0
    assert document["ledger"] and all(row["delta_ns"] == 0 for row in document["ledger"])
    with pytest.raises(TraceAnalyzerError, match="no run was given"):
        answers.diff([SLOW], [])


def test_the_recordings_of_a_folder_are_captures_of_a_diff(root: Path) -> None:
    answers = Answers(served_folders([root / "tests" / "data" / "device"]))
    document = json.loads(answers.diff(["cycles"], ["cycles"], as_json=True))
    assert [len(document[side]) for side in ("base", "new")] == [3, 3]
    assert document["delta_ns"] == 0


def test_a_real_client_gets_mistakes_as_the_command_words_them(served: Path, tmp_path: Path) -> None:
    (served / "torn").mkdir(exist_ok=True)
    (served / "torn" / "rank0.json.gz").write_bytes(gzip.compress(b"not a trace"))

    async def question(client: Client) -> None:
        for tool, arguments, words in (
            ("diagnose", {"run": "absent"}, "no such run in the folders that are served"),
            ("diagnose", {"run": "torn"}, "no traces in this folder"),
            ("sql", {"run": SLOW, "query": "SELECT * FROM gpu_opz"}, "gpu_opz does not exist"),
            ("top", {"run": SLOW, "what": "kernles"}, "did you mean 'kernels'?"),
            ("metrics", {"name": "device_tim"}, "did you mean 'device_time'?"),
            ("rules", {"rule": "no-such-rule"}, "no such rule"),
        ):
            told = await client.call_tool(tool, arguments)
            assert told.is_error
            assert words in text(told)
            assert "Traceback" not in text(told)

    asked(served, question, tmp_path / "errors.txt")


def text(told: Any) -> str:
    (content,) = told.content
    return str(content.text)
