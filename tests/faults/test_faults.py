"""Faults of the machine: signals, full disks, kills and crowds leave whole results or none, and nothing else behind."""

from __future__ import annotations

import ctypes
import gzip
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from trace_event_tables import events, slice_text

from traceanalyzer.pipeline.finding import STORE_NAME

# Runs a command again and again, each time in a process of its own, in which the n-th opening for writing, making or
# renaming of a file fails as on a full disk; after each, it runs soundly. A line for each: exit codes and texts.
FAILING = """
import errno, io, json, os, shutil, sys
from contextlib import redirect_stderr, redirect_stdout
import traceanalyzer.attribution, traceanalyzer.query.metric_files, traceanalyzer.rules, traceanalyzer.run
from traceanalyzer.cli import main

folder, store, out, *arguments = sys.argv[1:]

def watch(failing):
    calls = 0
    def fail(event, arguments):
        nonlocal calls
        if event not in ("open", "os.mkdir", "os.rename", "os.chmod") or not str(arguments[0]).startswith(folder):
            return
        if event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        calls += 1
        if calls == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))
    sys.addaudithook(fail)
    return lambda: calls >= failing

def in_child(failing):
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        reached = watch(failing) if failing else lambda: True
        said = io.StringIO()
        with redirect_stderr(said), redirect_stdout(said):
            code = main(arguments)
        with os.fdopen(writing, "w") as pipe:
            scratch = os.listdir(store + "/scratch") if os.path.isdir(store + "/scratch") else []
            pipe.write(json.dumps([code, said.getvalue(), reached(), os.listdir(out), scratch]))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = json.loads(pipe.read() or "null")
    os.waitpid(child, 0)
    return answer

failing = 0
while True:
    failing += 1
    for left in (store, out):
        shutil.rmtree(left, ignore_errors=True)
    os.mkdir(out)
    faulty = in_child(failing)
    sound = in_child(0)
    if sound is None or not os.path.exists(os.path.join(out, "device_time.csv")):
        sys.exit(f"no sound result after {failing}: {sound}")
    with open(os.path.join(out, "device_time.csv")) as rows:
        sound.append(rows.read())
    print(json.dumps([faulty, sound]), flush=True)
    if not faulty or not faulty[2]:
        break
"""
BUSY = """
import sys, time
import {module}
from traceanalyzer import __main__

def busy(*_, **__):
    print("busy", flush=True)
    {work}

{module}.{function} = busy
sys.argv = ["traceanalyzer", *sys.argv[1:]]
__main__.start()
"""
SPIN = "import numpy; a = numpy.arange(10_000_000)[::-1] % 7919\n    while True: numpy.sort(a)"
QUERY = "import duckdb; duckdb.sql('SELECT count(*) FROM range(10_000_000_000) a WHERE range % 3 = 1').fetchall()"
# A busy machine adds to the second that is promised.
PATIENCE_S = 20


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    args = '{"device": 0, "stream": 7, "correlation": 1}'
    kernels = [slice_text(f"k{i}", ts=10 * i, cat='"kernel"', args=args) for i in range(200)]
    (folder / "rank0.json").write_text(events(*kernels))
    return folder


def command(*arguments: str | Path, program: str | None = None, **environment: str) -> list[str]:
    start = ["-m", "traceanalyzer"] if program is None else ["-c", program]
    return [sys.executable, *start, *map(str, arguments)]


def _heed_signals() -> None:
    """Undo what the tests were started with, as below nohup: a command leaves ignored signals ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def started(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a command that heeds signals; it ends with the block at the latest."""
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_signals
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def asked(
    *arguments: str | Path, program: str | None = None, patience_s: int = 240, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments, program=program),
        capture_output=True,
        text=True,
        check=False,
        timeout=patience_s,
        env={**os.environ, **environment},
    )


def left_in(folder: Path) -> list[str]:
    """Return what a command left behind in a run's folder and its store that is no result."""
    scratch = folder / STORE_NAME / "scratch"
    odd = [path.name for path in folder.iterdir() if path.name not in ("rank0.json", STORE_NAME, "report.json")]
    return odd + ([path.name for path in scratch.iterdir()] if scratch.is_dir() else [])


PHASES = {
    "reading": ("traceanalyzer.ingest.trace_events.stream", "inflated_up_to_damage", "time.sleep(600)"),
    "ingesting": ("traceanalyzer.pipeline.ingesting", "ingest", SPIN),
    "linking": ("traceanalyzer.ingest.trace_events.assemble", "sql", QUERY),
    "attributing": ("traceanalyzer.query.engine", "compute_derived", SPIN),
    "in DuckDB": ("traceanalyzer.query.engine", "compute_derived", QUERY),
    "writing": ("traceanalyzer.report.formats", "write_diagnosis", SPIN),
}


@pytest.mark.check
@pytest.mark.parametrize(
    ("phase", "number"),
    [*((phase, signal.SIGINT) for phase in PHASES), ("ingesting", signal.SIGTERM), ("ingesting", signal.SIGHUP)],
)
def test_a_signal_ends_a_command_in_any_phase_and_nothing_is_left(
    run_folder: Path, phase: str, number: signal.Signals
) -> None:
    module, function, work = PHASES[phase]
    if phase == "reading":
        (run_folder / "rank0.json").write_bytes(gzip.compress((run_folder / "rank0.json").read_bytes()))
    program = BUSY.format(module=module, function=function, work=work)
    arguments = command("diagnose", run_folder, "--format", "json", "-o", run_folder / "report.json", program=program)
    with started(arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number
    assert said == "interrupted\n"
    assert left_in(run_folder) == []
    assert not (run_folder / "report.json").exists()


@pytest.mark.check
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_nsys_too(tmp_path: Path, number: signal.Signals) -> None:
    report, programs, pids = tmp_path / "run.nsys-rep", tmp_path / "bin", tmp_path / "pids"
    report.write_bytes(b"binary")
    programs.mkdir()
    nsys = programs / "nsys"
    nsys.write_text(f"#!/bin/sh\nsleep 300 &\necho $$ $! > {pids}.new\nmv {pids}.new {pids}\nwait\n")
    nsys.chmod(0o755)
    _check_that_it_ends_with(
        command("info", report, "--store", tmp_path / "store"),
        {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        number,
        pids,
    )


@pytest.mark.check
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_reader_of_nsight_compute_too(
    run_folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    modules, pids = tmp_path / "modules", tmp_path / "pids"
    modules.mkdir()
    (run_folder / "kernels.ncu-rep").write_bytes(b"NVR\0")
    (modules / "ncu_report.py").write_text(
        "import os, pathlib, time\n\n\ndef load_report(path):\n"
        f"    pathlib.Path({str(pids)!r} + '.new').write_text(str(os.getpid()))\n"
        f"    os.rename({str(pids)!r} + '.new', {str(pids)!r})\n    time.sleep(300)\n"
    )
    folders = os.pathsep.join([str(modules), *filter(None, [os.environ.get("PYTHONPATH")])])
    _check_that_it_ends_with(
        command("info", run_folder, "--store", tmp_path / "store"), {"PYTHONPATH": folders}, number, pids
    )


def _check_that_it_ends_with(
    arguments: list[str], environment: dict[str, str], number: signal.Signals, pids: Path
) -> None:
    """Send a signal to a command once what it started has written down its process ids; none of those may be left."""
    with subprocess.Popen(
        arguments, stderr=subprocess.DEVNULL, env=os.environ | environment, preexec_fn=_heed_signals
    ) as process:
        _wait_for(pids.exists)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 128 + number
    _wait_for(lambda: not any(map(_runs, pids.read_text().split())))


def _runs(pid: str) -> bool:
    """Return whether a process runs; one that ended and that nobody has asked about does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def _wait_for(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.05)


@pytest.mark.check
def test_signals_that_the_caller_ignores_stay_ignored(run_folder: Path) -> None:
    arguments = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"]
    work = "time.sleep(1); sys.exit(7)"
    program = BUSY.format(module="traceanalyzer.query.engine", function="compute_derived", work=work)
    arguments += command("diagnose", run_folder, program=program)
    with started(arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 7


@pytest.mark.long
@pytest.mark.check
def test_any_failing_write_is_one_sentence_and_leaves_the_next_command_whole(run_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    arguments = ("metrics", "export", str(run_folder), str(out), "device_time", "--format", "csv", "--jobs", "1")
    done = asked(str(tmp_path), str(run_folder / STORE_NAME), str(out), *arguments, program=FAILING, patience_s=1200)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = answers[-1][1][-1]
    for number, (faulty, sound) in enumerate(answers, 1):
        code, said, _, written, scratch = faulty
        assert scratch == [], (number, said)
        if code == 0:  # what failed was no part of the result
            assert written == ["device_time.csv"], (number, said)
        else:
            assert code == 2, (number, said)
            assert said.startswith("error: ") and "hint: " in said and "internal" not in said, (number, said)
            # It gets its name when it is complete, and what fails afterwards takes it from nobody.
            assert written in ([], ["device_time.csv"]), number
        assert sound[0] == 0, (number, sound)
        assert sound[-1] == wanted, number
    assert len(answers) > 10


@pytest.mark.check
def test_kills_at_random_leave_the_next_command_whole(run_folder: Path) -> None:
    """TRACEANALYZER_KILLS sets how many; 200 take a quarter of an hour."""
    wanted = asked("diagnose", run_folder, "--format", "json").stdout
    chosen = random.Random(0)
    shutil.rmtree(run_folder / STORE_NAME)
    for _ in range(int(os.environ.get("TRACEANALYZER_KILLS", "12"))):
        with subprocess.Popen(
            command("diagnose", run_folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(chosen.uniform(0.2, 2.5))
            process.kill()
        if chosen.random() < 0.3:
            shutil.rmtree(run_folder / STORE_NAME, ignore_errors=True)
    assert asked("diagnose", run_folder, "--format", "json").stdout == wanted
    assert left_in(run_folder) == []


@pytest.mark.check
def test_eight_commands_at_once_on_one_new_run_agree(run_folder: Path) -> None:
    arguments = command("diagnose", run_folder, "--format", "json", "--jobs", "1")
    processes = [
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(8)
    ]
    answers = [process.communicate(timeout=240) for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, answers
    assert len({out for out, _ in answers}) == 1
    assert left_in(run_folder) == []
    assert len(list((run_folder / STORE_NAME / "traces").iterdir())) == 1


def in_address_space(
    megabytes: int, *arguments: str | Path, program: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with so much address space."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20, resource.RLIM_INFINITY))

    return subprocess.run(
        command(*arguments, program=program),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
        timeout=120,
    )


@pytest.mark.check
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold the limit")
def test_a_small_address_space_is_enough_or_one_sentence(root: Path, tmp_path: Path) -> None:
    run = root / "sample_traces" / "slow_loader"
    done = in_address_space(1_500, "diagnose", run, "--store", tmp_path / "enough", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    done = in_address_space(700, "diagnose", run, "--store", tmp_path / "less", "--jobs", "2")
    assert "Traceback" not in done.stderr
    assert (done.returncode, "memory" in done.stderr) in ((0, False), (2, True)), done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold the limit")
@pytest.mark.parametrize("end", ["os.abort()", "os._exit(127)"], ids=["abort", "glibc"])
def test_a_library_that_ends_the_process_for_want_of_memory_is_explained(end: str, root: Path) -> None:
    run = root / "sample_traces" / "slow_loader"
    done = in_address_space(
        1_500, "info", run, program=BUSY.format(module="traceanalyzer.cli", function="main", work=f"import os; {end}")
    )
    assert (done.returncode, done.stdout) == (2, "busy\n")
    assert "error: not enough memory: address space is limited to 1,573 MB" in done.stderr
    assert "hint: use fewer --jobs, or raise the limit" in done.stderr


@pytest.mark.check
def test_more_files_than_a_process_may_open_are_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in range(150):
        (folder / f"rank{rank}.json").write_text(events(slice_text("op", ts=rank)))
    question = "SELECT count(*), count(DISTINCT rank), count(DISTINCT trace_id) FROM canonical.traces"
    limited = "import resource, sys\nfrom traceanalyzer.cli import main\n"
    limited += "resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))\nsys.exit(main(sys.argv[1:]))"
    done = asked("sql", folder, question, "--format", "json", program=limited)
    assert done.returncode == 0, done.stderr
    assert [list(row.values()) for row in json.loads(done.stdout)] == [[150, 150, 150]]


@pytest.mark.check
@pytest.mark.parametrize(
    "name", ["it's", 'a "b"', "new\nline", "star*?[x]", "%s $HOME `x`", "-rf", "ünï 🙂", "a;b&c|d"]
)
def test_folders_of_any_name_are_read(run_folder: Path, tmp_path: Path, name: str) -> None:
    folder = run_folder.rename(tmp_path / name)
    done = asked("diagnose", str(folder), "--format", "json")
    assert done.returncode == 0, done.stderr
    exported = asked("metrics", "export", str(folder), str(tmp_path / f"out {name}"), "device_time")
    assert exported.returncode == 0, exported.stderr


@pytest.mark.check
@pytest.mark.parametrize("jump_s", [-(10**9), 10**9])
def test_a_clock_that_jumps_changes_nothing(run_folder: Path, jump_s: int) -> None:
    wanted = asked("diagnose", run_folder, "--format", "json").stdout
    jump = f"import time; now = time.time; time.time = lambda: now() + {jump_s}\n"
    jumped = asked(
        "diagnose",
        run_folder,
        "--format",
        "json",
        program=jump + "import sys\nfrom traceanalyzer.cli import main\nsys.exit(main(sys.argv[1:]))",
    )
    assert (jumped.returncode, jumped.stdout) == (0, wanted)
    os.utime(run_folder / "rank0.json", (time.time() + jump_s / 1000, time.time() + jump_s / 1000))
    assert asked("diagnose", run_folder, "--format", "json").stdout == wanted


def _without_rights_over_modes() -> None:
    """Let the modes of files hold for root, too: what is run next gets no capability to override them."""
    if os.geteuid() == 0:
        drop_from_bounding_set, capabilities = 24, (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        for capability in capabilities:
            if ctypes.CDLL(None, use_errno=True).prctl(drop_from_bounding_set, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl")


@pytest.mark.check
@pytest.mark.skipif(os.geteuid() == 0 and sys.platform != "linux", reason="root can write everywhere")
def test_a_store_that_became_read_only_leaves_the_cache_or_one_sentence(run_folder: Path) -> None:
    def events_shown(*options: str) -> str:
        done = subprocess.run(
            command("info", run_folder, *options),
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=_without_rights_over_modes,
            timeout=240,
        )
        return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr}"

    store = run_folder / STORE_NAME
    assert "200 events" in events_shown()
    folders = [store, *(path for path in store.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    before = sorted(store.rglob("*"))
    assert "200 events" in events_shown()
    (run_folder / "rank0.json").write_text(events(slice_text("op")))
    assert "1 event" in events_shown()
    said = events_shown("--store", str(store))
    assert said.startswith("exit 2: error: ") and STORE_NAME in said and "--store" in said
    assert sorted(store.rglob("*")) == before
    for folder in folders:
        folder.chmod(0o700)
