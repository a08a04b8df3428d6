"""What the command line does where its streams are closed, full, or cannot show a character."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

FULL_DISK = """
import resource, signal, sys
import traceanalyzer.attribution, traceanalyzer.run, traceanalyzer.query.metric_files
from traceanalyzer.cli import main

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
sys.exit(main(sys.argv[1:]))
"""
ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}


@pytest.fixture(scope="module")
def stored(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A run that is ingested, and its store, as arguments."""
    run, store = root / "sample_traces" / "slow_loader", tmp_path_factory.mktemp("store")
    arguments = [str(run), "--store", str(store)]
    assert asked(["diagnose", *arguments]).returncode == 0
    return arguments


def asked(arguments: list[str], redirected: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a shell with redirections."""
    command = ["sh", "-c", f'"$@" {redirected}', "sh", sys.executable, "-m", "traceanalyzer", *arguments]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", check=False, env={**os.environ, **environment}
    )


@pytest.mark.check
@pytest.mark.parametrize("layout", ["terminal", "markdown", "json"])
def test_a_reader_that_left_is_no_finding(stored: list[str], layout: str) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "traceanalyzer", "diagnose", *stored, "--format", layout, "--fail-on", "low"]
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_error_that_nobody_reads_is_no_finding() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "traceanalyzer", "diagnose", "absent"], stdout=pipe, stderr=pipe, check=False
        )
    assert done.returncode == 141


@pytest.mark.check
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(stored: list[str], closed: str, tmp_path: Path) -> None:
    done = asked(["diagnose", *stored, "-o", str(tmp_path / "report.txt")], closed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "report.txt").read_text(encoding="utf-8").startswith("slow_loader")
    assert asked(["diagnose", *stored], closed).returncode == 0


@pytest.mark.check
@pytest.mark.parametrize("command", ["diagnose", "info"])
def test_an_ascii_locale_gets_the_whole_report(stored: list[str], command: str) -> None:
    plain, ascii_only = asked([command, *stored]), asked([command, *stored], **ASCII)
    assert (ascii_only.returncode, ascii_only.stderr) == (0, "")
    assert ascii_only.stdout.isascii()
    signs = list(zip(plain.stdout, ascii_only.stdout, strict=True))
    assert all(shown == sign for sign, shown in signs if sign.isascii())
    assert {sign for sign, shown in signs if not sign.isascii() and shown == "?"} == set()


def test_a_name_that_the_locale_cannot_read_is_said(root: Path, tmp_path: Path) -> None:
    (tmp_path / "rün").symlink_to(root / "sample_traces" / "slow_loader")
    done = asked(["info", str(tmp_path / "rün"), "--store", str(tmp_path / "store")], **ASCII)
    assert done.returncode == 2
    assert "the name is not UTF-8" in done.stderr
    assert "PYTHONUTF8=1" in done.stderr


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("command", "before", "after"),
    [
        pytest.param("diagnose", [], ["-o", "report.txt"], marks=pytest.mark.check),
        ("sql", [], ["FROM range(100000)", "--format", "parquet", "-o", "rows.parquet"]),
        ("metrics", ["export"], ["tables", "launches"]),
    ],
)
def test_a_full_disk_names_what_cannot_be_written(
    stored: list[str], command: str, before: list[str], after: list[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, command, *before, *stored, *after],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    name = next(word for word in after if word.partition(".")[0] in ("report", "rows", "tables"))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"error: {name}: ")
    assert "cannot be written: File too large\nhint: make room there" in done.stderr
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.check
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_behind_standard_output_is_an_error(stored: list[str]) -> None:
    done = asked(["diagnose", *stored], "> /dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith("error: standard output: cannot be written: No space left on device")
    assert asked(["diagnose", "absent"], "2> /dev/full").returncode == 2


@pytest.mark.check
def test_a_pipe_or_an_open_file_is_written_and_not_replaced(stored: list[str], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = asked(["export", "xlsx", *stored, "-o", str(pipe)], f"& cat {pipe} >{tmp_path / 'book.xlsx'}; wait $!")
    assert (done.returncode, done.stderr) == (0, "")
    assert pipe.is_fifo()
    assert (tmp_path / "book.xlsx").read_bytes().startswith(b"PK")
    done = asked(["diagnose", *stored, "--format", "json", "-o", "/dev/fd/1"])
    assert (done.returncode, done.stdout[:1]) == (0, "{")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book.xlsx", "pipe"]


@pytest.mark.check
@pytest.mark.parametrize("command", [["diagnose"], ["export", "perfetto"]])
def test_a_folder_in_place_of_a_file_is_one_sentence(stored: list[str], tmp_path: Path, command: list[str]) -> None:
    done = asked([*command, *stored, "-o", str(tmp_path)])
    assert (done.returncode, done.stderr) == (2, f"error: {tmp_path}: is a folder\nhint: name a file in it\n")


@pytest.mark.check
def test_a_screen_of_no_columns_is_as_narrow_as_it_may_be(stored: list[str]) -> None:
    done = asked(["diagnose", *stored], COLUMNS="0")
    assert done.returncode == 0
    assert done.stdout == asked(["diagnose", *stored], COLUMNS="1").stdout != ""


@pytest.fixture
def prompt(stored: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The prompt of SQL in a terminal of its own."""
    controlling, terminal = os.openpty()
    command = [sys.executable, "-m", "traceanalyzer", "sql", *stored]
    shell = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    yield shell, controlling
    shell.kill()
    shell.wait()
    os.close(controlling)


@pytest.mark.check
def test_an_interrupt_at_the_prompt_cancels_the_statement_and_a_request_to_end_ends_it(
    prompt: tuple[subprocess.Popen[bytes], int],
) -> None:
    shell, controlling = prompt

    def await_text(expected: str) -> None:
        text = ""
        while expected not in text:
            assert select.select([controlling], [], [], 20)[0], text
            text += os.read(controlling, 4096).decode()

    await_text("sql> ")
    os.write(controlling, b"SELECT sum(hash(a.range + b.range) % 7) FROM range(3000000) a, range(3000000) b;\n")
    await_text("\n")
    time.sleep(1)
    shell.send_signal(signal.SIGINT)
    await_text("interrupted")
    time.sleep(1)  # longer than a command has left that ends
    os.write(controlling, b"SELECT 40 + 2 AS answer;\n")
    await_text("42")
    shell.terminate()
    assert shell.wait(timeout=20) == 128 + signal.SIGTERM
